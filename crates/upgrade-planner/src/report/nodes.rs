//! Refusals and warnings about the intent for single nodes.

use std::collections::BTreeMap;
use std::fmt;

use upgrade_core::advice::{Advice, Choice, Fix};
use upgrade_core::snapshot::NodeName;
use upgrade_core::text;
use upgrade_core::version::{Minor, Version};

use super::Refusal;

/// How many nodes are named; the rest is a number.
const NAMED: usize = 20;

/// The first few nodes, and how many there are besides.
pub(super) fn named(nodes: &[NodeName]) -> String {
    text::first(nodes, NAMED)
}

/// Control planes on different versions, and what it means for etcd.
pub(super) fn mixed(
    f: &mut fmt::Formatter<'_>,
    versions: &BTreeMap<Version, Vec<NodeName>>,
    etcd: Option<Minor>,
) -> fmt::Result {
    let runs = |(version, nodes): (&Version, &Vec<NodeName>)| {
        format!("Talos {version} on {}", named(nodes))
    };
    let runs: Vec<String> = versions.iter().map(runs).collect();
    write!(f, "control planes run different versions afterwards: {}", runs.join("; "))?;
    match etcd {
        Some(etcd) => write!(f, "; etcd stays on {etcd} until all of them have the newer one"),
        None => Ok(()),
    }
}

impl Refusal {
    /// What to do about an intent for one node.
    pub(super) fn advice_on_nodes(&self) -> Advice {
        let release = |node: &NodeName| Advice::ReleaseHold(vec![node.clone()]);
        match self {
            Self::NoSuchNode { nodes, .. } => Advice::ChooseTarget(Choice::Nodes(nodes.clone())),
            Self::NodeDowngrade { node, from, .. } => {
                Advice::ChooseTarget(Choice::OfNode { node: node.clone(), running: from.clone() })
            }
            Self::OtherTag { version, .. } => Advice::ChooseTarget(Choice::Tag(version.clone())),
            Self::HeldControlPlane { node, .. } => {
                Advice::AnyOf(vec![release(node), Advice::ChooseTarget(Choice::TalosAlone)])
            }
            Self::HeldKubelet { node, .. } => {
                Advice::AnyOf(vec![release(node), Advice::ChooseTarget(Choice::ForKubelet)])
            }
            Self::EtcdApart { node, brings, .. } => Advice::AnyOf(vec![
                Advice::plan_after(Fix::EtcdFirst { node: node.clone(), etcd: brings.previous() }),
                Advice::ChooseTarget(Choice::OlderForOthers),
            ]),
            _ => Advice::AnyOf(Vec::new()),
        }
    }

    /// What is wrong with an intent for one node.
    pub(super) fn about_nodes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchNode { node, .. } => write!(f, "there is no node {node}"),
            Self::NodeDowngrade { node, from, to } => {
                write!(f, "Talos {to} was given for {node}, which runs {from}: that is older")
            }
            Self::OtherTag { node, image, version } => {
                write!(f, "{image} was given for {node}, which is to run Talos {version}")
            }
            Self::HeldControlPlane { node, running, to } => write!(
                f,
                "control plane {node} is held on Kubernetes {running}: to reach {to}, every API \
                 server has to move before any kubelet"
            ),
            Self::HeldKubelet { node, kubelet, to } => write!(
                f,
                "{node} is held, and its kubelet {kubelet} does not work with API servers of \
                 {to}: it may be three minors older, and not newer"
            ),
            Self::EtcdApart { node, talos, etcd, to, brings } => write!(
                f,
                "control plane {node} would stay on Talos {talos} with etcd {etcd}, others have \
                 Talos {to} with etcd {brings}: members may be one minor apart"
            ),
            _ => Ok(()),
        }
    }
}
