//! `TalosCluster`: a control plane and a pool of workers in one object. It owns a
//! `TalosControlPlane` and a `TalosWorker` of its own name, or refers to existing ones.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use upgrade_api::resource;

use crate::condition::{Condition, ConditionType};
use crate::control_plane::ControlPlaneSpec;
use crate::hidden::Hidden;
use crate::reconcile_mode::ReconcileMode;
use crate::reference::NameReference;
use crate::view::view_of;
use crate::worker::WorkerSpec;
use crate::{GROUP, VERSION};

/// A cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TalosCluster {
    /// The group and version of its kind.
    #[serde(default = "TalosCluster::own_api_version")]
    pub api_version: String,
    /// Its kind.
    #[serde(default = "TalosCluster::own_kind")]
    pub kind: String,
    /// Its name, labels and annotations.
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: ClusterSpec,
    /// What was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ClusterStatus>,
}

resource!(TalosCluster, GROUP, VERSION, "talosclusters");

impl TalosCluster {
    /// How far it is reconciled.
    pub fn reconcile_mode(&self) -> ReconcileMode {
        ReconcileMode::of_cluster(&self.metadata)
    }

    /// The condition of a type.
    pub fn condition(&self, kind: ConditionType) -> Option<&Condition> {
        Condition::find(&self.status.as_ref()?.conditions, kind)
    }
}

/// What is wanted of a cluster. The schema has at most one of each pair.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterSpec {
    /// As far as upgrades need it. The whole of it is in [`ClusterTemplates`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<ControlPlaneSpec>,
    /// One that exists and is managed by its own spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_ref: Option<NameReference>,
    /// As far as upgrades need it. Its `controlPlaneRef` does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerSpec>,
    /// One that exists and is managed by its own spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_ref: Option<NameReference>,
}

/// What was observed of a cluster; its parts have their own statuses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterStatus {
    /// The state in a sentence.
    pub message: String,
    /// The newest generation that the status takes into account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions, other writers' included.
    pub conditions: Vec<Condition>,
}

/// A `TalosCluster` with the whole specs of its children, to create and update them. Read by
/// name when that is due and never watched: patches and registries may contain secrets.
#[derive(Clone, Debug, Deserialize)]
pub struct ClusterTemplates {
    /// Its name and UID.
    pub metadata: ObjectMeta,
    /// The specs of the children.
    #[serde(default)]
    pub spec: Templates,
}

view_of!(ClusterTemplates, TalosCluster);

/// The specs of the children of a cluster, every field included.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Templates {
    /// The `spec` of the control plane.
    pub control_plane: Option<Hidden<Value>>,
    /// The `spec` of the workers.
    pub worker: Option<Hidden<Value>>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn templates_have_every_field_and_show_none() {
        let patches = json!([{"machine": {"token": "hunter2"}}]);
        let object = json!({"metadata": {"name": "a"}, "spec": {"controlPlane": {
            "mode": "metal", "version": "v1.13.9", "metalSpec": {
                "machineSpec": {"configPatches": patches},
                "machines": [{"address": "10.0.0.1"}]}}}});
        let whole: ClusterTemplates = serde_json::from_value(object.clone()).expect("readable");
        let spec = whole.spec.control_plane.as_ref().expect("there").expose();
        assert_eq!(spec["metalSpec"]["machineSpec"]["configPatches"], patches);
        assert!(!format!("{whole:?}").contains("hunter2"), "{whole:?}");
        let watched: TalosCluster = serde_json::from_value(object).expect("readable");
        assert!(!format!("{watched:?}").contains("hunter2"), "{watched:?}");
        let spec = watched.spec.control_plane.expect("there");
        assert_eq!(spec.talos(), Some("v1.13.9"));
    }
}
