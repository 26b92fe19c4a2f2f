//! Daemon sets: one pod on every eligible node.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::index::NodeInfo;
use super::{Controllers, Kind, manager, pods, select};
use crate::names::{DAEMON_SETS, PODS};
use crate::object;
use crate::store::Store;

const HASH: &str = "controller-revision-hash";

/// The tolerations that daemon set pods get in addition to their own.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

impl Controllers {
    pub(super) fn daemon_set(&mut self, store: &mut Store, namespace: &str, name: &str) {
        let Some(set) = store.get(&DAEMON_SETS, namespace, name).cloned() else { return };
        if object::is_deleting(&set) {
            return;
        }
        let model = self.models.of(&set);
        let Model { hash, pod: model, .. } = &*model;
        let mut by_node: BTreeMap<String, Vec<Arc<Value>>> = BTreeMap::new();
        for pod in self.pods_of(store, &set) {
            let node = match object::text(&pod, &["spec", "nodeName"]) {
                "" => select::named_node(&pod).unwrap_or_default().to_owned(),
                node => node.to_owned(),
            };
            by_node.entry(node).or_default().push(pod);
        }
        let mut counts = Counts::default();
        let mut outdated = Vec::new();
        let wait = object::number(&set, &["spec", "minReadySeconds"]).unwrap_or(0);
        for (node, info) in &self.index.nodes {
            let here = by_node.remove(node).unwrap_or_default();
            let wanted = wants(model, info);
            if !wanted.0 {
                counts.misplaced += usize::from(!here.is_empty());
                if !wanted.1 {
                    for pod in here.iter().filter(|pod| !object::is_deleting(pod)) {
                        pods::delete(store, pod);
                    }
                }
                continue;
            }
            counts.desired += 1;
            let (over, mut alive): (Vec<_>, Vec<_>) =
                here.iter().partition(|pod| select::is_over(pod));
            for pod in over.iter().filter(|pod| !object::is_deleting(pod)) {
                pods::delete(store, pod);
            }
            alive.sort_by_key(|pod| object::is_deleting(pod));
            let Some(pod) = alive.first() else {
                // Create one only after the surplus is gone.
                if over.is_empty() {
                    create(store, model, name, node);
                }
                continue;
            };
            for surplus in alive.iter().skip(1).filter(|pod| !object::is_deleting(pod)) {
                pods::delete(store, surplus);
            }
            counts.current += 1;
            if object::is_deleting(pod) {
                continue;
            }
            let updated = object::label(pod, HASH) == Some(hash);
            counts.updated += usize::from(updated);
            counts.ready += usize::from(pods::is_ready(pod));
            let available = pods::is_available(pod, wait, store.now());
            if let Err(at) = available {
                let (kind, namespace, name) =
                    (Kind::DaemonSet, namespace.to_owned(), name.to_owned());
                self.timers.entry(at).or_default().insert(super::Work { kind, namespace, name });
            }
            let available = available.unwrap_or(false);
            counts.available += usize::from(available);
            if !updated {
                outdated.push((available, (*pod).clone()));
            }
        }
        replace(store, &set, &counts, outdated);
        daemon_set_status(store, &set, &counts);
    }
}

/// The pod models of the sets, cached while their templates stay the same: each set is reconciled
/// often, against every node.
#[derive(Clone, Debug, Default)]
pub(super) struct Models {
    /// By the UID of the set.
    known: BTreeMap<String, Arc<Model>>,
}

#[derive(Debug)]
pub(super) struct Model {
    generation: Option<i64>,
    hash: String,
    pod: Value,
}

impl Models {
    fn of(&mut self, set: &Value) -> Arc<Model> {
        let generation = object::number(set, &["metadata", "generation"]);
        let known = self.known.get(object::uid(set));
        if let Some(known) = known.filter(|known| known.generation == generation) {
            return known.clone();
        }
        let hash = pods::hash(object::at(set, &["spec", "template"]).unwrap_or(&Value::Null));
        let pod = model(set, &hash);
        let model = Arc::new(Model { generation, hash, pod });
        self.known.insert(object::uid(set).to_owned(), model.clone());
        model
    }

    /// Drops a deleted set.
    pub(super) fn forget(&mut self, set: &Value) {
        self.known.remove(object::uid(set));
    }

    /// Whether a change of a node affects a set.
    pub(super) fn care(
        &mut self,
        set: &Value,
        before: Option<&NodeInfo>,
        after: Option<&NodeInfo>,
    ) -> bool {
        if let (Some(before), Some(after)) = (before, after)
            && (before.deleting, &before.node) == (after.deleting, &after.node)
        {
            return false;
        }
        let model = self.of(set);
        let wanted = |info: Option<&NodeInfo>| info.map(|info| wants(&model.pod, info));
        wanted(before) != wanted(after)
    }
}

#[derive(Default)]
struct Counts {
    desired: usize,
    current: usize,
    misplaced: usize,
    updated: usize,
    ready: usize,
    available: usize,
}

/// A pod of the set without a node.
fn model(set: &Value, hash: &str) -> Value {
    let mut pod = pods::from_template(set);
    object::set(&mut pod, &["metadata", "labels", HASH], hash);
    let generation = object::number(set, &["metadata", "generation"]).unwrap_or(1).to_string();
    object::set(&mut pod, &["metadata", "labels", "pod-template-generation"], generation);
    let mut tolerations = object::list(&pod, &["spec", "tolerations"]).to_vec();
    for (key, effect) in TOLERATED {
        tolerations.push(json!({"key": key, "operator": "Exists", "effect": effect}));
    }
    if object::flag(&pod, &["spec", "hostNetwork"]) {
        let key = "node.kubernetes.io/network-unavailable";
        tolerations.push(json!({"key": key, "operator": "Exists", "effect": "NoSchedule"}));
    }
    object::set(&mut pod, &["spec", "tolerations"], tolerations);
    pod
}

/// Whether a node gets a pod, and whether it may keep an existing one.
fn wants(model: &Value, info: &NodeInfo) -> (bool, bool) {
    let spec = model.get("spec").unwrap_or(&Value::Null);
    if !select::wants_node(spec, &info.node) || info.deleting {
        return (false, false);
    }
    let tolerations = object::list(spec, &["tolerations"]);
    let repels = |effects: &[&str]| {
        info.taints().iter().any(|taint| {
            effects.contains(&object::text(taint, &["effect"]))
                // An unreachable node still counts.
                && !object::text(taint, &["key"]).starts_with("node.kubernetes.io/")
                && select::toleration(tolerations, taint).is_none()
        })
    };
    (!repels(&["NoSchedule", "NoExecute"]), !repels(&["NoExecute"]))
}

fn create(store: &mut Store, model: &Value, name: &str, node: &str) {
    let mut pod = model.clone();
    object::set(&mut pod, &["metadata", "generateName"], format!("{name}-"));
    let term = json!({"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": [node]},
    ]});
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let path = ["spec", "affinity", "nodeAffinity", required, "nodeSelectorTerms"];
    let mut terms = object::list(&pod, &path).to_vec();
    if terms.is_empty() {
        terms.push(term);
    } else {
        for known in &mut terms {
            object::set(known, &["matchFields"], term["matchFields"].clone());
        }
    }
    object::set(&mut pod, &path, terms);
    let _ = store.create(&manager(), &PODS, pod);
}

/// Replaces pods of an older template, as many at once as may be unavailable.
fn replace(store: &mut Store, set: &Value, counts: &Counts, outdated: Vec<(bool, Arc<Value>)>) {
    if object::text(set, &["spec", "updateStrategy", "type"]) == "OnDelete" {
        return;
    }
    let usual = json!(1);
    let most = object::at(set, &["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"]);
    let desired = i64::try_from(counts.desired).unwrap_or(i64::MAX);
    let most = select::share(most.unwrap_or(&usual), desired, true).max(1);
    let mut room = usize::try_from(most)
        .unwrap_or(1)
        .saturating_sub(counts.desired.saturating_sub(counts.available));
    for (available, pod) in outdated {
        if available {
            if room == 0 {
                continue;
            }
            room -= 1;
        }
        pods::delete(store, &pod);
    }
}

fn daemon_set_status(store: &mut Store, set: &Value, counts: &Counts) {
    let mut status = json!({
        "currentNumberScheduled": counts.current,
        "desiredNumberScheduled": counts.desired,
        "numberMisscheduled": counts.misplaced,
        "numberReady": counts.ready,
        "updatedNumberScheduled": counts.updated,
        "numberAvailable": counts.available,
        "numberUnavailable": counts.desired.saturating_sub(counts.available),
        "observedGeneration": object::number(set, &["metadata", "generation"]).unwrap_or(1),
    });
    pods::drop_zeros(
        &mut status,
        &["updatedNumberScheduled", "numberAvailable", "numberUnavailable"],
    );
    let (namespace, name) = (object::namespace(set), object::name(set));
    let _ = store.set_status(&manager(), &DAEMON_SETS, namespace, name, status);
}
