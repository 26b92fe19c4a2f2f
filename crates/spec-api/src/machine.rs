//! `TalosMachine`: one machine. Most are created by their parent, which is a control plane or
//! a pool of workers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use upgrade_api::resource;

use crate::condition::{Condition, ConditionType};
use crate::reconcile_mode::ReconcileMode;
use crate::reference::{ObjectReference, is_false};
use crate::spec::MachineSettings;
use crate::{GROUP, VERSION};

/// A machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TalosMachine {
    /// The group and version of its kind.
    #[serde(default = "TalosMachine::own_api_version")]
    pub api_version: String,
    /// Its kind.
    #[serde(default = "TalosMachine::own_kind")]
    pub kind: String,
    /// Its name, owner and annotations.
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: TalosMachineSpec,
    /// What was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<TalosMachineStatus>,
}

resource!(TalosMachine, GROUP, VERSION, "talosmachines");

impl TalosMachine {
    /// A machine that is to be created.
    pub fn new(metadata: ObjectMeta, spec: TalosMachineSpec) -> Self {
        let (api_version, kind) = (Self::own_api_version(), Self::own_kind());
        Self { api_version, kind, metadata, spec, status: None }
    }

    /// How far it is reconciled.
    pub fn reconcile_mode(&self) -> ReconcileMode {
        ReconcileMode::of(&self.metadata)
    }

    /// The Talos that was seen on it; empty if none was. Objects that only another operator
    /// has driven have it under the older name, and there it may be the spec's.
    pub fn observed(&self) -> &str {
        self.status.as_ref().map_or("", |status| {
            if status.version.is_empty() { &status.observed_version } else { &status.version }
        })
    }

    /// The condition of a type.
    pub fn condition(&self, kind: ConditionType) -> Option<&Condition> {
        Condition::find(&self.status.as_ref()?.conditions, kind)
    }
}

/// What is wanted of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TalosMachineSpec {
    /// The address of its Talos API.
    pub endpoint: String,
    /// The Talos that it is brought to. The parent sets it when the lane of the machine
    /// begins, so that a list shows which machine is being changed.
    pub version: String,
    /// What the parent says about the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_spec: Option<MachineSettings>,
    /// Its parent, if it is a control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_ref: Option<ObjectReference>,
    /// Its parent, if it is a worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_ref: Option<ObjectReference>,
    /// `reset` or `preserve`. No machine is ever reset; `reset` is reported as not supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<String>,
}

/// What was observed of a machine. As with control planes, `config` is not here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TalosMachineStatus {
    /// See [`MachineState`](crate::state::MachineState); another operator may have left another
    /// word.
    pub state: String,
    /// The state in a sentence.
    pub message: String,
    /// The step that it is at.
    pub progress: String,
    /// The run that is under way, or the last one.
    pub run: String,
    /// The Talos that was seen on it, with its `v`; never the spec's.
    pub version: String,
    /// The same, under the name that existing tools read.
    pub observed_version: String,
    /// The newest generation that the status takes into account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions, other writers' included.
    pub conditions: Vec<Condition>,
    /// Whether it ran a cluster before.
    #[serde(skip_serializing_if = "is_false")]
    pub imported: bool,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_seen_has_two_names() {
        for (status, seen) in [
            (json!(null), ""),
            (json!({}), ""),
            (json!({"observedVersion": "v1.12.7", "config": "secret"}), "v1.12.7"),
            (json!({"version": "v1.13.9", "observedVersion": "v1.12.7"}), "v1.13.9"),
        ] {
            let read = json!({"metadata": {"name": "a"}, "status": status});
            let read: TalosMachine = serde_json::from_value(read).expect("readable");
            assert_eq!(read.observed(), seen);
        }
    }

    #[test]
    fn a_new_machine_has_only_what_was_said() {
        let spec = TalosMachineSpec {
            endpoint: "10.0.0.1".to_owned(),
            version: "v1.13.9".to_owned(),
            ..TalosMachineSpec::default()
        };
        let made = TalosMachine::new(ObjectMeta::default(), spec);
        let made = serde_json::to_value(made).expect("writable");
        assert_eq!(made["kind"], "TalosMachine");
        assert_eq!(made["spec"], json!({"endpoint": "10.0.0.1", "version": "v1.13.9"}));
    }
}
