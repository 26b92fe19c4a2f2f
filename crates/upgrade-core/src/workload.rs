//! What runs on the nodes, as far as moving it away needs to know.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::selector::LabelSelector;
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
    /// Which pods of its namespace it counts.
    pub selector: LabelSelector,
    /// How many disruptions it allows right now.
    pub disruptions_allowed: i64,
    /// How many healthy pods it wants.
    pub desired_healthy: i64,
    /// How many healthy pods it sees.
    pub current_healthy: i64,
    /// How many pods it counts.
    pub expected_pods: i64,
}

impl Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Budget {
    /// Whether it counts the pod.
    pub fn selects(&self, pod: &Pod) -> bool {
        pod.name.namespace == self.namespace && self.selector.matches(&pod.labels)
    }

    /// Whether it allows no disruption even while every pod of it is healthy.
    pub const fn never_allows(&self) -> bool {
        self.expected_pods > 0 && self.desired_healthy >= self.expected_pods
    }
}

impl Pod {
    /// Whether nothing of it runs any more, for good.
    pub fn is_finished(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Whether a `DaemonSet` keeps it on its node.
    pub fn is_daemon(&self) -> bool {
        self.controller.as_ref().is_some_and(|(kind, _)| kind == "DaemonSet")
    }

    /// Whether a node may take it: its selector fits and every taint is tolerated.
    pub fn may_run_on(&self, node: &Capacity) -> bool {
        let selected =
            self.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value));
        let all = self.tolerates.iter().any(|key| key == "*");
        selected && (all || node.taints.iter().all(|taint| self.tolerates.contains(taint)))
    }
}

/// Everything that runs, and what there is to run it on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workloads {
    /// Every pod.
    pub pods: Vec<Pod>,
    /// Every disruption budget.
    pub budgets: Vec<Budget>,
    /// What each node has for pods.
    pub capacity: BTreeMap<NodeName, Capacity>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(labels: &[(&str, &str)]) -> Pod {
        Pod {
            name: PodName { namespace: "shop".to_owned(), name: "web-1".to_owned() },
            uid: "1".to_owned(),
            node: None,
            phase: "Running".to_owned(),
            ready: true,
            deleting_since: None,
            controller: None,
            mirror: false,
            empty_dir: false,
            claims: vec![],
            labels: labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
            node_selector: BTreeMap::new(),
            tolerates: vec![],
            requests: Resources::default(),
            containers: vec![],
            config_hash: None,
        }
    }

    #[test]
    fn a_budget_counts_pods_of_its_namespace_only() {
        let pod = labelled(&[("app", "web")]);
        let mut budget = Budget {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            selector: LabelSelector(serde_json::json!({"matchLabels": {"app": "web"}})),
            disruptions_allowed: 0,
            desired_healthy: 1,
            current_healthy: 1,
            expected_pods: 1,
        };
        assert!(budget.selects(&pod));
        budget.namespace = "elsewhere".to_owned();
        assert!(!budget.selects(&pod));
    }

    #[test]
    fn taints_and_selectors_keep_pods_away() {
        let mut pod = labelled(&[]);
        let mut node = Capacity {
            allocatable: Resources::default(),
            labels: BTreeMap::from([("disk".to_owned(), "ssd".to_owned())]),
            taints: vec!["gpu".to_owned()],
        };
        assert!(!pod.may_run_on(&node));
        pod.tolerates = vec!["gpu".to_owned()];
        assert!(pod.may_run_on(&node));
        pod.tolerates = vec!["*".to_owned()];
        pod.node_selector.insert("disk".to_owned(), "ssd".to_owned());
        assert!(pod.may_run_on(&node));
        node.labels.clear();
        assert!(!pod.may_run_on(&node));
    }
}
