//! Everything outside the process, as small traits: reading machines, changing a node,
//! administering etcd, Kubernetes, the clock. The journal has its own module. Each trait can be
//! implemented on its own, without delegating the others.
//!
//! The engine opens no socket and reads no clock except through these. A live cluster implements
//! them over the network, the deterministic simulation in memory under a paused clock; the engine
//! cannot tell them apart.
//!
//! Implementations report facts and carry out single acts; they decide nothing. Waiting for
//! something to become true is the engine's task: it observes, and observes again when [`Changes`]
//! says that it may be worth it.

pub mod etcd;
pub mod external;
pub mod kubernetes;
pub mod kubernetes_error;
pub mod machines;
pub mod roster;
pub mod talos_error;
pub mod upgrader;

use std::future::Future;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use upgrade_core::event::StepProgress;
use upgrade_core::jiff;
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::snapshot::{NodeName, Role};

use crate::snapshots::SnapshotStore;

pub use etcd::EtcdAdmin;
pub use external::{ExternalUpgrader, NoExternal};
pub use kubernetes::Kubernetes;
pub use machines::Machines;
pub use upgrader::NodeUpgrader;

/// Everything outside the process that a run touches.
pub trait Io: Send + Sync + 'static {
    /// Reads the machines.
    type Machines: Machines;
    /// Changes one node.
    type Upgrader: NodeUpgrader;
    /// Upgrades nodes by other means than the Talos API; [`NoExternal`] if nothing does.
    type External: ExternalUpgrader;
    /// Administers etcd.
    type Etcd: EtcdAdmin;
    /// Keeps etcd snapshots, off the cluster.
    type Snapshots: SnapshotStore;
    /// The Kubernetes API of the cluster.
    type Kubernetes: Kubernetes;
    /// The time.
    type Clock: Clock;

    /// Reads the machines.
    fn machines(&self) -> &Self::Machines;
    /// Changes one node.
    fn upgrader(&self) -> &Self::Upgrader;
    /// Administers etcd.
    fn etcd(&self) -> &Self::Etcd;
    /// Upgrades nodes by other means, if something does.
    fn external(&self) -> Option<&Self::External> {
        None
    }
    /// Keeps etcd snapshots, off the cluster.
    fn snapshots(&self) -> &Self::Snapshots;
    /// The Kubernetes API of the cluster.
    fn kubernetes(&self) -> &Self::Kubernetes;
    /// The time.
    fn clock(&self) -> &Self::Clock;

    /// Returns once the whole cluster may be observed: a process that drives many clusters
    /// limits how many it observes at once. No deadline runs meanwhile. The permit ends when
    /// the returned value is dropped.
    fn observe_permit(&self) -> impl Future<Output: Send> + Send {
        std::future::ready(())
    }
}

/// The time. Tests pause it and move it forward.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
    /// Returns after this long; at once if it is not positive.
    fn sleep(&self, span: SignedDuration) -> impl Future<Output = ()> + Send;
}

/// A machine and its address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Machine {
    /// Its name: Kubernetes node name and Talos hostname.
    pub name: NodeName,
    /// Its address for the Talos API.
    pub address: String,
    /// Control plane or worker.
    pub role: Role,
}

/// A counter that grows whenever something may have changed. Its holder observes again then; a
/// missed value loses nothing, since every observation is complete. The sender is dropped only when
/// no more values will come; after that only the fallback interval is left.
pub type Changes = watch::Receiver<u64>;

/// Whether an act that failed may have been carried out all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It was not.
    No,
    /// Not known: observe before doing it again (rule 8).
    Unknown,
    /// It was started, and the other side reports that it failed. How far it came is not known.
    Failed,
}

/// A read or an act that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoError {
    /// What went wrong; the text contains no secrets.
    pub failure: Failure,
    /// Whether it may have been carried out. Reads never change anything: [`Applied::No`].
    pub applied: Applied,
}

impl IoError {
    /// An error of something that was certainly not carried out.
    pub fn new(kind: FailureKind, text: &str) -> Self {
        Self { failure: Failure::new(kind, text), applied: Applied::No }
    }
}

impl std::fmt::Display for IoError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.failure.fmt(f)
    }
}

/// Where an act reports its progress. The latest report replaces the one before.
pub trait ProgressSink: Send + Sync {
    /// Reports progress. Never blocks.
    fn report(&self, progress: StepProgress);
}
