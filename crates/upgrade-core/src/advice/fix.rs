//! What has to be done on the cluster before anything else helps.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

use super::examples::with_examples;
use crate::call::ExitCode;
use crate::product::Product;
use crate::snapshot::NodeName;
use crate::version::{Minor, Version};

with_examples! {
    /// What has to be done on the cluster. The text names no front end: the fix is
    /// the same for each of them.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Fix {
        /// Nothing answers at the address of a node.
        NodeUnreachable => Self::NodeUnreachable,
        /// Something could not be observed (rule 10).
        Connection => Self::Connection,
        /// No API server answers.
        KubernetesApi => Self::KubernetesApi,
        /// No control plane answers as one.
        Endpoints => Self::Endpoints,
        /// A node of Kubernetes has no known machine.
        FindMachine => Self::FindMachine,
        /// An image was not pulled.
        Image => Self::Image,
        /// An installer failed, with this code where it is known.
        Installer(Option<i32>) => Self::Installer(Some(2)),
        /// An installer runs that this run did not start.
        AwaitInstaller => Self::AwaitInstaller,
        /// A node is armed, or may be (rule 5).
        Disarm {
            /// What it runs.
            running: Option<Version>,
        } => Self::Disarm { running: Some(Version::new(1, 12, 11)) },
        /// The other slot of an armed node has nothing older to roll back to.
        DisarmForRollback {
            /// Which node.
            node: NodeName,
            /// What it runs.
            running: Version,
        } => Self::DisarmForRollback { node: "cp-1".into(), running: Version::new(1, 12, 11) },
        /// A machine configuration is staged, or on trial.
        StagedConfig(NodeName) => Self::StagedConfig("cp-1".into()),
        /// Pods did not leave a node.
        Drain => Self::Drain,
        /// Pods would be lost, or lose data.
        DeletePods => Self::DeletePods,
        /// A node did not come back.
        NodeGone => Self::NodeGone,
        /// A node came back on its old version (rule 5).
        BootFallback => Self::BootFallback,
        /// What runs is not what the plan expected.
        NotAsPlanned => Self::NotAsPlanned,
        /// A step did not end in its time.
        Overdue => Self::Overdue,
        /// A call was refused.
        Refused => Self::Refused,
        /// A gate stayed closed.
        Gate => Self::Gate,
        /// A node was changed by something else.
        ChangedOutside => Self::ChangedOutside,
        /// There is no etcd snapshot (rule 3).
        TakeSnapshot => Self::TakeSnapshot,
        /// Only a snapshot of etcd leads back.
        RestoreSnapshot {
            /// The Kubernetes that it was taken under, where that matters.
            kubernetes: Option<Minor>,
        } => Self::RestoreSnapshot { kubernetes: Some(Minor::new(1, 33)) },
        /// Control planes or workers are down.
        BringBack => Self::BringBack,
        /// etcd cannot lose a member (rule 1).
        RepairEtcd => Self::RepairEtcd,
        /// etcd's own downgrade has to be run by hand (rule 13).
        DowngradeEtcd(Minor) => Self::DowngradeEtcd(Minor::new(3, 5)),
        /// A member of etcd is too far behind (rule 13).
        EtcdFirst {
            /// Which node.
            node: NodeName,
            /// The oldest etcd that would do.
            etcd: Minor,
        } => Self::EtcdFirst { node: "cp-1".into(), etcd: Minor::new(3, 5) },
        /// There are too few control planes to lose one.
        AddControlPlanes(usize) => Self::AddControlPlanes(1),
        /// The upgrade call of this Talos wipes the data of a node.
        PreserveData => Self::PreserveData,
        /// What runs is older than everything that this program knows.
        UpgradeByHand {
            /// Of what.
            product: Product,
            /// The oldest line that is known.
            oldest: Minor,
        } => Self::UpgradeByHand { product: Product::Talos, oldest: Minor::new(1, 2) },
        /// What runs is not supported, and no supported step leads out of it.
        Unsupported => Self::Unsupported,
        /// Talos runs in a container.
        Container => Self::Container,
        /// Nothing is configured that upgrades nodes from outside.
        ExternalUpgrader => Self::ExternalUpgrader,
    }
}

impl Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NodeUnreachable => "check the network path to the node",
            Self::Connection => {
                "nothing is disrupted while something cannot be seen: restore the connection"
            }
            Self::KubernetesApi => {
                "check that an API server runs and that its address can be reached from here (the \
                 machines are asked through Talos, not through it)"
            }
            Self::Endpoints => "check that the endpoints are control planes of this cluster",
            Self::FindMachine => {
                "if it is a Talos node, check that apid answers at its address, or list the \
                 machine under `nodes` in the talosconfig"
            }
            Self::Image => "check that the image exists and that the node reaches its registry",
            Self::Installer(None) => {
                "read the installer's last lines, correct the cause, and check what the node boots \
                 next"
            }
            Self::Installer(Some(code)) => {
                ExitCode::of(*code).unwrap_or(ExitCode::Unknown).remedy()
            }
            Self::AwaitInstaller => {
                "wait until the installer has ended, then reboot the node or roll it back"
            }
            Self::Disarm { running } => return disarm(f, running.as_ref()),
            Self::DisarmForRollback { node, running } => {
                return write!(
                    f,
                    "run `talosctl rollback` on {node} to disarm it, which reboots it into \
                     {running}, or reboot it to boot what is armed and roll back from there"
                );
            }
            Self::StagedConfig(node) => {
                return write!(
                    f,
                    "reboot {node}, or apply the wanted machine configuration without a reboot"
                );
            }
            Self::Drain => "make room for the pods named, or relax their disruption budget",
            Self::DeletePods => "delete the pods named, once they can be spared",
            Self::NodeGone => "check the node's console; it may need a power cycle",
            Self::BootFallback => {
                "the old version runs and nothing was overwritten: find out why the new one did not \
                 boot"
            }
            Self::NotAsPlanned => "compare what runs with what the plan expected",
            Self::Overdue => "find out what the step was still waiting for",
            Self::Refused => "read the refusal and remove its cause",
            Self::Gate => "remove the cause of the wait",
            Self::ChangedOutside => "find out what else changed the node",
            Self::TakeSnapshot => "take an etcd snapshot",
            Self::RestoreSnapshot { kubernetes: None } => "restore an etcd snapshot",
            Self::RestoreSnapshot { kubernetes: Some(minor) } => {
                return write!(f, "restore an etcd snapshot taken under {minor}");
            }
            Self::BringBack => "bring back what is down",
            Self::RepairEtcd => "repair etcd",
            Self::DowngradeEtcd(etcd) => {
                return write!(
                    f,
                    "run `talosctl etcd downgrade validate {etcd}` and `talosctl etcd downgrade \
                     enable {etcd}`, wait until `talosctl etcd status` shows storage {etcd} on \
                     every member"
                );
            }
            Self::EtcdFirst { node, etcd } => {
                return write!(f, "bring {node} to a Talos with etcd {etcd} first");
            }
            Self::AddControlPlanes(1) => "add control planes",
            Self::AddControlPlanes(_) => "add a third control plane",
            Self::PreserveData => {
                "upgrade the nodes to Talos 1.8 by hand first, with `talosctl upgrade --preserve`, \
                 one control plane at a time"
            }
            Self::UpgradeByHand { product, oldest } => {
                return write!(
                    f,
                    "nothing is known of {product} before {oldest}: upgrade to that by hand first"
                );
            }
            Self::Unsupported => {
                "no supported step leads towards it: bring what runs into support by hand"
            }
            Self::Container => {
                "start the container from the newer image (Kubernetes can be upgraded here)"
            }
            Self::ExternalUpgrader => {
                "configure what upgrades the nodes, or let them be upgraded through the Talos API"
            }
        })
    }
}

/// The ways out of an armed node (rule 5): boot what is armed, or stay on what runs.
fn disarm(f: &mut fmt::Formatter<'_>, running: Option<&Version>) -> fmt::Result {
    f.write_str(
        "reboot the node to boot what is armed, or run `talosctl rollback` on it to stay on ",
    )?;
    match running {
        Some(version) => write!(f, "{version}"),
        None => f.write_str("what runs"),
    }
}
