//! `TalosEtcdBackupSchedule`: regular backups of a cluster's etcd.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use upgrade_api::resource;

use crate::backup::BackupSpec;
use crate::condition::{Condition, ConditionType};
use crate::reference::is_false;
use crate::{GROUP, VERSION};

/// A schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TalosEtcdBackupSchedule {
    /// The group and version of its kind.
    #[serde(default = "TalosEtcdBackupSchedule::own_api_version")]
    pub api_version: String,
    /// Its kind.
    #[serde(default = "TalosEtcdBackupSchedule::own_kind")]
    pub kind: String,
    /// Its name.
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: ScheduleSpec,
    /// What was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ScheduleStatus>,
}

resource!(TalosEtcdBackupSchedule, GROUP, VERSION, "talosetcdbackupschedules");

impl TalosEtcdBackupSchedule {
    /// The condition of a type.
    pub fn condition(&self, kind: ConditionType) -> Option<&Condition> {
        Condition::find(&self.status.as_ref()?.conditions, kind)
    }
}

/// When to back up, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScheduleSpec {
    /// In the grammar of a `CronJob`.
    pub schedule: String,
    /// Whether no backups are made.
    #[serde(skip_serializing_if = "is_false")]
    pub paused: bool,
    /// How many successful backups are kept. See [`retention`](Self::retention).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<i64>,
    /// What is created each time.
    pub backup_template: BackupTemplate,
}

impl ScheduleSpec {
    /// How many backups are kept if the object does not say.
    pub const DEFAULT_RETENTION: usize = 5;

    /// How many successful backups are kept. Never none: a value that the schema would refuse
    /// must not delete every backup.
    pub fn retention(&self) -> usize {
        match self.retention.map(usize::try_from) {
            None => Self::DEFAULT_RETENTION,
            Some(number) => number.unwrap_or(Self::DEFAULT_RETENTION).max(1),
        }
    }
}

/// What is created each time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackupTemplate {
    /// The spec of each backup.
    pub spec: BackupSpec,
}

/// What was done, and what comes next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScheduleStatus {
    /// The scheduled time of the last backup, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<String>,
    /// When the last successful backup ended, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_successful_backup_time: Option<String>,
    /// The scheduled time of the next backup, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_schedule_time: Option<String>,
    /// The backups that are under way; the next one waits for them.
    pub active_backups: Vec<String>,
    /// The state in a sentence.
    pub message: String,
    /// The newest generation that the status takes into account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions, other writers' included.
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_least_one_backup_is_kept() {
        for (retention, kept) in [(None, 5), (Some(3), 3), (Some(0), 1), (Some(-1), 5)] {
            let spec = ScheduleSpec { retention, ..ScheduleSpec::default() };
            assert_eq!(spec.retention(), kept);
        }
    }
}
