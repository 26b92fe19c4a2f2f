//! What can be made to go wrong.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::World;
use super::api::NodeIndex;
use super::etcd::Alarm;
use super::node::Power;
use super::schedule::Due;
use super::time::Time;

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

impl World {
    /// Makes something go wrong on a node, or on all of them. A fault of the
    /// same kind that is there already is replaced.
    pub fn inject(&mut self, now: Time, node: Option<NodeIndex>, fault: &Fault) {
        self.advance(now);
        for index in self.chosen(node) {
            self.faults
                .retain(|(other, present)| *other != index || present.kind() != fault.kind());
            self.faults.push((index, fault.clone()));
            self.begin_fault(index, fault);
        }
        self.etcd_changed();
        self.settle();
    }

    /// Ends a fault on a node, or on all of them.
    pub fn clear(&mut self, now: Time, node: Option<NodeIndex>, fault: FaultKind) {
        self.advance(now);
        for index in self.chosen(node) {
            let had = self.fault(index, fault).is_some();
            self.faults.retain(|(other, present)| *other != index || present.kind() != fault);
            if had {
                self.end_fault(index, fault);
            }
        }
        self.etcd_changed();
        self.settle();
    }

    /// The faults that hold now.
    pub fn faults(&self) -> &[(NodeIndex, Fault)] {
        &self.faults
    }

    fn chosen(&self, node: Option<NodeIndex>) -> Vec<NodeIndex> {
        match node {
            Some(node) if node.0 < self.nodes.len() => vec![node],
            Some(_) => Vec::new(),
            None => (0..self.nodes.len()).map(NodeIndex).collect(),
        }
    }

    fn begin_fault(&mut self, node: NodeIndex, fault: &Fault) {
        match fault {
            Fault::Partition => self.drop_streams(node),
            Fault::EtcdAlarm { corrupt } => {
                if let Some(member) = self.etcd.member_of(node) {
                    let alarm = Alarm { member: member.id, corrupt: *corrupt };
                    if !self.etcd.alarms.contains(&alarm) {
                        self.etcd.alarms.push(alarm);
                    }
                }
            }
            Fault::NeverReturns => self
                .schedule
                .retain(|due| !matches!(due, Due::PowerOn { node: other, .. } if *other == node)),
            _ => {}
        }
    }

    fn end_fault(&mut self, node: NodeIndex, fault: FaultKind) {
        match fault {
            FaultKind::EtcdAlarm => {
                if let Some(id) = self.etcd.member_of(node).map(|member| member.id) {
                    self.etcd.alarms.retain(|alarm| alarm.member != id);
                }
            }
            FaultKind::NeverReturns if self.nodes[node.0].power == Power::Down => {
                self.schedule_power_on(node);
            }
            _ => {}
        }
    }

    pub(super) fn fault(&self, node: NodeIndex, kind: FaultKind) -> Option<&Fault> {
        self.faults
            .iter()
            .find(|(index, fault)| *index == node && fault.kind() == kind)
            .map(|(_, fault)| fault)
    }

    /// Whether a fault holds; if so, it has happened and is over.
    pub(super) fn take_fault(&mut self, node: NodeIndex, kind: FaultKind) -> bool {
        let before = self.faults.len();
        self.faults.retain(|(index, fault)| *index != node || fault.kind() != kind);
        self.faults.len() < before
    }
}
