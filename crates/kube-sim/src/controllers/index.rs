//! Indexes for fast lookups.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::conditions;
use super::select::{self, Resources};
use crate::names::ResourceName;
use crate::object;
use crate::time::Time;

/// A resource, a namespace and a name.
pub(super) type Reference = (ResourceName, String, String);

/// The scheduler's view of a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NodeInfo {
    /// The part of the node that scheduling reads.
    pub(super) node: Value,
    pub(super) ready: bool,
    pub(super) deleting: bool,
    pub(super) unschedulable: bool,
    pub(super) allocatable: Resources,
}

impl NodeInfo {
    pub(super) fn new(node: &Value) -> Self {
        let allocatable = object::at(node, &["status", "allocatable"]);
        let labels = object::at(node, &["metadata", "labels"]);
        let asked = json!({
            "metadata": {"name": object::name(node), "labels": labels},
            "spec": node.get("spec"),
        });
        Self {
            node: asked,
            ready: conditions::is_true(node, "Ready"),
            deleting: object::is_deleting(node),
            unschedulable: object::flag(node, &["spec", "unschedulable"]),
            allocatable: allocatable.map(select::resources).unwrap_or_default(),
        }
    }

    /// Whether both are the same for scheduling.
    pub(super) fn same(&self, other: &Self) -> bool {
        self.ready == other.ready
            && self.deleting == other.deleting
            && self.allocatable == other.allocatable
            && self.node.get("spec") == other.node.get("spec")
            && object::at(&self.node, &["metadata", "labels"])
                == object::at(&other.node, &["metadata", "labels"])
    }

    pub(super) fn taints(&self) -> &[Value] {
        object::list(&self.node, &["spec", "taints"])
    }
}

/// The index.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// By the UID of the owner.
    pub(super) dependents: BTreeMap<String, BTreeSet<Reference>>,
    pub(super) nodes: BTreeMap<String, NodeInfo>,
    /// Pods by the node they are bound to.
    pub(super) bound: BTreeMap<String, BTreeSet<(String, String)>>,
    /// The resource requests of a node's pods.
    pub(super) used: BTreeMap<String, Resources>,
    /// Events by the time they last happened.
    pub(super) events: BTreeSet<(Time, String, String)>,
    /// The number of an owner's pods on each node: by owner, then by node.
    pub(super) together: BTreeMap<String, BTreeMap<String, u32>>,
}

impl Index {
    pub(super) fn put(&mut self, resource: &ResourceName, object: &Value, is_pod: bool) {
        for owner in object::list(object, &["metadata", "ownerReferences"]) {
            let uid = object::text(owner, &["uid"]).to_owned();
            self.dependents.entry(uid).or_default().insert(reference(resource, object));
        }
        if is_pod {
            self.count(object, true);
        }
    }

    pub(super) fn take(&mut self, resource: &ResourceName, object: &Value, is_pod: bool) {
        for owner in object::list(object, &["metadata", "ownerReferences"]) {
            let uid = object::text(owner, &["uid"]);
            if let Some(dependents) = self.dependents.get_mut(uid) {
                dependents.remove(&reference(resource, object));
                if dependents.is_empty() {
                    self.dependents.remove(uid);
                }
            }
        }
        if is_pod {
            self.count(object, false);
        }
    }

    /// Adds or removes a pod.
    fn count(&mut self, pod: &Value, add: bool) {
        let node = object::text(pod, &["spec", "nodeName"]);
        if node.is_empty() {
            return;
        }
        let key = (object::namespace(pod).to_owned(), object::name(pod).to_owned());
        let bound = self.bound.entry(node.to_owned()).or_default();
        if add {
            bound.insert(key);
        } else {
            bound.remove(&key);
        }
        if select::is_over(pod) {
            return;
        }
        let used = self.used.entry(node.to_owned()).or_default();
        let asked = select::requests(pod);
        let owner = select::controller(pod).map_or("", |owner| object::text(owner, &["uid"]));
        let nodes = self.together.entry(owner.to_owned()).or_default();
        let together = nodes.entry(node.to_owned()).or_default();
        if add {
            used.add(&asked);
            *together += 1;
        } else {
            used.subtract(&asked);
            *together = together.saturating_sub(1);
            if *together == 0 {
                nodes.remove(node);
            }
            if nodes.is_empty() {
                self.together.remove(owner);
            }
        }
    }

    /// The pods of an owner, by name.
    pub(super) fn owned<'a>(
        &'a self,
        uid: &str,
        resource: &'a ResourceName,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.dependents
            .get(uid)
            .into_iter()
            .flatten()
            .filter(move |(found, _, _)| found == resource)
            .map(|(_, namespace, name)| (namespace.as_str(), name.as_str()))
    }
}

/// Whether both versions of an object have the same index entries.
pub(super) fn same(previous: &Value, object: &Value, is_pod: bool) -> bool {
    let owners = ["metadata", "ownerReferences"];
    object::list(previous, &owners) == object::list(object, &owners)
        && (!is_pod
            || previous.get("spec") == object.get("spec")
                && select::is_over(previous) == select::is_over(object))
}

pub(super) fn reference(resource: &ResourceName, object: &Value) -> Reference {
    (resource.clone(), object::namespace(object).to_owned(), object::name(object).to_owned())
}
