//! The words about what is wanted of single nodes.

use std::collections::BTreeMap;
use std::fmt;

use upgrade_core::snapshot::NodeName;
use upgrade_core::version::{Minor, Version};

use super::Refusal;

/// How many nodes are named; the rest is a number.
const NAMED: usize = 20;

/// The first few nodes, and how many there are beside them.
pub(super) fn named(nodes: &[NodeName]) -> String {
    let names: Vec<&str> = nodes.iter().take(NAMED).map(|node| node.0.as_str()).collect();
    match nodes.len() - names.len() {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
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
    /// What to do about a wish for one node.
    pub(super) fn advice_on_nodes(&self) -> String {
        match self {
            Self::NoSuchNode { nodes, .. } => format!("the nodes are {}", named(nodes)),
            Self::NodeDowngrade { node, from, .. } => format!(
                "give {node} Talos {from} or a newer one; going back is a rollback of the node"
            ),
            Self::OtherTag { version, .. } => {
                format!("remove the tag, or write {}", version.tag())
            }
            Self::HeldControlPlane { node, .. } => {
                format!("release {node}, or upgrade Talos alone")
            }
            Self::HeldKubelet { node, .. } => {
                format!("release {node}, or choose a Kubernetes version that suits its kubelet")
            }
            Self::EtcdApart { node, brings, .. } => format!(
                "bring {node} to a Talos with etcd {} first, or choose an older target for the \
                 others",
                brings.previous()
            ),
            _ => String::new(),
        }
    }

    /// What is wrong with a wish for one node.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_nodes_are_counted() {
        let nodes: Vec<NodeName> = (1..=22).map(|number| NodeName(format!("w-{number}"))).collect();
        assert!(named(&nodes).ends_with("w-20 and 2 more"), "{}", named(&nodes));
        assert_eq!(named(&nodes[..2]), "w-1, w-2");
    }
}
