//! `KubernetesCluster` (`vitistack.io/v1alpha1`): what upgrades need of it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::status::Condition;
use upgrade_api::resource;

/// A cluster of the platform.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesCluster {
    /// The group and version of its kind.
    #[serde(default = "KubernetesCluster::own_api_version")]
    pub api_version: String,
    /// Its kind.
    #[serde(default = "KubernetesCluster::own_kind")]
    pub kind: String,
    /// Its name, and the annotations.
    pub metadata: ObjectMeta,
    /// What the platform wants of it.
    #[serde(default)]
    pub spec: ClusterSpec,
    /// What is known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ClusterStatus>,
}

resource!(KubernetesCluster, "vitistack.io", "v1alpha1", "kubernetesclusters");

impl KubernetesCluster {
    /// The annotations, empty if there are none.
    pub fn annotations(&self) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        self.metadata.annotations.as_ref().unwrap_or(&NONE)
    }

    /// One annotation.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations().get(name).map(String::as_str)
    }

    /// The platform's identifier, by which its Secret and machines are found.
    pub fn cluster_id(&self) -> &str {
        &self.spec.data.cluster_id
    }

    /// `status.phase`, empty if there is none.
    pub fn phase(&self) -> &str {
        self.status.as_ref().map_or("", |status| &status.phase)
    }

    /// The condition of a type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.as_ref()?.conditions.iter().find(|condition| condition.kind == kind)
    }
}

/// What the platform wants of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterSpec {
    /// Where it belongs.
    pub data: ClusterData,
    /// What it is made of.
    pub topology: Topology,
}

/// Where a cluster belongs. The schema has more, which upgrades do not need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClusterData {
    /// The platform's identifier.
    pub cluster_id: String,
    /// `talos` for clusters that are ours to upgrade.
    pub provider: String,
}

/// What a cluster is made of. Upgrades never write it, and believe the nodes
/// where it says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Topology {
    /// The Kubernetes that the cluster was made with.
    pub version: String,
}

/// What is known of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterStatus {
    /// See [`Phase`](crate::status::Phase); the platform has more.
    pub phase: String,
    /// Conditions, ours among the platform's.
    pub conditions: Vec<Condition>,
    /// The platform's own picture; whether it is there decides if a first
    /// status needs [`empty_state`](crate::status::empty_state).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Value>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_with_nothing_in_it_is_read() {
        let read: KubernetesCluster =
            serde_json::from_value(json!({"metadata": {"name": "a"}})).expect("readable");
        assert_eq!((read.cluster_id(), read.phase()), ("", ""));
        assert_eq!(read.annotation("x"), None);
        let text = serde_json::to_value(&read).expect("writable");
        assert_eq!(text["kind"], "KubernetesCluster");
        assert_eq!(text["apiVersion"], "vitistack.io/v1alpha1");
    }
}
