//! What the engine asks of Kubernetes.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::future::Future;

use serde_json::Value;
use upgrade_core::snapshot::{KubernetesFacts, NodeName};
use upgrade_core::workload::{Budget, Capacity, Pod, PodName};

use super::{Changes, Machine, Trouble};

/// The name of an object of any kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectName {
    /// Group and version, such as `apps/v1`.
    pub api_version: String,
    /// The kind, such as `DaemonSet`.
    pub kind: String,
    /// Empty for what belongs to the whole cluster.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { api_version: _, kind, namespace, name } = self;
        match namespace.as_str() {
            "" => write!(f, "{kind} {name}"),
            namespace => write!(f, "{kind} {namespace}/{name}"),
        }
    }
}

/// What the API server said to an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// The pod will go.
    Accepted,
    /// It is gone, or another pod has its name.
    Gone,
    /// A budget does not allow it now (429): which, where it was named, and
    /// what the server said.
    Blocked {
        /// The budget.
        budget: Option<String>,
        /// The server's words.
        why: String,
    },
}

/// How an object is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Apply {
    /// Take over fields that somebody else owns.
    pub force: bool,
    /// Change nothing, say what would be.
    pub dry_run: bool,
}

/// The Kubernetes API of a cluster.
pub trait Kubernetes: Send + Sync {
    /// Every node.
    fn nodes(
        &self,
    ) -> impl Future<Output = Result<BTreeMap<NodeName, KubernetesFacts>, Trouble>> + Send;

    /// Asks the API server of one control plane, and no other, whether it is ready.
    fn api_server(&self, of: &Machine) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// What every node has for pods.
    fn capacity(
        &self,
    ) -> impl Future<Output = Result<BTreeMap<NodeName, Capacity>, Trouble>> + Send;

    /// Cordons a node, or lifts its cordon.
    fn set_unschedulable(
        &self,
        node: &NodeName,
        unschedulable: bool,
    ) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// The pods of a node, or all.
    fn pods(&self, on: Option<&NodeName>)
    -> impl Future<Output = Result<Vec<Pod>, Trouble>> + Send;

    /// All disruption budgets.
    fn budgets(&self) -> impl Future<Output = Result<Vec<Budget>, Trouble>> + Send;

    /// Asks for a pod to go, by the eviction API only (rule 6).
    fn evict(
        &self,
        pod: &PodName,
        uid: &str,
    ) -> impl Future<Output = Result<Evicted, Trouble>> + Send;

    /// The volumes that are still attached to a node and go when its pods go.
    fn attachments(
        &self,
        node: &NodeName,
    ) -> impl Future<Output = Result<Vec<String>, Trouble>> + Send;

    /// Grows when nodes, pods, attachments or workloads may have changed.
    fn changes(&self) -> Changes;

    /// API versions that clients still use and that a coming Kubernetes no
    /// longer has: `(group/version resource, removed in minor)`.
    fn deprecated(&self) -> impl Future<Output = Result<Vec<(String, String)>, Trouble>> + Send;

    /// How many objects of a resource there are, such as `jobs` of `batch/v1`;
    /// none if the API server has no such resource.
    fn count(
        &self,
        api_version: &str,
        resource: &str,
    ) -> impl Future<Output = Result<usize, Trouble>> + Send;

    /// The version that the API server prefers for a group, such as `apps/v1`
    /// for `apps` and `v1` for the empty one; `None` if it has no such group.
    fn preferred(
        &self,
        group: &str,
    ) -> impl Future<Output = Result<Option<String>, Trouble>> + Send;

    /// An object, if it is there.
    fn object(
        &self,
        name: &ObjectName,
    ) -> impl Future<Output = Result<Option<Value>, Trouble>> + Send;

    /// Server-side apply as `manager`; the object as it is afterwards.
    fn apply(
        &self,
        object: &Value,
        manager: &str,
        how: Apply,
    ) -> impl Future<Output = Result<Value, Trouble>> + Send;

    /// Deletes an object; one that is gone is no trouble.
    fn delete(&self, name: &ObjectName) -> impl Future<Output = Result<(), Trouble>> + Send;
}
