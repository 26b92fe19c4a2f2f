//! Why there is no plan, and what to do about it.

use std::fmt::{self, Display};

use serde::Serialize;
use upgrade_core::advice::{Advice, Choice, Fix, Permission};
use upgrade_core::image::ImageRef;
use upgrade_core::plan::Versions;
use upgrade_core::snapshot::NodeName;
use upgrade_core::text;
use upgrade_core::version::{Minor, Version};

use super::{Constraint, Product};

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum Refusal {
    /// The policy cannot be followed.
    BadPolicy {
        /// Why not.
        problem: String,
    },
    /// Neither product has a target.
    NoTarget,
    /// Nodes are to be upgraded from outside, and nothing that does it is configured.
    NoExternalUpgrader,
    /// No control plane was observed.
    NoControlPlane,
    /// Rule 13: versions do not fall unless a rollback was asked for.
    Downgrade {
        /// Of what.
        product: Product,
        /// What runs.
        from: Version,
        /// What was asked for.
        to: Version,
    },
    /// A rollback was asked for, and the target is newer than what runs: gates
    /// would be opened for something that is not a rollback (rule 12).
    NoWayBack {
        /// Of what.
        product: Product,
        /// What runs.
        from: Version,
        /// What was asked for.
        to: Version,
    },
    /// Kubernetes that has come to a minor in all its parts never goes back:
    /// its stored objects may not be readable by the older one.
    KubernetesRollback {
        /// What runs.
        from: Version,
        /// What was asked for.
        to: Version,
    },
    /// The support matrix has no such line (rule 10).
    UnknownMinor {
        /// Of what.
        product: Product,
        /// The version asked for.
        version: Version,
        /// The oldest line known.
        oldest: Minor,
        /// The newest line known.
        newest: Minor,
    },
    /// The upgrade call of this Talos wipes the node's data.
    HostTooOld {
        /// What runs.
        talos: Version,
    },
    /// The rollback crosses a minor of etcd, and etcd's own downgrade cannot be run
    /// (rule 13).
    EtcdDowngrade {
        /// What Talos would run afterwards.
        to: Version,
        /// The etcd that it brings.
        etcd: Minor,
        /// Why not.
        why: String,
    },
    /// No sequence of supported steps leads there (rule 13).
    NoPath {
        /// What stands in the way.
        #[serde(flatten)]
        constraint: Constraint,
        /// What runs.
        running: Versions,
        /// As far as one can go towards the target.
        furthest: Versions,
    },
    /// A node could not be observed (rule 10).
    NodeUnknown {
        /// Which.
        node: NodeName,
        /// What is missing.
        why: String,
    },
    /// No machine is known for a Kubernetes node, or the role of a named machine is not
    /// known (rule 10).
    NoMachine {
        /// Which node.
        node: NodeName,
        /// Why not.
        why: String,
    },
    /// Kubernetes lists no node at all (rule 10). The machines may be healthy.
    KubernetesAway {
        /// Why not.
        why: String,
    },
    /// The version of Kubernetes could not be observed (rule 10).
    KubernetesUnknown {
        /// Why not.
        why: String,
    },
    /// A control plane is not serving (rule 1).
    ControlPlaneDown {
        /// Which.
        node: NodeName,
        /// Why it counts as down.
        why: String,
    },
    /// etcd cannot lose a member (rule 1).
    EtcdUnsafe {
        /// What is wrong.
        why: String,
    },
    /// One or two control planes cannot lose one and keep quorum (rule 1).
    Outage {
        /// How many there are.
        control_planes: usize,
    },
    /// As many workers are down already as the limit allows (rule 6).
    NoRoom {
        /// The pool with its own limit, if it is one.
        pool: Option<String>,
        /// The limit.
        limit: usize,
        /// The workers that are down.
        down: Vec<NodeName>,
    },
    /// The installer would drop extensions (rule 4).
    ExtensionsLost {
        /// Where.
        node: NodeName,
        /// Which installer.
        installer: String,
        /// Which extensions.
        extensions: Vec<String>,
    },
    /// The installer that fits the node cannot be determined (rule 10).
    NoInstaller {
        /// Which node.
        node: NodeName,
        /// Why.
        why: String,
    },
    /// The named installer is for another platform or another kind of boot (rule 4).
    WrongInstaller {
        /// Which node.
        node: NodeName,
        /// The installer.
        installer: ImageRef,
        /// The platform that the node runs on.
        platform: String,
        /// Whether it boots with Secure Boot.
        secure_boot: bool,
    },
    /// Talos runs in a container there: nothing can be installed.
    ContainerMode {
        /// Which node.
        node: NodeName,
    },
    /// An installer ran on the node in this boot: another one would delete what
    /// runs (rule 5).
    Armed {
        /// Which node.
        node: NodeName,
        /// What it is armed with.
        image: ImageRef,
        /// Whether that installer failed, so that the next boot is not known.
        failed: bool,
    },
    /// An installer ran on the node in this boot, so its other slot holds what
    /// runs: there is nothing older to roll back to (rules 5 and 12).
    RollbackArmed {
        /// Which node.
        node: NodeName,
        /// What it is armed with.
        image: ImageRef,
        /// What it runs.
        running: Version,
    },
    /// The intent names a node that the cluster does not have.
    NoSuchNode {
        /// The name that was given.
        node: NodeName,
        /// Those that there are.
        nodes: Vec<NodeName>,
    },
    /// Rule 13: a version that was given for one node is older than what it runs.
    NodeDowngrade {
        /// Which node.
        node: NodeName,
        /// What it runs.
        from: Version,
        /// What was asked for.
        to: Version,
    },
    /// The image that was named for one node is of another version than the node's.
    OtherTag {
        /// Which node.
        node: NodeName,
        /// The image.
        image: ImageRef,
        /// The version that the node is to run.
        version: Version,
    },
    /// Rule 13: Kubernetes would leave a control plane behind that is held.
    HeldControlPlane {
        /// Which node.
        node: NodeName,
        /// The Kubernetes that it runs.
        running: Version,
        /// What the others would run.
        to: Version,
    },
    /// Rule 13: the kubelet of a held node would be too old, or too new, for the API
    /// servers.
    HeldKubelet {
        /// Which node.
        node: NodeName,
        /// What it runs.
        kubelet: Version,
        /// What the API servers would run.
        to: Version,
    },
    /// Rule 13: members of etcd would be more than a minor apart.
    EtcdApart {
        /// The node that stays behind.
        node: NodeName,
        /// The Talos that it runs then.
        talos: Version,
        /// The etcd that this brings.
        etcd: Minor,
        /// The Talos that others would run.
        to: Version,
        /// The etcd that that brings.
        brings: Minor,
    },
}

impl Refusal {
    /// What the user can do next.
    pub fn advice(&self) -> Advice {
        let plan_after = Advice::plan_after;
        match self {
            Self::BadPolicy { .. } => Advice::CorrectPolicy,
            Self::NoTarget => Advice::ChooseTarget(Choice::Any),
            Self::NoExternalUpgrader => plan_after(Fix::ExternalUpgrader),
            Self::NoControlPlane => plan_after(Fix::Endpoints),
            Self::Downgrade { .. } => Advice::AnyOf(vec![
                Advice::ChooseTarget(Choice::Newer),
                Advice::Allow(Permission::Rollback),
            ]),
            Self::NoWayBack { .. } => Advice::WithdrawRollback,
            Self::KubernetesRollback { from, to } => Advice::AnyOf(vec![
                Advice::ChooseTarget(Choice::Within {
                    product: Product::Kubernetes,
                    minor: from.minor(),
                }),
                plan_after(Fix::RestoreSnapshot { kubernetes: Some(to.minor()) }),
            ]),
            Self::UnknownMinor { version, oldest, product, .. } if version.minor() < *oldest => {
                plan_after(Fix::UpgradeByHand { product: *product, oldest: *oldest })
            }
            Self::UnknownMinor { newest, product, .. } => Advice::AnyOf(vec![
                Advice::ChooseTarget(Choice::AtMost { product: *product, minor: *newest }),
                Advice::UpdateProgram,
            ]),
            Self::HostTooOld { .. } => plan_after(Fix::PreserveData),
            Self::EtcdDowngrade { etcd, .. } => Advice::AnyOf(vec![
                plan_after(Fix::DowngradeEtcd(*etcd)),
                plan_after(Fix::RestoreSnapshot { kubernetes: None }),
            ]),
            Self::NoPath { constraint, running, furthest } => {
                no_path(constraint, (furthest != running).then_some(furthest))
            }
            Self::NodeUnknown { .. } | Self::KubernetesUnknown { .. } => {
                plan_after(Fix::Connection)
            }
            Self::KubernetesAway { .. } => plan_after(Fix::KubernetesApi),
            Self::NoMachine { node, .. } => Advice::no_machine(node),
            Self::ControlPlaneDown { .. } => plan_after(Fix::BringBack),
            Self::EtcdUnsafe { .. } => plan_after(Fix::RepairEtcd),
            Self::Outage { control_planes } => Advice::AnyOf(vec![
                Advice::Allow(Permission::Outage),
                plan_after(Fix::AddControlPlanes(*control_planes)),
            ]),
            Self::NoRoom { pool, .. } => {
                Advice::AnyOf(vec![plan_after(Fix::BringBack), Advice::RaiseLimit(pool.clone())])
            }
            Self::ExtensionsLost { .. } => Advice::AnyOf(vec![
                Advice::NameSchematic,
                Advice::Allow(Permission::KeepExtensions),
                Advice::Allow(Permission::DropExtensions),
            ]),
            Self::NoInstaller { .. } => Advice::NameInstaller(None),
            Self::WrongInstaller { platform, secure_boot, .. } => {
                let secure = if *secure_boot { "-secureboot" } else { "" };
                Advice::NameInstaller(Some(format!("{platform}-installer{secure}")))
            }
            Self::ContainerMode { .. } => plan_after(Fix::Container),
            Self::Armed { .. } => plan_after(Fix::Disarm { running: None }),
            Self::RollbackArmed { node, running, .. } => {
                plan_after(Fix::DisarmForRollback { node: node.clone(), running: running.clone() })
            }
            Self::NoSuchNode { .. }
            | Self::NodeDowngrade { .. }
            | Self::OtherTag { .. }
            | Self::HeldControlPlane { .. }
            | Self::HeldKubelet { .. }
            | Self::EtcdApart { .. } => self.advice_on_nodes(),
        }
    }
}

/// What stands in the way, and how far supported steps lead.
fn no_path(constraint: &Constraint, furthest: Option<&Versions>) -> Advice {
    let needs = match constraint {
        Constraint::Pair { kubernetes, needs: Some(line), .. } => {
            Some(Choice::NeedsTalos { kubernetes: kubernetes.minor(), talos: *line })
        }
        Constraint::Patch { first, .. } => {
            Some(Choice::First { product: Product::Talos, version: first.clone() })
        }
        _ => None,
    };
    let reach = furthest.map(|furthest| Choice::Furthest(furthest.clone()));
    let mut choices: Vec<_> = needs.into_iter().chain(reach).map(Advice::ChooseTarget).collect();
    match choices.len() {
        0 => Advice::plan_after(Fix::Unsupported),
        1 => choices.remove(0),
        _ => Advice::AnyOf(choices),
    }
}

impl Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadPolicy { problem } => f.write_str(problem),
            Self::NoTarget => f.write_str("there is no target"),
            Self::NoExternalUpgrader => f.write_str(
                "nodes are to be upgraded from outside, and nothing that does it is configured",
            ),
            Self::NoControlPlane => f.write_str("no control plane was observed"),
            Self::Downgrade { product, from, to } => {
                write!(f, "{product} {to} is older than {from}, which runs")
            }
            Self::NoWayBack { product, from, to } => {
                write!(f, "{product} {to} is not a rollback: it is newer than {from}, which runs")
            }
            Self::KubernetesRollback { from, to } => {
                write!(f, "Kubernetes cannot go back from {from} to {to}, which is another minor")
            }
            Self::UnknownMinor { product, version, oldest, newest } => write!(
                f,
                "{product} {version} is not in the support matrix, which covers {oldest} to {newest}"
            ),
            Self::HostTooOld { talos } => write!(
                f,
                "Talos {talos} runs: up to 1.7 an upgrade wipes the node's EPHEMERAL partition, \
                 etcd's data and local volumes included, unless it is asked to preserve it"
            ),
            Self::EtcdDowngrade { to, etcd, why } => write!(
                f,
                "Talos {to} brings etcd {etcd}, which does not start on the data of a newer \
                 minor: {why}"
            ),
            Self::NoPath { constraint, running: _, furthest: _ } => {
                write!(f, "no supported path leads there: {constraint}")
            }
            Self::NodeUnknown { node, why } => write!(f, "the state of {node} is unknown: {why}"),
            Self::KubernetesAway { why } => write!(f, "the Kubernetes API does not answer: {why}"),
            Self::NoMachine { node, why } => {
                write!(f, "no machine is known for node {node}: {why}")
            }
            Self::KubernetesUnknown { why } => {
                write!(f, "the Kubernetes version is unknown: {why}")
            }
            Self::ControlPlaneDown { node, why } => {
                write!(f, "control plane {node} is not ready: {why}")
            }
            Self::EtcdUnsafe { why } => write!(f, "etcd cannot lose a member now: {why}"),
            Self::Outage { control_planes: 1 } => f.write_str(
                "the only control plane has to be disrupted: the Kubernetes API is unavailable meanwhile",
            ),
            Self::Outage { control_planes } => write!(
                f,
                "{control_planes} control planes cannot lose one and keep etcd's quorum: \
                 the Kubernetes API is unavailable while each reboots"
            ),
            Self::NoRoom { pool, limit, down } => {
                if let Some(pool) = pool {
                    write!(f, "pool {pool}: ")?;
                }
                write!(f, "{} down already, and at most {limit} may be", text::all(down))
            }
            Self::ExtensionsLost { node, installer, extensions } => {
                write!(f, "{node} would lose {}: {installer} lacks them", extensions.join(", "))
            }
            Self::NoInstaller { node, why } => write!(f, "no installer for {node}: {why}"),
            Self::WrongInstaller { node, installer, platform, secure_boot } => {
                let secure = if *secure_boot { "with" } else { "without" };
                write!(
                    f,
                    "{installer} is not for {node}, which runs on {platform} {secure} Secure \
                     Boot: it would not come back"
                )
            }
            Self::ContainerMode { node } => {
                write!(f, "{node} runs Talos in a container, where it cannot be upgraded")
            }
            Self::Armed { node, image, failed: false } => write!(
                f,
                "{node} is armed with {image}, and another installer would delete what runs"
            ),
            Self::Armed { node, image, failed: true } => write!(
                f,
                "the installer {image} failed on {node}, the next boot may be into it, and \
                 another installer would delete what runs"
            ),
            Self::RollbackArmed { node, image, running } => write!(
                f,
                "{node} is armed with {image} and has not rebooted since: its other slot holds \
                 {running}, which runs, and nothing older"
            ),
            Self::NoSuchNode { .. }
            | Self::NodeDowngrade { .. }
            | Self::OtherTag { .. }
            | Self::HeldControlPlane { .. }
            | Self::HeldKubelet { .. }
            | Self::EtcdApart { .. } => self.about_nodes(f),
        }
    }
}
