//! Durations. Each is drawn from its range by the world's random source, once for each event; or
//! once for each node, so that neither the caller nor the time nor the order matters.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The shortest and the longest duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// The shortest.
    pub min: Duration,
    /// The longest.
    pub max: Duration,
}

impl Range {
    /// A range of whole seconds.
    pub const fn secs(min: u64, max: u64) -> Self {
        Self { min: Duration::from_secs(min), max: Duration::from_secs(max) }
    }

    /// A range of milliseconds.
    pub const fn millis(min: u64, max: u64) -> Self {
        Self { min: Duration::from_millis(min), max: Duration::from_millis(max) }
    }
}

/// A kind of event with a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "documented at the fields of `Timings`")]
pub enum Span {
    Pull,
    Install,
    Drain,
    Reboot,
    Rejoin,
    Stop,
    Election,
    StaticPod,
    Kubelet,
}

/// The durations of a node's life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timings {
    /// Pulling an image that is not on the node.
    pub pull: Range,
    /// Running an installer.
    pub install: Range,
    /// The node's own drain in the legacy upgrade.
    pub drain: Range,
    /// From the last answer before a reboot to the first one after it.
    pub reboot: Range,
    /// From the first answer after a reboot until etcd, kubelet and Node are healthy again.
    pub rejoin: Range,
    /// Stopping services and unmounting, before the machine goes down.
    pub stop: Range,
    /// Electing another etcd leader after the old one went down.
    pub election: Range,
    /// Restarting a static pod after its image has changed.
    pub static_pod: Range,
    /// Restarting the kubelet after its image has changed.
    pub kubelet: Range,
}

impl Timings {
    /// The range of one kind of event.
    pub fn range(&self, span: Span) -> Range {
        match span {
            Span::Pull => self.pull,
            Span::Install => self.install,
            Span::Drain => self.drain,
            Span::Reboot => self.reboot,
            Span::Rejoin => self.rejoin,
            Span::Stop => self.stop,
            Span::Election => self.election,
            Span::StaticPod => self.static_pod,
            Span::Kubelet => self.kubelet,
        }
    }
}

impl Default for Timings {
    /// The durations of a small cluster on ordinary hardware.
    fn default() -> Self {
        Self {
            pull: Range::secs(30, 60),
            install: Range::secs(10, 30),
            drain: Range::secs(10, 60),
            reboot: Range::secs(30, 90),
            rejoin: Range::secs(30, 60),
            stop: Range::secs(4, 10),
            election: Range::millis(1_000, 2_000),
            static_pod: Range::secs(5, 20),
            kubelet: Range::secs(5, 15),
        }
    }
}
