//! Faults of nodes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::World;
use super::api::NodeIndex;
use super::etcd::Alarm;
use super::node::Power;
use super::readiness::Condition;
use super::schedule::{Due, Part};
use super::time::Time;
use super::timing::Span;

/// A fault of one node. It lasts until it is cleared, unless stated otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Pulls take this many times as long.
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
    /// The installer switches the default to its version, and still exits with this code.
    InstallerExitLate {
        /// As for [`Fault::InstallerExit`].
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
    /// A condition of the machine status is unmet while the machine otherwise works.
    UnmetCondition {
        /// Which.
        condition: Condition,
    },
    /// The same from the node's next boot on.
    UnmetAfterBoot {
        /// Which.
        condition: Condition,
    },
    /// The node boots by kexec, but not through its firmware: after a power cycle it
    /// stays down.
    KexecOnly,
    /// The etcd member is a learner.
    EtcdLearner,
    /// The etcd member has raised an alarm.
    EtcdAlarm {
        /// Whether it is CORRUPT; otherwise it is NOSPACE.
        corrupt: bool,
    },
    /// The etcd member's applied index lags.
    EtcdLag {
        /// By how many entries.
        entries: u64,
    },
    /// Every n-th connection to apid is dropped. The model leaves the dropping to the adapter,
    /// which asks [`World::drops_connection`](super::World::drops_connection).
    ApidDrops {
        /// 1 drops all of them.
        every: u32,
        /// Whether only read calls are dropped, each one separately. Calls that change the node
        /// then arrive.
        #[serde(default)]
        reads: bool,
    },
    /// The node runs but is unreachable for clients and for other nodes.
    Partition,
    /// The node's clock is wrong.
    ClockSkew {
        /// By how much.
        by: Duration,
        /// Whether it is ahead rather than behind.
        ahead: bool,
    },
    /// Every n-th request to the node's Kubernetes API server is refused with 429 and a
    /// `Retry-After`. Health checks are not.
    ApiThrottles {
        /// 1 refuses all of them.
        every: u32,
    },
    /// Every n-th request to the node's Kubernetes API server fails with 500 and has no effect.
    /// Health checks do not.
    ApiErrors {
        /// 1 fails all of them.
        every: u32,
    },
    /// The node's Kubernetes API server works, but its answers are late.
    ApiLatency {
        /// By how much.
        by: Duration,
    },
    /// The disruption budgets of pods on the node allow no eviction.
    StuckBudgets,
    /// Volumes that are attached to the node stay attached.
    StuckVolumes,
    /// The next time the kubelet stops, it stays down, though the machine runs.
    KubeletNeverReturns,
    /// Images of pods cannot be pulled.
    FailingImage {
        /// Only images with this prefix; empty for all.
        prefix: String,
    },
    /// Downloads of extra manifests fail. Manifests that were downloaded before stay until the next
    /// boot.
    FailingManifest {
        /// Whether they are gone at once, as after a boot.
        now: bool,
    },
    /// The node accepts connections and requests and answers none, as if it hangs or has lost
    /// power; otherwise like [`Fault::Partition`]. Open streams break.
    Silent,
    /// The node cannot reach the discovery service, though everything else works: after half an
    /// hour no other node lists it, and after a boot it lists only itself.
    DiscoveryCut {
        /// Whether both hold at once, as after a long time.
        now: bool,
    },
}

/// The name of a fault, for clearing and listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each is documented at `Fault`")]
pub enum FaultKind {
    SlowPull,
    FailingPull,
    InstallerExit,
    InstallerExitLate,
    NeverReturns,
    BootBack,
    LostReboot,
    NotReady,
    UnmetCondition,
    UnmetAfterBoot,
    KexecOnly,
    EtcdLearner,
    EtcdAlarm,
    EtcdLag,
    ApidDrops,
    Partition,
    ClockSkew,
    ApiThrottles,
    ApiErrors,
    ApiLatency,
    StuckBudgets,
    StuckVolumes,
    KubeletNeverReturns,
    FailingImage,
    FailingManifest,
    Silent,
    DiscoveryCut,
}

impl Fault {
    /// The kind of a fault, without its values.
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::SlowPull { .. } => FaultKind::SlowPull,
            Self::FailingPull => FaultKind::FailingPull,
            Self::InstallerExit { .. } => FaultKind::InstallerExit,
            Self::InstallerExitLate { .. } => FaultKind::InstallerExitLate,
            Self::NeverReturns => FaultKind::NeverReturns,
            Self::BootBack => FaultKind::BootBack,
            Self::LostReboot => FaultKind::LostReboot,
            Self::NotReady => FaultKind::NotReady,
            Self::UnmetCondition { .. } => FaultKind::UnmetCondition,
            Self::UnmetAfterBoot { .. } => FaultKind::UnmetAfterBoot,
            Self::KexecOnly => FaultKind::KexecOnly,
            Self::EtcdLearner => FaultKind::EtcdLearner,
            Self::EtcdAlarm { .. } => FaultKind::EtcdAlarm,
            Self::EtcdLag { .. } => FaultKind::EtcdLag,
            Self::ApidDrops { .. } => FaultKind::ApidDrops,
            Self::Partition => FaultKind::Partition,
            Self::ClockSkew { .. } => FaultKind::ClockSkew,
            Self::ApiThrottles { .. } => FaultKind::ApiThrottles,
            Self::ApiErrors { .. } => FaultKind::ApiErrors,
            Self::ApiLatency { .. } => FaultKind::ApiLatency,
            Self::StuckBudgets => FaultKind::StuckBudgets,
            Self::StuckVolumes => FaultKind::StuckVolumes,
            Self::KubeletNeverReturns => FaultKind::KubeletNeverReturns,
            Self::FailingImage { .. } => FaultKind::FailingImage,
            Self::FailingManifest { .. } => FaultKind::FailingManifest,
            Self::Silent => FaultKind::Silent,
            Self::DiscoveryCut { .. } => FaultKind::DiscoveryCut,
        }
    }
}

/// What an API server does to a request instead of, or besides, answering it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApiTrouble {
    /// The HTTP code of its refusal: 429 or 500.
    pub refusal: Option<u16>,
    /// The delay of the answer.
    pub delay: Duration,
}

impl World {
    /// Injects a fault on a node, or on all. It replaces an active fault of the same kind.
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

    /// Clears a fault on a node, or on all.
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

    /// The active faults.
    pub fn faults(&self) -> &[(NodeIndex, Fault)] {
        &self.faults
    }

    fn chosen(&self, node: Option<NodeIndex>) -> Vec<NodeIndex> {
        match node {
            Some(node) if self.is_present(node) => vec![node],
            Some(_) => Vec::new(),
            None => self.present().collect(),
        }
    }

    fn begin_fault(&mut self, node: NodeIndex, fault: &Fault) {
        match fault {
            Fault::Partition | Fault::Silent => self.drop_streams(node),
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
            Fault::FailingManifest { now: true } => self.nodes[node.0].downloads.clear(),
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
            FaultKind::NeverReturns | FaultKind::KexecOnly
                if self.nodes[node.0].power == Power::Down && self.may_return(node) =>
            {
                self.power_on_unless_due(node);
            }
            FaultKind::UnmetAfterBoot => self.nodes[node.0].unmet_since_boot = None,
            FaultKind::KubeletNeverReturns => self.release_kubelet(node),
            FaultKind::FailingManifest => self.download_later(node),
            _ => {}
        }
    }

    /// The effect of faults on a request to a node's API server; each call counts as one request.
    pub fn api_trouble(&mut self, node: NodeIndex) -> ApiTrouble {
        let (mut every, mut delay) = ([None; 2], Duration::ZERO);
        for (_, fault) in self.faults.iter().filter(|(index, _)| *index == node) {
            match fault {
                Fault::ApiThrottles { every: n } => every[0] = Some((*n).max(1)),
                Fault::ApiErrors { every: n } => every[1] = Some((*n).max(1)),
                Fault::ApiLatency { by } => delay = *by,
                _ => {}
            }
        }
        let Some(here) = self.nodes.get_mut(node.0).filter(|_| every != [None; 2]) else {
            return ApiTrouble { refusal: None, delay };
        };
        here.api_requests = here.api_requests.wrapping_add(1);
        let hit = |every: Option<u32>| every.is_some_and(|n| here.api_requests.is_multiple_of(n));
        let refusal = [(429, every[0]), (500, every[1])].into_iter().find(|(_, n)| hit(*n));
        ApiTrouble { refusal: refusal.map(|(code, _)| code), delay }
    }

    /// Whether a kubelet that should run can start; a fault prevents it.
    pub(super) fn kubelet_returns(&mut self, node: NodeIndex) -> bool {
        let held = self.fault(node, FaultKind::KubeletNeverReturns).is_some();
        let kubelet = &mut self.nodes[node.0].kubernetes.kubelet;
        kubelet.held = held;
        kubelet.up &= !held;
        if held {
            self.set_health(node, "kubelet", false);
        }
        !held
    }

    /// The fault is cleared: a kubelet that it kept down starts.
    pub(super) fn release_kubelet(&mut self, node: NodeIndex) {
        let here = &mut self.nodes[node.0];
        if here.power != Power::On || !std::mem::take(&mut here.kubernetes.kubelet.held) {
            return;
        }
        let (boot, restart) = (here.boot, here.kubernetes.kubelet.restart);
        let at = self.now.plus(self.draw(node, Span::Kubelet));
        if self.nodes[node.0].service_runs("kubelet") {
            let mut parts = vec![Part::Kubelet, Part::NodeReady];
            if self.nodes[node.0].is_control_plane() {
                parts.extend([Part::StaticPods, Part::Containers, Part::ApiServer]);
            }
            for part in parts {
                self.schedule.put(at, Due::Rejoin { node, boot, part });
            }
        } else {
            self.schedule.put(at, Due::Kubelet { node, boot, restart });
        }
    }

    /// The prefixes of the images that the node cannot pull.
    pub(super) fn unpullable(&self, node: NodeIndex) -> Vec<String> {
        let all = self.fault(node, FaultKind::FailingPull).map(|_| String::new());
        let some = match self.fault(node, FaultKind::FailingImage) {
            Some(Fault::FailingImage { prefix }) => Some(prefix.clone()),
            _ => None,
        };
        all.into_iter().chain(some).collect()
    }

    pub(super) fn fault(&self, node: NodeIndex, kind: FaultKind) -> Option<&Fault> {
        self.faults
            .iter()
            .find(|(index, fault)| *index == node && fault.kind() == kind)
            .map(|(_, fault)| fault)
    }

    /// Whether a fault is active; if so, it is used up.
    pub(super) fn take_fault(&mut self, node: NodeIndex, kind: FaultKind) -> bool {
        let before = self.faults.len();
        self.faults.retain(|(index, fault)| *index != node || fault.kind() != kind);
        self.faults.len() < before
    }
}
