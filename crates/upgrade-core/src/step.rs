//! Steps: what is done to one node, or to the cluster, as data.
//!
//! A step is an enum, not a closure, so that it can be planned, hashed, journaled
//! and resumed by another process.

mod id;

use std::fmt::{self, Display};

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use crate::guard;
use crate::mutant::Mutant;
use crate::policy::Policy;
use crate::snapshot::Component;

pub use id::{LabelError, ParseStepError, StepId, StepLabel, StepName};

/// As good as no deadline, and still a time that can be added to another.
const NEVER: SignedDuration = SignedDuration::from_hours(24 * 365 * 100);

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Look for flags, admission plugins, feature gates and API objects that
    /// the next Kubernetes minor no longer has.
    CheckRemovals,
    /// Take an etcd snapshot off the cluster and verify it (rule 3).
    SnapshotEtcd,
    /// Run etcd's own downgrade procedure: validate, enable, wait until every
    /// member's data is of the lower minor (rule 13).
    DowngradeEtcd,
    /// Pull the images that the hop will need.
    Pull,
    /// Write the inactive slot. From here on the node is armed.
    Install,
    /// Give etcd leadership away if the node has it (rule 1).
    Forfeit,
    /// Mark the node unschedulable (rule 7).
    Cordon,
    /// Evict its pods (rule 6).
    Drain,
    /// Reboot into the other slot.
    Reboot,
    /// The legacy call: install and reboot at once (Talos up to 1.12).
    Upgrade,
    /// Boot the other slot again, as it was before the last upgrade.
    Rollback,
    /// Have something outside upgrade the node or replace it.
    ExternalUpgrade,
    /// Boot ID, version, schematic, extensions, stage, etcd, Node Ready.
    Verify,
    /// Lift our cordon (rule 7).
    Uncordon,
    /// Wait a while with nothing disrupted.
    Soak,
    /// Move kube-apiserver to its image.
    SetKubeApiserver,
    /// Move kube-controller-manager to its image.
    SetKubeControllerManager,
    /// Move kube-scheduler to its image.
    SetKubeScheduler,
    /// Write the kube-proxy image into the machine config; the manifests
    /// carry it on.
    SetKubeProxy,
    /// Apply the bootstrap manifests and wait for their roll-outs.
    SyncManifests,
    /// Move the kubelet to its image.
    SetKubelet,
}

/// What a step is part of, for readers and for what treats such steps alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Checks, pulls and snapshots: nothing is disrupted.
    Prepare,
    /// Workloads and etcd leadership leave the node, or may return.
    Drain,
    /// Another Talos is installed or booted.
    Reboot,
    /// The result is checked, and observed for a while.
    Verify,
    /// A part of Kubernetes gets another version.
    Kubernetes,
}

impl Action {
    /// Every action, for tests and documentation.
    pub const ALL: [Self; 21] = [
        Self::CheckRemovals,
        Self::SnapshotEtcd,
        Self::DowngradeEtcd,
        Self::Pull,
        Self::Install,
        Self::Forfeit,
        Self::Cordon,
        Self::Drain,
        Self::Reboot,
        Self::Upgrade,
        Self::Rollback,
        Self::ExternalUpgrade,
        Self::Verify,
        Self::Uncordon,
        Self::Soak,
        Self::SetKubeApiserver,
        Self::SetKubeControllerManager,
        Self::SetKubeScheduler,
        Self::SetKubeProxy,
        Self::SyncManifests,
        Self::SetKubelet,
    ];

    /// The word used in step names, journals and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CheckRemovals => "check-removals",
            Self::SnapshotEtcd => "snapshot-etcd",
            Self::DowngradeEtcd => "downgrade-etcd",
            Self::Pull => "pull",
            Self::Install => "install",
            Self::Forfeit => "forfeit",
            Self::Cordon => "cordon",
            Self::Drain => "drain",
            Self::Reboot => "reboot",
            Self::Upgrade => "upgrade",
            Self::Rollback => "rollback",
            Self::ExternalUpgrade => "external-upgrade",
            Self::Verify => "verify",
            Self::Uncordon => "uncordon",
            Self::Soak => "soak",
            Self::SetKubeApiserver => "set-kube-apiserver",
            Self::SetKubeControllerManager => "set-kube-controller-manager",
            Self::SetKubeScheduler => "set-kube-scheduler",
            Self::SetKubeProxy => "set-kube-proxy",
            Self::SyncManifests => "sync-manifests",
            Self::SetKubelet => "set-kubelet",
        }
    }

    /// What the step is part of.
    pub const fn kind(self) -> StepKind {
        match self {
            Self::CheckRemovals | Self::SnapshotEtcd | Self::DowngradeEtcd | Self::Pull => {
                StepKind::Prepare
            }
            Self::Forfeit | Self::Cordon | Self::Drain | Self::Uncordon => StepKind::Drain,
            Self::Install
            | Self::Reboot
            | Self::Upgrade
            | Self::Rollback
            | Self::ExternalUpgrade => StepKind::Reboot,
            Self::Verify | Self::Soak => StepKind::Verify,
            Self::SetKubeApiserver
            | Self::SetKubeControllerManager
            | Self::SetKubeScheduler
            | Self::SetKubeProxy
            | Self::SetKubelet
            | Self::SyncManifests => StepKind::Kubernetes,
        }
    }

    /// Whether it takes something away from the cluster, if only for a moment.
    /// Such an act needs a fresh observation (rule 2), and its node counts as
    /// disrupted until it is verified (rules 1 and 6).
    pub const fn is_disruptive(self) -> bool {
        match self {
            Self::Forfeit
            | Self::Cordon
            | Self::Drain
            | Self::Reboot
            | Self::Upgrade
            | Self::Rollback
            | Self::ExternalUpgrade
            | Self::SetKubeApiserver
            | Self::SetKubeControllerManager
            | Self::SetKubeScheduler
            | Self::SetKubelet => true,
            Self::CheckRemovals
            | Self::SnapshotEtcd
            | Self::DowngradeEtcd
            | Self::Pull
            | Self::Install
            | Self::Verify
            | Self::Uncordon
            | Self::Soak
            | Self::SetKubeProxy
            | Self::SyncManifests => false,
        }
    }

    /// Whether it starts only on what was observed of its node: what disrupts it, and what
    /// writes a slot (rules 2 and 5).
    pub const fn needs_observation(self) -> bool {
        self.is_disruptive() || matches!(self, Self::Install)
    }

    /// Whether an observation from before its end is outdated: it may have changed something
    /// that observations show.
    pub const fn outdates_observation(self) -> bool {
        !matches!(self, Self::CheckRemovals | Self::SnapshotEtcd | Self::Pull)
    }

    /// Whether the node boots, perhaps into another version.
    pub const fn boots(self) -> bool {
        matches!(self, Self::Reboot | Self::Upgrade | Self::Rollback | Self::ExternalUpgrade)
    }

    /// Whether a failure of it may be retried automatically. Never for
    /// what writes a slot or reboots: a blind retry can overwrite the good slot
    /// (rule 5).
    pub const fn may_retry(self) -> bool {
        !(self.boots() || matches!(self, Self::Install))
    }

    /// How long it may take (rule 11).
    pub fn timeout(self, policy: &Policy) -> SignedDuration {
        let timeouts = &policy.timeouts;
        if !guard!(Mutant::DeadlineRemoved) {
            return NEVER;
        }
        match self {
            Self::CheckRemovals
            | Self::Forfeit
            | Self::Cordon
            | Self::Uncordon
            | Self::SetKubeProxy => timeouts.call,
            Self::SnapshotEtcd => timeouts.snapshot,
            // All of it is waiting for etcd.
            Self::DowngradeEtcd => timeouts.gate,
            Self::Pull => timeouts.pull,
            // It pulls again: images that nothing uses are collected.
            Self::Install => timeouts.pull.saturating_add(timeouts.install),
            Self::Drain => policy.drain.timeout,
            Self::Reboot | Self::Rollback => timeouts.reboot,
            Self::Upgrade | Self::ExternalUpgrade => {
                timeouts.install.saturating_add(timeouts.reboot)
            }
            Self::Verify => timeouts.verify,
            Self::Soak => policy.soak.saturating_add(timeouts.call),
            Self::SetKubeApiserver
            | Self::SetKubeControllerManager
            | Self::SetKubeScheduler
            | Self::SetKubelet => timeouts.component,
            Self::SyncManifests => timeouts.manifests,
        }
    }

    /// The Kubernetes component that it moves, if it moves one.
    pub const fn component(self) -> Option<Component> {
        match self {
            Self::SetKubeApiserver => Some(Component::KubeApiserver),
            Self::SetKubeControllerManager => Some(Component::KubeControllerManager),
            Self::SetKubeScheduler => Some(Component::KubeScheduler),
            Self::SetKubeProxy => Some(Component::KubeProxy),
            Self::SetKubelet => Some(Component::Kubelet),
            _ => None,
        }
    }
}

impl Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_touches_a_slot_is_never_retried_blindly() {
        // Rule 5.
        let never: Vec<_> = Action::ALL.into_iter().filter(|action| !action.may_retry()).collect();
        let boots = [Action::Reboot, Action::Upgrade, Action::Rollback, Action::ExternalUpgrade];
        assert_eq!(never[0], Action::Install);
        assert_eq!(never[1..], boots);
    }

    #[test]
    fn every_step_has_a_deadline() {
        // Rule 11.
        let policy = Policy::default();
        for action in Action::ALL {
            assert!(action.timeout(&policy) > SignedDuration::ZERO, "{action}");
        }
    }
}
