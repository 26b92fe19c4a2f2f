//! Why there is no plan, and what to do about it.

use std::fmt::{self, Display};

use serde::Serialize;
use upgrade_core::image::ImageRef;
use upgrade_core::plan::Versions;
use upgrade_core::snapshot::NodeName;
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
    /// would be opened for something that is no way back (rule 12).
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
    /// The way back leads over a minor of etcd, and etcd's own downgrade cannot be
    /// run (rule 13).
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
    /// A node could not be seen (rule 10).
    NodeUnknown {
        /// Which.
        node: NodeName,
        /// What is missing.
        why: String,
    },
    /// No machine is known for a Kubernetes node, or not even the role of a machine that
    /// somebody names (rule 10).
    NoMachine {
        /// Which node.
        node: NodeName,
        /// Why not.
        why: String,
    },
    /// Kubernetes tells of no node at all (rule 10). The machines may be well.
    KubernetesAway {
        /// Why not.
        why: String,
    },
    /// The version of Kubernetes could not be seen (rule 10).
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
    /// etcd is not fit to lose a member (rule 1).
    EtcdUnsafe {
        /// What is wrong.
        why: String,
    },
    /// One or two control planes cannot lose one and keep quorum (rule 1).
    Outage {
        /// How many there are.
        control_planes: usize,
    },
    /// As many workers are down already as may be (rule 6).
    NoRoom {
        /// The pool with its own limit, if it is one.
        pool: Option<String>,
        /// The limit.
        limit: usize,
        /// Who is down.
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
    /// There is no telling which installer fits the node (rule 10).
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
    /// Something is wanted of a node that the cluster does not have.
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
    /// What to do about it.
    pub fn advice(&self) -> String {
        match self {
            Self::BadPolicy { .. } => "correct the policy".to_owned(),
            Self::NoTarget => "name a Talos target, a Kubernetes target, or both".to_owned(),
            Self::NoControlPlane => {
                "check that the endpoints are control planes of this cluster".to_owned()
            }
            Self::Downgrade { .. } => {
                "choose a newer target, or say --rollback if going back is what you want".to_owned()
            }
            Self::NoWayBack { .. } => "leave out --rollback".to_owned(),
            Self::KubernetesRollback { from, to } => format!(
                "stay within Kubernetes {}, or restore an etcd snapshot taken under {}",
                from.minor(),
                to.minor()
            ),
            Self::UnknownMinor { version, oldest, product, .. } if version.minor() < *oldest => {
                format!("nothing is known of {product} before {oldest}; that far goes only by hand")
            }
            Self::UnknownMinor { newest, product, .. } => format!(
                "choose {product} {newest} or older, or use a newer talos-operator that knows the release"
            ),
            Self::HostTooOld { .. } => "upgrade the nodes to Talos 1.8 by hand first, with \
                 `talosctl upgrade --preserve`, one control plane at a time"
                .to_owned(),
            Self::EtcdDowngrade { etcd, .. } => format!(
                "run `talosctl etcd downgrade validate {etcd}` and `talosctl etcd downgrade \
                 enable {etcd}`, wait until `talosctl etcd status` shows storage {etcd} on every \
                 member, then plan again; or restore an etcd snapshot"
            ),
            Self::NoPath { constraint, running, furthest } => {
                let needs = match constraint {
                    Constraint::Pair { kubernetes, needs: Some(line), .. } => Some(format!(
                        "Kubernetes {} needs Talos {line} or newer",
                        kubernetes.minor()
                    )),
                    Constraint::Patch { first, .. } => {
                        Some(format!("upgrade to Talos {first} first"))
                    }
                    _ => None,
                };
                let reach = (furthest != running).then(|| furthest_words(furthest));
                match (needs, reach) {
                    (Some(needs), Some(reach)) => format!("{needs}; {reach}"),
                    (Some(only), None) | (None, Some(only)) => only,
                    (None, None) => "not one supported step leads towards it; \
                         bring what runs into support by hand"
                        .to_owned(),
                }
            }
            Self::NodeUnknown { .. } | Self::KubernetesUnknown { .. } => {
                "mend the connection and plan again; nothing is disrupted unseen".to_owned()
            }
            Self::KubernetesAway { .. } => "check that an API server runs and that its address \
                 can be reached from here; the machines are asked through Talos, not through it"
                .to_owned(),
            Self::NoMachine { node, .. } => format!(
                "if it is a Talos node, check that apid answers at its address, or list the \
                 machine under `nodes` in the talosconfig; if it is not, list it as foreign \
                 (--foreign-node {node})"
            ),
            Self::ControlPlaneDown { .. } => "bring it back first".to_owned(),
            Self::EtcdUnsafe { .. } => "mend etcd first".to_owned(),
            Self::Outage { control_planes: 1 } => {
                "accept the outage with --accept-outage, or add control planes".to_owned()
            }
            Self::Outage { .. } => {
                "accept the outage with --accept-outage, or add a third control plane".to_owned()
            }
            Self::NoRoom { .. } => "bring them back first, or raise the limit".to_owned(),
            Self::ExtensionsLost { .. } => {
                "name the node's schematic; or say --keep-extensions if the image brings them, \
                 --drop-extensions if they may go"
                    .to_owned()
            }
            Self::NoInstaller { .. } => "name the installer image with --image".to_owned(),
            Self::WrongInstaller { platform, secure_boot, .. } => {
                let secure = if *secure_boot { "-secureboot" } else { "" };
                format!("name the image for it, such as {platform}-installer{secure}")
            }
            Self::ContainerMode { .. } => {
                "start the container from the newer image; Kubernetes can be upgraded here"
                    .to_owned()
            }
            Self::Armed { .. } => "reboot the node to boot what is armed, or run `talosctl \
                                   rollback` on it to stay on what runs, then plan again"
                .to_owned(),
            Self::RollbackArmed { node, running, .. } => format!(
                "run `talosctl rollback` on {node} to disarm it, which reboots it into {running}; \
                 or reboot it to boot what is armed, and roll back then"
            ),
            Self::NoSuchNode { .. }
            | Self::NodeDowngrade { .. }
            | Self::OtherTag { .. }
            | Self::HeldControlPlane { .. }
            | Self::HeldKubelet { .. }
            | Self::EtcdApart { .. } => self.advice_on_nodes(),
        }
    }
}

impl Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadPolicy { problem } => f.write_str(problem),
            Self::NoTarget => f.write_str("there is no target"),
            Self::NoControlPlane => f.write_str("the cluster shows no control plane"),
            Self::Downgrade { product, from, to } => {
                write!(f, "{product} {to} is older than {from}, which runs")
            }
            Self::NoWayBack { product, from, to } => {
                write!(f, "{product} {to} is no way back: it is newer than {from}, which runs")
            }
            Self::KubernetesRollback { from, to } => {
                write!(f, "Kubernetes does not go back from {from} to {to}: that is another minor")
            }
            Self::UnknownMinor { product, version, oldest, newest } => write!(
                f,
                "{product} {version} is unknown to the support matrix, which goes from {oldest} to {newest}"
            ),
            Self::HostTooOld { talos } => write!(
                f,
                "Talos {talos} runs: up to 1.7 an upgrade wipes the node's EPHEMERAL partition, \
                 etcd's data and local volumes included, unless it is told to preserve it"
            ),
            Self::EtcdDowngrade { to, etcd, why } => write!(
                f,
                "Talos {to} brings etcd {etcd}, which does not start on the data of a newer \
                 minor: {why}"
            ),
            Self::NoPath { constraint, running: _, furthest: _ } => {
                write!(f, "no supported path leads there: {constraint}")
            }
            Self::NodeUnknown { node, why } => write!(f, "{node} cannot be seen: {why}"),
            Self::KubernetesAway { why } => write!(f, "the Kubernetes API is away: {why}"),
            Self::NoMachine { node, why } => {
                write!(f, "no machine is known for node {node}: {why}")
            }
            Self::KubernetesUnknown { why } => {
                write!(f, "the Kubernetes version cannot be seen: {why}")
            }
            Self::ControlPlaneDown { node, why } => {
                write!(f, "control plane {node} is not ready: {why}")
            }
            Self::EtcdUnsafe { why } => write!(f, "etcd is not fit to lose a member: {why}"),
            Self::Outage { control_planes: 1 } => f.write_str(
                "the only control plane is to be disrupted: the Kubernetes API is away meanwhile",
            ),
            Self::Outage { control_planes } => write!(
                f,
                "{control_planes} control planes cannot lose one and keep etcd's quorum: \
                 the Kubernetes API is away while each reboots"
            ),
            Self::NoRoom { pool, limit, down } => {
                if let Some(pool) = pool {
                    write!(f, "pool {pool}: ")?;
                }
                let names: Vec<_> = down.iter().map(ToString::to_string).collect();
                write!(f, "{} down already, and at most {limit} may be", names.join(", "))
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

fn furthest_words(furthest: &Versions) -> String {
    let words: Vec<String> = [
        furthest.talos.as_ref().map(|version| format!("Talos {version}")),
        furthest.kubernetes.as_ref().map(|version| format!("Kubernetes {version}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    format!("the furthest reachable is {}", words.join(" with "))
}
