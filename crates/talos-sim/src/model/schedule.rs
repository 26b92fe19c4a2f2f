//! Scheduled events, in order of time.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::api::{NodeIndex, StreamId};
use super::kubernetes::Component;
use super::time::Time;

/// A scheduled event. Events that belong to one boot of a node carry the number of that boot, and
/// are void after the next one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Due {
    /// The node's sequence continues.
    Step { node: NodeIndex, boot: u64 },
    /// The deadline of a boot.
    BootTimeout { node: NodeIndex, boot: u64 },
    /// The machine is back from its firmware.
    PowerOn { node: NodeIndex, boot: u64 },
    /// A part of the node is up again after a boot.
    Rejoin { node: NodeIndex, boot: u64, part: Part },
    /// A pull continues.
    Pull { node: NodeIndex, boot: u64, pull: u64 },
    /// The installer sends output.
    Install { node: NodeIndex, boot: u64 },
    /// The remaining etcd members elect a leader.
    Election { round: u64 },
    /// etcd's leader checks the versions of its members.
    EtcdVersions,
    /// A configuration on trial is reverted.
    RevertConfig { node: NodeIndex, boot: u64, trial: u64 },
    /// The kubelet is up with its new image.
    Kubelet { node: NodeIndex, boot: u64, restart: u64 },
    /// A static pod is up with its new image.
    Pod { node: NodeIndex, boot: u64, component: Component, restart: u64 },
    /// An API server whose container runs starts to answer.
    ApiServer { node: NodeIndex, boot: u64, restart: u64 },
    /// The machine polls its kubelet for the state of its static pods.
    PodStatuses { node: NodeIndex, boot: u64, restart: u64 },
    /// A kubelet that has started has probed its static pods.
    Probes { node: NodeIndex, boot: u64, restart: u64 },
    /// A health check makes its next attempt.
    Health { stream: StreamId },
    /// Failed manifest downloads are retried.
    Download { node: NodeIndex, boot: u64 },
    /// A service that was asked to restart is up.
    Service { node: NodeIndex, boot: u64, service: String },
}

/// A part that comes up after a boot, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Part {
    Etcd,
    Kubelet,
    NodeReady,
    /// The kubelet creates the static pods, and the machine knows of them.
    StaticPods,
    /// Their containers run.
    Containers,
    /// The API server answers.
    ApiServer,
}

/// Pending events, earliest first; of two at the same time, the one that was added first.
#[derive(Clone, Debug, Default)]
pub(super) struct Schedule {
    entries: BTreeMap<(Time, u64), Due>,
    next: u64,
}

impl Schedule {
    pub(super) fn put(&mut self, at: Time, due: Due) {
        self.entries.insert((at, self.next), due);
        self.next += 1;
    }

    pub(super) fn next_time(&self) -> Option<Time> {
        self.entries.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the first entry that is due by `now`.
    pub(super) fn take(&mut self, now: Time) -> Option<(Time, Due)> {
        let entry = self.entries.first_entry()?;
        let at = entry.key().0;
        (at <= now).then(|| (at, entry.remove()))
    }

    pub(super) fn any(&self, is_it: impl Fn(&Due) -> bool) -> bool {
        self.entries.values().any(is_it)
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&Due) -> bool) {
        self.entries.retain(|_, due| keep(due));
    }
}

impl Serialize for Schedule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.entries.iter().map(|((at, _), due)| (at, due)))
    }
}

impl<'de> Deserialize<'de> for Schedule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut schedule = Self::default();
        for (at, due) in Vec::<(Time, Due)>::deserialize(deserializer)? {
            schedule.put(at, due);
        }
        Ok(schedule)
    }
}
