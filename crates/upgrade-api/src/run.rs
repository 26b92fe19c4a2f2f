//! `UpgradeRun` (`upgrade.vitistack.io/v1alpha1`): one run of the engine on one
//! cluster, with its plan and its journal.
//!
//! The spec never changes; another intent is another run. The
//! status is written by the one process that drives, and each write names the
//! resourceVersion that it knows (rule 9).

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::resource;

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
    /// A run that has not started.
    pub fn new(metadata: ObjectMeta, spec: RunSpec) -> Self {
        let (api_version, kind) = (Self::own_api_version(), Self::own_kind());
        Self { api_version, kind, metadata, spec, status: None }
    }

    /// The object that wanted the run, in the run's own namespace.
    pub fn owner(&self) -> Owner {
        let namespace = self.metadata.namespace.clone().unwrap_or_default();
        Owner { namespace, ..self.spec.owner.clone() }
    }
}

/// What is to be done. Immutable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", from = "StoredSpec")]
pub struct RunSpec {
    /// The object that wanted the run.
    pub owner: Owner,
    /// What ran, and what is wanted.
    pub versions: RunVersions,
    /// Whether it is a rollback.
    pub rollback: bool,
    /// The plan's hash (rule 9).
    pub hash: String,
    /// The plan as JSON text: text keeps it byte by byte, and with it the hash.
    pub plan: String,
}

/// The object that a run belongs to, of whatever kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Owner {
    /// Its API group.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace, which is the run's as well.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID: an object that was created again under an old name is another one.
    pub uid: String,
}

/// From where to where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunVersions {
    /// What ran.
    pub from: ProductVersions,
    /// What is wanted; a product that stays is left out.
    pub to: ProductVersions,
}

/// A version of each product.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProductVersions {
    /// The operating system; `None` if it is unknown or left alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub talos: Option<String>,
    /// Kubernetes; `None` if it is unknown or left alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<String>,
}

/// A spec as it may be stored: runs of earlier releases name a `KubernetesCluster` and one
/// product. Clusters keep their newest ten runs, so such are still there.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StoredSpec {
    owner: Option<Owner>,
    versions: Option<RunVersions>,
    rollback: bool,
    hash: String,
    plan: String,
    cluster: FormerCluster,
    product: FormerProduct,
    from: String,
    to: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FormerCluster {
    name: String,
    uid: String,
}

#[derive(Default, Deserialize)]
enum FormerProduct {
    #[default]
    Talos,
    Kubernetes,
}

impl From<StoredSpec> for RunSpec {
    fn from(stored: StoredSpec) -> Self {
        let StoredSpec { rollback, hash, plan, cluster, product, from, to, .. } = stored;
        let FormerCluster { name, uid } = cluster;
        let former = || Owner {
            group: "vitistack.io".to_owned(),
            kind: "KubernetesCluster".to_owned(),
            // That of the run: see `UpgradeRun::owner`.
            namespace: String::new(),
            name,
            uid,
        };
        let versions = || {
            let one = |version: String| {
                let version = Some(version).filter(|version| !version.is_empty());
                match product {
                    FormerProduct::Talos => {
                        ProductVersions { talos: version, ..ProductVersions::default() }
                    }
                    FormerProduct::Kubernetes => {
                        ProductVersions { kubernetes: version, ..ProductVersions::default() }
                    }
                }
            };
            RunVersions { from: one(from), to: one(to) }
        };
        let owner = stored.owner.unwrap_or_else(former);
        let versions = stored.versions.unwrap_or_else(versions);
        Self { owner, versions, rollback, hash, plan }
    }
}

/// Where a run stands.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum RunPhase {
    /// It has not started.
    #[default]
    Pending,
    /// A process drives it.
    Running,
    /// The user asked for a pause.
    Paused,
    /// It failed, and waits for a person.
    Halted,
    /// Everything planned is done.
    Completed,
    /// The user removed the target before the end.
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
    /// The kind of the failure, such as `boot-back`; empty if it did not fail.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub failure: String,
    /// Whether an installer has run, or may have, and the node has not booted since.
    #[serde(skip_serializing_if = "is_false")]
    pub armed: bool,
    /// Whether the run cordoned it, and has not uncordoned it.
    #[serde(skip_serializing_if = "is_false")]
    pub cordoned: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
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
    fn phases_are_written_as_they_are_reported() {
        for phase in RunPhase::ALL {
            assert_eq!(serde_json::to_value(phase).expect("text"), phase.as_str());
        }
    }

    #[test]
    fn a_run_survives_its_own_writing() {
        let to = ProductVersions { talos: Some("1.13.9".to_owned()), kubernetes: None };
        let versions = RunVersions { to, ..RunVersions::default() };
        let owner = Owner { kind: "TalosCluster".to_owned(), ..Owner::default() };
        let spec = RunSpec { owner, versions, plan: "{}".to_owned(), ..RunSpec::default() };
        let run = UpgradeRun::new(ObjectMeta::default(), spec);
        let text = serde_json::to_string(&run).expect("writable");
        assert!(text.contains("\"kind\":\"UpgradeRun\""), "{text}");
        assert_eq!(serde_json::from_str::<UpgradeRun>(&text).expect("readable"), run);
    }

    #[test]
    fn a_run_of_the_former_shape_is_read_as_what_it_was() {
        let former = |product: &str| {
            serde_json::from_value::<UpgradeRun>(serde_json::json!({
                "apiVersion": "upgrade.vitistack.io/v1alpha1", "kind": "UpgradeRun",
                "metadata": {"name": "prod-1", "namespace": "team"},
                "spec": {"cluster": {"name": "prod", "uid": "u-1"}, "product": product,
                    "from": "", "to": "1.34.3", "rollback": true, "hash": "0123", "plan": "{}"},
            }))
            .expect("readable")
        };
        let run = former("Kubernetes");
        let owner = Owner {
            group: "vitistack.io".to_owned(),
            kind: "KubernetesCluster".to_owned(),
            namespace: "team".to_owned(),
            name: "prod".to_owned(),
            uid: "u-1".to_owned(),
        };
        assert_eq!(run.owner(), owner);
        let RunSpec { versions, rollback, hash, plan, .. } = run.spec;
        let to = ProductVersions { talos: None, kubernetes: Some("1.34.3".to_owned()) };
        assert_eq!(versions, RunVersions { from: ProductVersions::default(), to });
        assert_eq!((rollback, hash.as_str(), plan.as_str()), (true, "0123", "{}"));
        assert_eq!(former("Talos").spec.versions.to.talos.as_deref(), Some("1.34.3"));
    }
}
