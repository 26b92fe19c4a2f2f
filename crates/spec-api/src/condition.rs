//! Conditions: their shape, and the closed sets of types and reasons that are written.

use serde::{Deserialize, Serialize};

use crate::words::words;

/// One condition, with the fields of Kubernetes' own. The time is kept as text: a time that
/// cannot be parsed must not make the whole object unreadable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    /// See [`ConditionType`]; objects may have others.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// See [`Reason`].
    pub reason: String,
    /// The reason in a sentence.
    pub message: String,
    /// When the status changed, RFC 3339.
    pub last_transition_time: String,
    /// The generation that it is about. Flux and Argo CD take a condition of an older one as
    /// still in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// The condition of a type.
    pub fn find(conditions: &[Self], kind: ConditionType) -> Option<&Self> {
        conditions.iter().find(|condition| condition.kind == kind.as_str())
    }

    /// Whether it holds.
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}

words! {
    /// What a condition is about.
    pub enum ConditionType {
        /// Everything is as wanted. What `kubectl wait` waits for; of a backup, that it is
        /// stored.
        Ready = "Ready",
        /// Something is being done. Present while it is true, as kstatus expects.
        Reconciling = "Reconciling",
        /// Nothing more happens without the user. Present while it is true, as kstatus expects.
        Stalled = "Stalled",
        /// A run or a backup is under way; the message says how far it is.
        Progressing = "Progressing",
        /// Kubernetes is being upgraded. Of this and the next two, exactly one is true once
        /// there was an upgrade.
        KubernetesUpgradeInProgress = "KubernetesUpgradeInProgress",
        /// The last upgrade of Kubernetes succeeded.
        KubernetesUpgradeSucceeded = "KubernetesUpgradeSucceeded",
        /// The last upgrade of Kubernetes failed.
        KubernetesUpgradeFailed = "KubernetesUpgradeFailed",
        /// The object is being deleted.
        Deleting = "Deleting",
        /// A backup or a schedule failed. A success clears it.
        Failed = "Failed",
    }
}

words! {
    /// Why a condition has its status.
    pub enum Reason {
        /// Everything is as wanted.
        Reconciled = "Reconciled",
        /// A run is under way.
        Upgrading = "Upgrading",
        /// A gate is closed, or a run cannot start yet.
        Waiting = "Waiting",
        /// There is no safe way to what is wanted.
        Refused = "Refused",
        /// A run failed.
        Failed = "Failed",
        /// The cluster does not answer, or there are no credentials for it.
        Unreachable = "Unreachable",
        /// Another object claims the same machines or the same cluster.
        Conflict = "Conflict",
        /// The machines run no cluster yet.
        NotProvisioned = "NotProvisioned",
        /// The mode of the machines is not supported.
        UnsupportedMode = "UnsupportedMode",
        /// Another operator drove the object before: nothing starts until the user says so.
        Adopted = "Adopted",
        /// The user asked for a pause.
        Paused = "Paused",
        /// The user deleted the object.
        Deleting = "Deleting",
        /// Kubernetes is being upgraded.
        UpgradeInProgress = "UpgradeInProgress",
        /// Kubernetes was upgraded.
        UpgradeSucceeded = "UpgradeSucceeded",
        /// The upgrade of Kubernetes failed.
        UpgradeFailed = "UpgradeFailed",
        /// A backup is under way.
        BackupInProgress = "BackupInProgress",
        /// A backup ended well, so that nothing is under way.
        BackupCompleted = "BackupCompleted",
        /// The backup is stored and verified.
        BackupSucceeded = "BackupSucceeded",
        /// The backup failed.
        BackupFailed = "BackupFailed",
        /// The schedule makes backups.
        ScheduleActive = "ScheduleActive",
        /// The schedule cannot be read.
        InvalidSchedule = "InvalidSchedule",
        /// The object of a backup could not be created.
        BackupCreationFailed = "BackupCreationFailed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_condition_is_read() {
        let odd = serde_json::json!([
            {"type": "Ready", "status": "True", "lastTransitionTime": "yesterday", "more": 1},
            {"status": "Unknown"},
        ]);
        let read: Vec<Condition> = serde_json::from_value(odd).expect("readable");
        let ready = Condition::find(&read, ConditionType::Ready).expect("there");
        assert!(ready.is_true());
        assert_eq!(ready.observed_generation, None);
        assert_eq!(Condition::find(&read, ConditionType::Stalled), None);
    }
}
