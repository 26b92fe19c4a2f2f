//! The Kubernetes API, as far as the engine uses it.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::future::Future;

use serde_json::Value;
use upgrade_core::snapshot::{KubernetesFacts, NodeName};
use upgrade_core::workload::{Budget, Capacity, Pod, PodName};

use super::{Changes, IoError, Machine};

/// The name of an object of any kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectName {
    /// Group and version, such as `apps/v1`.
    pub api_version: String,
    /// The kind, such as `DaemonSet`.
    pub kind: String,
    /// Empty for cluster-wide objects.
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

/// The answer of the API server to an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// The pod terminates.
    Accepted,
    /// It is gone, or another pod has its name.
    Gone,
    /// A budget does not allow it now (429). Names the budget, if the answer did, and quotes the
    /// answer.
    Blocked {
        /// The budget.
        budget: Option<String>,
        /// The message of the API server.
        why: String,
    },
}

/// How an object is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Apply {
    /// Take over fields that others own.
    pub force: bool,
    /// Change nothing; return what the object would be.
    pub dry_run: bool,
}

/// The Kubernetes API of a cluster.
pub trait Kubernetes: Send + Sync {
    /// Every node.
    fn nodes(
        &self,
    ) -> impl Future<Output = Result<BTreeMap<NodeName, KubernetesFacts>, IoError>> + Send;

    /// Asks the API server of one control plane, and no other, whether it is ready.
    fn api_server(&self, of: &Machine) -> impl Future<Output = Result<(), IoError>> + Send;

    /// What every node has for pods.
    fn capacity(
        &self,
    ) -> impl Future<Output = Result<BTreeMap<NodeName, Capacity>, IoError>> + Send;

    /// Cordons a node, or uncordons it.
    fn set_unschedulable(
        &self,
        node: &NodeName,
        unschedulable: bool,
    ) -> impl Future<Output = Result<(), IoError>> + Send;

    /// The pods of a node, or all.
    fn pods(&self, on: Option<&NodeName>)
    -> impl Future<Output = Result<Vec<Pod>, IoError>> + Send;

    /// All disruption budgets.
    fn budgets(&self) -> impl Future<Output = Result<Vec<Budget>, IoError>> + Send;

    /// Requests the eviction of a pod, by the eviction API only (rule 6).
    fn evict(
        &self,
        pod: &PodName,
        uid: &str,
    ) -> impl Future<Output = Result<Evicted, IoError>> + Send;

    /// The volumes that are still attached to a node and are detached once its pods are gone.
    fn attachments(
        &self,
        node: &NodeName,
    ) -> impl Future<Output = Result<Vec<String>, IoError>> + Send;

    /// Grows when nodes, pods, attachments or workloads may have changed.
    fn changes(&self) -> Changes;

    /// API versions that clients still request and that a later Kubernetes removes: `(group/version
    /// resource, removed in minor)`.
    fn deprecated(&self) -> impl Future<Output = Result<Vec<(String, String)>, IoError>> + Send;

    /// The number of objects of a resource, such as `jobs` of `batch/v1`; 0 if the API server has
    /// no such resource.
    fn count(
        &self,
        api_version: &str,
        resource: &str,
    ) -> impl Future<Output = Result<usize, IoError>> + Send;

    /// The version that the API server prefers for a group, such as `apps/v1`
    /// for `apps` and `v1` for the empty one; `None` if it has no such group.
    fn preferred(
        &self,
        group: &str,
    ) -> impl Future<Output = Result<Option<String>, IoError>> + Send;

    /// An object, if it exists.
    fn object(
        &self,
        name: &ObjectName,
    ) -> impl Future<Output = Result<Option<Value>, IoError>> + Send;

    /// Server-side apply as `manager`. Returns the object as it is afterwards.
    fn apply(
        &self,
        object: &Value,
        manager: &str,
        how: Apply,
    ) -> impl Future<Output = Result<Value, IoError>> + Send;

    /// Deletes an object. It is no error if it does not exist.
    fn delete(&self, name: &ObjectName) -> impl Future<Output = Result<(), IoError>> + Send;
}
