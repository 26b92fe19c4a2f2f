//! `UpgradeRun` (`upgrade.vitistack.io/v1alpha1`): one run of the engine on one
//! cluster, with its plan and its journal.
//!
//! The spec never changes; whoever wants something else makes another run. The
//! status is written by the one process that drives, and each write names the
//! resourceVersion that it knows (rule 9).

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::resource::resource;

/// One run of the engine on one cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeRun {
    /// The group and version of its kind.
    #[serde(default = "UpgradeRun::own_api_version")]
    pub api_version: String,
    /// Its kind.
    #[serde(default = "UpgradeRun::own_kind")]
    pub kind: String,
    /// Its name, and the cluster as its owner.
    pub metadata: ObjectMeta,
    /// What is to be done.
    #[serde(default)]
    pub spec: RunSpec,
    /// What was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
}

resource!(UpgradeRun, "upgrade.vitistack.io", "v1alpha1", "upgraderuns");

impl UpgradeRun {
    /// A run that nobody began yet.
    pub fn new(metadata: ObjectMeta, spec: RunSpec) -> Self {
        let (api_version, kind) = (Self::own_api_version(), Self::own_kind());
        Self { api_version, kind, metadata, spec, status: None }
    }
}

/// What is upgraded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Product {
    /// The operating system.
    #[default]
    Talos,
    /// Kubernetes.
    Kubernetes,
}

impl Product {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Talos => "Talos",
            Self::Kubernetes => "Kubernetes",
        }
    }
}

impl fmt::Display for Product {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

/// What is to be done. Immutable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RunSpec {
    /// The `KubernetesCluster`, in the same namespace.
    pub cluster: ClusterReference,
    /// What is upgraded.
    pub product: Product,
    /// The version that ran.
    pub from: String,
    /// The version that is wanted.
    pub to: String,
    /// Whether it is a way back.
    pub rollback: bool,
    /// The plan's hash (rule 9).
    pub hash: String,
    /// The plan as JSON text: text keeps it byte by byte, and with it the hash.
    pub plan: String,
}

/// Which cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterReference {
    /// Its name.
    pub name: String,
    /// Its UID: a cluster made anew under an old name is another one.
    pub uid: String,
}

/// Where a run stands.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum RunPhase {
    /// Nobody began it.
    #[default]
    Pending,
    /// Somebody drives it.
    Running,
    /// The user asked for a pause.
    Paused,
    /// It failed, and waits for a person.
    Halted,
    /// Everything planned is done.
    Completed,
    /// The user took the target away before the end.
    Cancelled,
}

impl RunPhase {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Pending,
        Self::Running,
        Self::Paused,
        Self::Halted,
        Self::Completed,
        Self::Cancelled,
    ];

    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Paused => "Paused",
            Self::Halted => "Halted",
            Self::Completed => "Completed",
            Self::Cancelled => "Cancelled",
        }
    }

    /// Whether nothing more happens to it. A halted run can be resumed.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled)
    }
}

impl fmt::Display for RunPhase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RunStatus {
    /// Where it stands.
    pub phase: RunPhase,
    /// The same in a sentence.
    pub message: String,
    /// How many nodes are done, like `2/5`.
    pub progress: String,
    /// The process that drives it, or did so last.
    pub runner: String,
    /// When it began, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// When it ended, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Every node of the plan.
    pub nodes: Vec<NodeProgress>,
    /// The phases that it went through, oldest first.
    pub history: Vec<Transition>,
    /// How many objects `<run>-part-<n>` hold the beginning of the journal.
    pub parts: u32,
    /// What comes after the parts: blocks of entries, packed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sealed: Vec<String>,
    /// The journal's end: one entry, as JSON text, an item, oldest first.
    pub journal: Vec<String>,
}

/// Where a node stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeProgress {
    /// Its name.
    pub name: String,
    /// `control-plane` or `worker`.
    pub role: String,
    /// `pending`, `in-progress`, `done` or `failed`.
    pub state: String,
    /// The step that it is at, or the failure.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub step: String,
}

/// A change of the phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Transition {
    /// When, RFC 3339.
    pub at: String,
    /// What it became.
    pub phase: RunPhase,
    /// By which process.
    pub runner: String,
    /// Why.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_written_as_they_are_told() {
        for phase in RunPhase::ALL {
            assert_eq!(serde_json::to_value(phase).expect("text"), phase.as_str());
        }
        for product in [Product::Talos, Product::Kubernetes] {
            assert_eq!(serde_json::to_value(product).expect("text"), product.as_str());
        }
    }

    #[test]
    fn a_run_survives_its_own_writing() {
        let spec = RunSpec { to: "1.13.9".to_owned(), plan: "{}".to_owned(), ..RunSpec::default() };
        let run = UpgradeRun::new(ObjectMeta::default(), spec);
        let text = serde_json::to_string(&run).expect("writable");
        assert!(text.contains("\"kind\":\"UpgradeRun\""), "{text}");
        assert_eq!(serde_json::from_str::<UpgradeRun>(&text).expect("readable"), run);
    }
}
