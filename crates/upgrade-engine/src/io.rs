//! The outside, as small traits: reading machines, changing a node, administering etcd,
//! Kubernetes, the clock; the journal has its own module. Each can be implemented on its
//! own, without delegating the rest.
//!
//! The engine holds no socket and reads no clock but through these. A live
//! cluster implements them over the network, the deterministic simulation in
//! memory under a paused clock, and the engine cannot tell which it drives.
//!
//! Implementations report facts and carry out single acts; they decide nothing.
//! Whatever waits for something to become true belongs to the engine: it looks,
//! and looks again when [`Changes`] says that it may be worth it.

pub mod etcd;
pub mod external;
pub mod kubernetes;
pub mod machines;
pub mod refused;
pub mod roster;
pub mod trouble;
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

/// All of the outside that a run touches.
pub trait Io: Send + Sync + 'static {
    /// Reads the machines.
    type Machines: Machines;
    /// Changes one node.
    type Upgrader: NodeUpgrader;
    /// Upgrades nodes from outside; [`NoExternal`] where nothing does.
    type External: ExternalUpgrader;
    /// Administers etcd.
    type Etcd: EtcdAdmin;
    /// Keeps etcd snapshots, off the cluster.
    type Snapshots: SnapshotStore;
    /// The cluster that runs on them.
    type Kubernetes: Kubernetes;
    /// The time.
    type Clock: Clock;

    /// Reads the machines.
    fn machines(&self) -> &Self::Machines;
    /// Changes one node.
    fn upgrader(&self) -> &Self::Upgrader;
    /// Administers etcd.
    fn etcd(&self) -> &Self::Etcd;
    /// Upgrades nodes from outside, where something does.
    fn external(&self) -> Option<&Self::External> {
        None
    }
    /// Keeps etcd snapshots, off the cluster.
    fn snapshots(&self) -> &Self::Snapshots;
    /// The cluster that runs on them.
    fn kubernetes(&self) -> &Self::Kubernetes;
    /// The time.
    fn clock(&self) -> &Self::Clock;

    /// Comes back when the whole cluster may be looked at: whoever drives many
    /// lets them take turns. No deadline runs meanwhile. The turn ends when what
    /// comes back is dropped.
    fn turn(&self) -> impl Future<Output: Send> + Send {
        std::future::ready(())
    }
}

/// The time, which tests pause and hurry.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
    /// Comes back after this long; at once if it is not positive.
    fn sleep(&self, span: SignedDuration) -> impl Future<Output = ()> + Send;
}

/// A machine, and where it answers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Machine {
    /// Its name: Kubernetes node name and Talos hostname.
    pub name: NodeName,
    /// Its address for the Talos API.
    pub address: String,
    /// What it is for.
    pub role: Role,
}

/// A number that grows whenever something may have changed. Whoever holds it
/// looks again then; a missed number loses nothing, since the look is at the
/// whole. Ends (its sender is dropped) only when whoever sends it is gone for
/// good; then only the fallback of looking every now and then is left.
pub type Changes = watch::Receiver<u64>;

/// Whether an act that failed may have happened all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// It did not.
    No,
    /// Nobody knows; look before doing it again (rule 8).
    Maybe,
    /// It was begun, and the other side says that it has ended badly. How far it
    /// came is not known.
    Failed,
}

/// A look or an act that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What went wrong, in words that carry no secrets.
    pub failure: Failure,
    /// Whether it may have happened. Looks never change anything: [`Happened::No`].
    pub happened: Happened,
}

impl Trouble {
    /// Something that certainly did not happen.
    pub fn new(kind: FailureKind, text: &str) -> Self {
        Self { failure: Failure::new(kind, text), happened: Happened::No }
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.failure.fmt(f)
    }
}

/// Where an act reports how far it is. The newest replaces the one before.
pub trait ProgressSink: Send + Sync {
    /// How far it is. Never blocks.
    fn report(&self, progress: StepProgress);
}
