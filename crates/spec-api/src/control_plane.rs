//! `TalosControlPlane`: the control planes of a cluster, and the versions of the cluster. It
//! is the key of a cluster: one plan, one lease and one run at a time.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use upgrade_api::resource;

use crate::condition::{Condition, ConditionType};
use crate::reconcile_mode::ReconcileMode;
use crate::reference::{KeyReference, is_false};
use crate::spec::{MetalSpec, Mode, RolloutStrategy, written};
use crate::{GROUP, VERSION};

/// The control planes of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TalosControlPlane {
    /// The group and version of its kind.
    #[serde(default = "TalosControlPlane::own_api_version")]
    pub api_version: String,
    /// Its kind.
    #[serde(default = "TalosControlPlane::own_kind")]
    pub kind: String,
    /// Its name, owners and annotations.
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: ControlPlaneSpec,
    /// What was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ControlPlaneStatus>,
}

resource!(TalosControlPlane, GROUP, VERSION, "taloscontrolplanes");

impl TalosControlPlane {
    /// How far it is reconciled.
    pub fn reconcile_mode(&self) -> ReconcileMode {
        ReconcileMode::of(&self.metadata)
    }

    /// The name that its Secrets and its Job begin with: that of its first owner, or its own.
    pub fn owner_name(&self) -> &str {
        let owner = self.metadata.owner_references.as_ref().and_then(|owners| owners.first());
        let own = self.metadata.name.as_deref().unwrap_or_default();
        owner.map_or(own, |owner| &owner.name)
    }

    /// The condition of a type.
    pub fn condition(&self, kind: ConditionType) -> Option<&Condition> {
        Condition::find(&self.status.as_ref()?.conditions, kind)
    }
}

/// What is wanted of a control plane, and of its cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ControlPlaneSpec {
    /// Talos; `None` leaves it alone. See [`talos`](Self::talos).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Kubernetes; `None` leaves it alone. See [`kubernetes`](Self::kubernetes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_version: Option<String>,
    /// See [`Mode`].
    pub mode: String,
    /// The machines of the mode `metal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metal_spec: Option<MetalSpec>,
    /// The URL of the Kubernetes API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// A machine configuration with the keys of a cluster that is imported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_ref: Option<KeyReference>,
    /// `reset` or `preserve`. No machine is ever reset; `reset` is reported as not supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<String>,
    /// Control planes are upgraded one at a time (rule 1); a higher number gets a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_strategy: Option<RolloutStrategy>,
}

impl ControlPlaneSpec {
    /// The Talos version that is wanted.
    pub fn talos(&self) -> Option<&str> {
        written(self.version.as_ref())
    }

    /// The Kubernetes version that is wanted.
    pub fn kubernetes(&self) -> Option<&str> {
        written(self.kube_version.as_ref())
    }

    /// The mode; `None` if it is not known.
    pub fn mode(&self) -> Option<Mode> {
        Mode::parse(&self.mode)
    }
}

/// What was observed of a control plane and its cluster.
///
/// Fields that hold secrets are not here, see
/// [`ControlPlaneSecrets`](crate::secret::ControlPlaneSecrets). Since
/// nothing writes them, a merge patch with this type leaves them as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ControlPlaneStatus {
    /// See [`ControlPlaneState`](crate::state::ControlPlaneState); another operator may have
    /// left another word.
    pub state: String,
    /// The state in a sentence.
    pub message: String,
    /// How many nodes are done, like `2/5`.
    pub progress: String,
    /// The run that is under way, or the last one.
    pub run: String,
    /// The lowest Talos that was seen on its machines, with its `v`; never the spec's.
    pub observed_version: String,
    /// The lowest Kubernetes that was seen on any part of the cluster; never the spec's.
    pub observed_kube_version: String,
    /// The newest generation that the status takes into account. Absent on an object that
    /// only another operator has driven, which is adopted and not changed at first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions, other writers' included.
    pub conditions: Vec<Condition>,
    /// Whether the machines ran a cluster before.
    #[serde(skip_serializing_if = "is_false")]
    pub imported: bool,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_with_nothing_in_it_is_read() {
        let read: TalosControlPlane =
            serde_json::from_value(json!({"metadata": {"name": "a"}})).expect("readable");
        assert_eq!(
            (read.spec.talos(), read.spec.kubernetes(), read.spec.mode()),
            (None, None, None)
        );
        assert_eq!(read.owner_name(), "a");
        assert_eq!(read.condition(ConditionType::Ready), None);
        let text = serde_json::to_value(&read).expect("writable");
        assert_eq!(text["kind"], "TalosControlPlane");
        assert_eq!(text["apiVersion"], "talos.alperen.cloud/v1alpha1");
    }

    #[test]
    fn secrets_are_neither_read_nor_written_back() {
        let read: TalosControlPlane = serde_json::from_value(json!({
            "metadata": {"name": "a", "ownerReferences": [
                {"apiVersion": "v1", "kind": "TalosCluster", "name": "prod", "uid": "u"}]},
            "spec": {"mode": "metal", "version": "", "podCIDR": ["10.0.0.0/8"]},
            "status": {"state": "Available", "secretBundle": "hunter2", "bundleConfig": "{}",
                "config": "hunter3", "imported": true, "conditions": []},
        }))
        .expect("readable");
        assert_eq!((read.owner_name(), read.spec.talos()), ("prod", None));
        let text = format!("{read:?}{}", serde_json::to_string(&read).expect("writable"));
        assert!(!text.contains("hunter"), "{text}");
    }
}
