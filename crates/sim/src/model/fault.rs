//! What can be made to go wrong.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A fault of one node. It lasts until it is cleared, unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Pulls take so many times as long.
    SlowPull {
        /// The factor; 0 counts as 1.
        factor: u32,
    },
    /// Pulls fail, as with a registry that does not answer.
    FailingPull,
    /// The installer exits with this code instead of doing its work.
    InstallerExit {
        /// 1 unknown, 2 invalid input, 3 unsupported, 4 environment,
        /// 5 dependency, 6 input or output, 7 install.
        code: i32,
    },
    /// The next time the node goes down, it stays down.
    NeverReturns,
    /// The next boot of a new version falls back to the old one.
    BootBack,
    /// Reboot requests are accepted, and nothing happens.
    LostReboot,
    /// The Kubernetes node is not ready.
    NotReady,
    /// The etcd member is a learner.
    EtcdLearner,
    /// The etcd member has raised an alarm.
    EtcdAlarm {
        /// Whether it is CORRUPT; otherwise it is NOSPACE.
        corrupt: bool,
    },
    /// The etcd member's applied index stays behind.
    EtcdLag {
        /// By how many entries.
        entries: u64,
    },
    /// Every n-th connection to apid is dropped. The model leaves the dropping
    /// to the door, which asks [`World::drops_connection`](super::World::drops_connection).
    ApidDrops {
        /// 1 drops all of them.
        every: u32,
    },
    /// The node runs but cannot be reached, by callers or by other nodes.
    Partition,
    /// The node's clock is wrong.
    ClockSkew {
        /// By how much.
        by: Duration,
        /// Whether it is ahead rather than behind.
        ahead: bool,
    },
}

/// The name of a fault, by which it is cleared and listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each is documented at `Fault`")]
pub enum FaultKind {
    SlowPull,
    FailingPull,
    InstallerExit,
    NeverReturns,
    BootBack,
    LostReboot,
    NotReady,
    EtcdLearner,
    EtcdAlarm,
    EtcdLag,
    ApidDrops,
    Partition,
    ClockSkew,
}

impl Fault {
    /// Which fault this is, without its numbers.
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::SlowPull { .. } => FaultKind::SlowPull,
            Self::FailingPull => FaultKind::FailingPull,
            Self::InstallerExit { .. } => FaultKind::InstallerExit,
            Self::NeverReturns => FaultKind::NeverReturns,
            Self::BootBack => FaultKind::BootBack,
            Self::LostReboot => FaultKind::LostReboot,
            Self::NotReady => FaultKind::NotReady,
            Self::EtcdLearner => FaultKind::EtcdLearner,
            Self::EtcdAlarm { .. } => FaultKind::EtcdAlarm,
            Self::EtcdLag { .. } => FaultKind::EtcdLag,
            Self::ApidDrops { .. } => FaultKind::ApidDrops,
            Self::Partition => FaultKind::Partition,
            Self::ClockSkew { .. } => FaultKind::ClockSkew,
        }
    }
}
