//! `TalosWorker`: workers of a cluster that share a version and a limit. The object is the
//! pool.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use upgrade_api::resource;

use crate::condition::{Condition, ConditionType};
use crate::reconcile_mode::ReconcileMode;
use crate::reference::{KeyReference, NameReference, is_false};
use crate::spec::{MetalSpec, Mode, RolloutStrategy, written};
use crate::{GROUP, VERSION};

/// A pool of workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TalosWorker {
    /// The group and version of its kind.
    #[serde(default = "TalosWorker::own_api_version")]
    pub api_version: String,
    /// Its kind.
    #[serde(default = "TalosWorker::own_kind")]
    pub kind: String,
    /// Its name, owners and annotations.
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: WorkerSpec,
    /// What was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<WorkerStatus>,
}

resource!(TalosWorker, GROUP, VERSION, "talosworkers");

impl TalosWorker {
    /// How far it is reconciled.
    pub fn reconcile_mode(&self) -> ReconcileMode {
        ReconcileMode::of(&self.metadata)
    }

    /// The control plane that it belongs to, in its namespace; `None` if it names none.
    pub fn control_plane(&self) -> Option<&str> {
        let reference = self.spec.control_plane_ref.as_ref()?;
        Some(reference.name.as_str()).filter(|name| !name.is_empty())
    }

    /// The condition of a type.
    pub fn condition(&self, kind: ConditionType) -> Option<&Condition> {
        Condition::find(&self.status.as_ref()?.conditions, kind)
    }
}

/// What is wanted of a pool. Its Kubernetes is that of the control plane, so `kubeVersion` is
/// not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WorkerSpec {
    /// Talos; `None` leaves it alone. See [`talos`](Self::talos).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Needed in fact, though the schema does not demand it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_ref: Option<NameReference>,
    /// See [`Mode`].
    pub mode: String,
    /// The machines of the mode `metal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metal_spec: Option<MetalSpec>,
    /// A machine configuration with the keys of a cluster that is imported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_ref: Option<KeyReference>,
    /// `reset` or `preserve`. No machine is ever reset; `reset` is reported as not supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<String>,
    /// How many of the pool may be away at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_strategy: Option<RolloutStrategy>,
}

impl WorkerSpec {
    /// The Talos version that is wanted.
    pub fn talos(&self) -> Option<&str> {
        written(self.version.as_ref())
    }

    /// The mode; `None` if it is not known.
    pub fn mode(&self) -> Option<Mode> {
        Mode::parse(&self.mode)
    }
}

/// What was observed of a pool. As with control planes, `config` is not here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WorkerStatus {
    /// See [`WorkerState`](crate::state::WorkerState); another operator may have left another
    /// word.
    pub state: String,
    /// The state in a sentence.
    pub message: String,
    /// How many of the pool are done, like `2/5`.
    pub progress: String,
    /// The run that is under way, or the last one.
    pub run: String,
    /// The lowest Talos that was seen on the pool, with its `v`; never the spec's.
    pub observed_version: String,
    /// The newest generation that the status takes into account.
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
    use crate::int_or_string::IntOrString;

    #[test]
    fn a_pool_is_read() {
        let read: TalosWorker = serde_json::from_value(json!({
            "metadata": {"name": "a"},
            "spec": {"mode": "metal", "controlPlaneRef": {"name": "prod"}, "replicas": 1,
                "version": "v1.13.9", "kubeVersion": "v1.35.0",
                "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}},
                "metalSpec": {"machineSpec": {"image": "i", "registries": {"x": 1}}, "machines": [
                    {"address": "10.0.0.1", "version": "v1.13.8"},
                    {"machineRef": {"kind": "Server", "name": "s", "uid": "u", "fieldPath": ".status.ip"},
                     "configPatches": [{"machine": {}}]}]}},
        }))
        .expect("readable");
        assert_eq!((read.control_plane(), read.spec.talos()), (Some("prod"), Some("v1.13.9")));
        let metal = read.spec.metal_spec.as_ref().expect("machines");
        assert_eq!(metal.machines[0].version.as_deref(), Some("v1.13.8"));
        let reference = metal.machines[1].machine_ref.as_ref().expect("a reference");
        assert_eq!(
            (reference.kind.as_str(), reference.field_path.as_str()),
            ("Server", ".status.ip")
        );
        let limit = read.spec.rollout_strategy.as_ref().and_then(RolloutStrategy::max_unavailable);
        assert_eq!(limit, Some(&IntOrString::Text("50%".to_owned())));
    }

    #[test]
    fn a_reference_without_a_name_is_none() {
        for spec in
            [json!({}), json!({"controlPlaneRef": {}}), json!({"controlPlaneRef": {"name": ""}})]
        {
            let read = json!({"metadata": {"name": "a"}, "spec": spec});
            let read: TalosWorker = serde_json::from_value(read).expect("readable");
            assert_eq!(read.control_plane(), None);
        }
    }
}
