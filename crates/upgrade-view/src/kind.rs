//! Steps by what they mean to a reader.

use upgrade_core::step::Action;

/// What a step is part of. Pictures colour steps by it.
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

impl StepKind {
    /// The kind of a step.
    pub const fn of(action: Action) -> Self {
        match action {
            Action::CheckRemovals | Action::SnapshotEtcd | Action::DowngradeEtcd | Action::Pull => {
                Self::Prepare
            }
            Action::Forfeit | Action::Cordon | Action::Drain | Action::Uncordon => Self::Drain,
            Action::Install
            | Action::Reboot
            | Action::Upgrade
            | Action::Rollback
            | Action::ExternalUpgrade => Self::Reboot,
            Action::Verify | Action::Soak => Self::Verify,
            Action::SetKubeApiserver
            | Action::SetKubeControllerManager
            | Action::SetKubeScheduler
            | Action::SetKubeProxy
            | Action::SetKubelet
            | Action::SyncManifests => Self::Kubernetes,
        }
    }
}
