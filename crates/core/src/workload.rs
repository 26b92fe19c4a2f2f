//! What runs on the nodes, as far as moving it away needs to know.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::snapshot::NodeName;

/// A pod's name within its namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodName {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What a pod asks of a node, or what a node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Thousandths of a core.
    pub cpu_millis: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Pods: one for a pod itself.
    pub pods: u64,
}

/// What a node has for pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capacity {
    /// What it can allocate.
    pub allocatable: Resources,
    /// Its labels, for selectors.
    pub labels: BTreeMap<String, String>,
    /// Keys of taints that keep pods away, `NoSchedule` and `NoExecute`.
    pub taints: Vec<String>,
}

/// A container of a pod, as its status tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// The image in the pod's specification.
    pub image: String,
    /// Whether it is ready.
    pub ready: bool,
    /// Why it waits, such as `ImagePullBackOff`, if it does.
    pub waiting: Option<String>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// Its name.
    pub name: PodName,
    /// Its UID: another pod may come to have its name.
    pub uid: String,
    /// Where it runs, once it is placed.
    pub node: Option<NodeName>,
    /// Its phase.
    pub phase: String,
    /// Its Ready condition.
    pub ready: bool,
    /// When it was asked to go, if it was.
    pub deleting_since: Option<Timestamp>,
    /// Kind and name of its controller, if it has one.
    pub controller: Option<(String, String)>,
    /// Whether it mirrors a static pod.
    pub mirror: bool,
    /// Whether it keeps data in an `emptyDir`.
    pub empty_dir: bool,
    /// The persistent volume claims that it uses.
    pub claims: Vec<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its node selector.
    pub node_selector: BTreeMap<String, String>,
    /// Keys of taints that it tolerates; `*` for all.
    pub tolerates: Vec<String>,
    /// What it asks for.
    pub requests: Resources,
    /// Its containers.
    pub containers: Vec<Container>,
    /// The hash of its static pod's configuration, on mirrors.
    pub config_hash: Option<String>,
}

/// A disruption budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its selector in JSON form, as Kubernetes writes it (`matchLabels`,
    /// `matchExpressions`).
    pub selector: serde_json::Value,
    /// How many disruptions it allows right now.
    pub disruptions_allowed: i64,
    /// How many healthy pods it wants.
    pub desired_healthy: i64,
    /// How many healthy pods it sees.
    pub current_healthy: i64,
    /// How many pods it counts.
    pub expected_pods: i64,
}
