//! Node lifecycle: detects silent nodes, and taints and evicts their pods.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Controllers, Kind, conditions, manager, pods, select};
use crate::events::{Source, about, tell};
use crate::names::{NODES, PODS};
use crate::object;
use crate::store::lazy_leases::NODE_LEASES;
use crate::store::{DeleteOptions, Store};
use crate::time::Time;

/// How long a node may be silent before it counts as unreachable.
const SILENCE: Duration = Duration::from_secs(40);
/// How long pods stay on an unreachable node by default, in seconds.
const PATIENCE: i64 = 300;
/// A check delayed by more than this was missed because the model was not advanced.
const LATE: Duration = Duration::from_secs(5);

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

const NODE: Source<'_> = Source::controller("node-controller");
const TAINT: Source<'_> = Source::controller("taint-eviction-controller");

/// The last signs of life of the nodes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Watch {
    heard: BTreeMap<String, Time>,
    /// Since when pods are bound to nodes that do not exist.
    missing: BTreeMap<String, Time>,
    /// When the nodes are checked next.
    #[serde(skip)]
    armed: BTreeMap<String, Time>,
}

impl Controllers {
    /// Records a changed lease as a sign of life.
    pub(super) fn record_lease(&mut self, store: &Store, lease: &Value) {
        if object::namespace(lease) == NODE_LEASES {
            // A lease may be written after its renewal time, never before.
            let renewed = Time::from_text(object::text(lease, &["spec", "renewTime"]));
            let now = store.now();
            self.record_contact(
                now,
                object::name(lease),
                renewed.map_or(now, |renewed| renewed.min(now)),
            );
        }
    }

    /// Records a sign of life, or a new node.
    pub(super) fn record_contact(&mut self, now: Time, name: &str, at: Time) {
        self.watch.heard.insert(name.to_owned(), at);
        self.arm(now, name, at.plus(SILENCE));
    }

    /// Schedules a check of a node, once.
    fn arm(&mut self, now: Time, name: &str, at: Time) {
        if self.watch.armed.get(name).is_none_or(|armed| *armed <= now) {
            self.watch.armed.insert(name.to_owned(), at);
            self.later(at, Kind::Node, "", name);
        }
    }

    /// Restarts every silence timer after a time in which the API server could not receive signs of
    /// life.
    pub(super) fn reset_silence(&mut self, now: Time) {
        if self.next_event().is_some_and(|due| due.plus(LATE) < now) {
            for heard in self.watch.heard.values_mut() {
                *heard = now;
            }
        }
    }

    pub(super) fn check_node(&mut self, store: &mut Store, name: &str) {
        let now = store.now();
        let Some(node) = store.get(&NODES, "", name).cloned() else {
            return self.delete_orphans(store, name);
        };
        self.watch.missing.remove(name);
        let renews = store.renews_lease(name);
        if renews {
            self.watch.heard.insert(name.to_owned(), now);
        }
        // A status report is a sign of life, like a renewed lease: a kubelet that has just
        // restarted reports before it renews.
        let heard = self.watch.heard.entry(name.to_owned()).or_insert(now);
        *heard = reported(&node).map_or(*heard, |at| at.max(*heard));
        let heard = *heard;
        let silent = heard.plus(SILENCE) <= now;
        // A kubelet with lazy renewals reports when they stop.
        if !silent && !renews {
            self.arm(now, name, heard.plus(SILENCE));
        }
        let node = if silent { mark_unknown(store, &node) } else { node };
        let ready = conditions::get(&node, "Ready")
            .map_or("Unknown", |condition| object::text(condition, &["status"]))
            .to_owned();
        let taints = taints(&node, &ready, now);
        if taints != object::list(&node, &["spec", "taints"]) {
            let _ = store.modify(&manager(), &NODES, "", name, |node| {
                if taints.is_empty() {
                    object::remove(node, &["spec", "taints"]);
                } else {
                    object::set(node, &["spec", "taints"], taints.clone());
                }
            });
        }
        if ready == "True" && !taints.iter().any(is_no_execute) {
            // No taint evicts its pods.
            return;
        }
        let bound = self.index.bound.get(name).cloned().unwrap_or_default();
        for (namespace, pod) in bound {
            let Some(pod) = store.get(&PODS, &namespace, &pod).cloned() else { continue };
            if ready != "True" && ready_since(&pod) < ready_since(&node) {
                mark_not_ready(store, &pod);
            }
            self.evict(store, &pod, &taints, name);
        }
    }

    /// Deletes a pod that does not tolerate the node's taints, when its toleration time is over.
    fn evict(&mut self, store: &mut Store, pod: &Value, taints: &[Value], node: &str) {
        if object::is_deleting(pod) || select::is_over(pod) {
            return;
        }
        let tolerations = object::list(pod, &["spec", "tolerations"]);
        for taint in taints.iter().filter(|taint| is_no_execute(taint)) {
            let usual = [NOT_READY, UNREACHABLE].contains(&object::text(taint, &["key"]));
            let seconds = match select::toleration(tolerations, taint) {
                Some(found) => match object::number(found, &["tolerationSeconds"]) {
                    Some(seconds) => seconds,
                    None => continue,
                },
                None if usual => PATIENCE,
                None => 0,
            };
            let since = Time::from_text(object::text(taint, &["timeAdded"])).unwrap_or(store.now());
            let due = since.plus(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
            if due <= store.now() {
                let (namespace, name) = (object::namespace(pod), object::name(pod));
                let message = format!("Marking for deletion Pod {namespace}/{name}");
                let now = store.now();
                tell(store, now, TAINT, &about(pod), false, "TaintManagerEviction", &message);
                return pods::delete(store, pod);
            }
            self.later(due, Kind::Node, "", node);
        }
    }

    /// Deletes the pods of a node that no longer exists.
    fn delete_orphans(&mut self, store: &mut Store, name: &str) {
        self.watch.heard.remove(name);
        self.watch.armed.remove(name);
        let bound = self.index.bound.get(name).cloned().unwrap_or_default();
        if bound.is_empty() {
            self.watch.missing.remove(name);
            return;
        }
        let since = *self.watch.missing.entry(name.to_owned()).or_insert(store.now());
        if since.plus(SILENCE) > store.now() {
            return self.later(since.plus(SILENCE), Kind::Node, "", name);
        }
        for (namespace, pod) in bound {
            let _ = store.delete(&manager(), &PODS, &namespace, &pod, &DeleteOptions::now());
        }
    }
}

fn is_no_execute(taint: &Value) -> bool {
    object::text(taint, &["effect"]) == "NoExecute"
}

/// Marks a silent node as unknown.
fn mark_unknown(store: &mut Store, node: &std::sync::Arc<Value>) -> std::sync::Arc<Value> {
    let now = store.now();
    if conditions::get(node, "Ready").is_none_or(|ready| ready["status"] != "Unknown") {
        let message = format!("Node {} status is now: NodeNotReady", object::name(node));
        tell(store, now, NODE, &about(node), false, "NodeNotReady", &message);
    }
    let changed = store.modify_status(&manager(), &NODES, "", object::name(node), |node| {
        let mut list = object::list(node, &["status", "conditions"]).to_vec();
        for kind in ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"] {
            let message = "Kubelet stopped posting node status.";
            conditions::put(&mut list, kind, "Unknown", "NodeStatusUnknown", message, now);
        }
        object::set(node, &["status", "conditions"], list);
    });
    changed.unwrap_or_else(|_| node.clone())
}

/// The taints that a node should have; taints of others stay.
fn taints(node: &Value, ready: &str, now: Time) -> Vec<Value> {
    let wanted: &[(&str, &str)] = match ready {
        "True" => &[],
        "False" => &[(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")],
        _ => &[(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")],
    };
    let mut wanted = wanted.to_vec();
    if object::flag(node, &["spec", "unschedulable"]) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    let names = |taint: &Value, (key, effect): (&str, &str)| {
        object::text(taint, &["key"]) == key && object::text(taint, &["effect"]) == effect
    };
    let mut taints = object::list(node, &["spec", "taints"]).to_vec();
    taints.retain(|taint| {
        let ours = [NOT_READY, UNREACHABLE, UNSCHEDULABLE].contains(&object::text(taint, &["key"]));
        !ours || wanted.iter().any(|wanted| names(taint, *wanted))
    });
    for (key, effect) in wanted {
        if !taints.iter().any(|taint| names(taint, (key, effect))) {
            taints.push(json!({"key": key, "effect": effect, "timeAdded": now.to_text()}));
        }
    }
    taints
}

/// When the kubelet last reported its status; `None` if another writer did.
fn reported(node: &Value) -> Option<Time> {
    let ready = conditions::get(node, "Ready")?;
    let own = object::text(ready, &["status"]) != "Unknown";
    Time::from_text(object::text(ready, &["lastHeartbeatTime"])).filter(|_| own)
}

/// When the condition last changed. If a pod became ready after its node was lost, its kubelet
/// works: only that kubelet reports the pod's status then.
fn ready_since(object: &Value) -> Option<Time> {
    let ready = conditions::get(object, "Ready")?;
    Time::from_text(object::text(ready, &["lastTransitionTime"]))
}

fn mark_not_ready(store: &mut Store, pod: &Value) {
    if !pods::is_ready(pod) || select::is_over(pod) {
        return;
    }
    let now = store.now();
    tell(store, now, NODE, &about(pod), true, "NodeNotReady", "Node is not ready");
    let (namespace, name) = (object::namespace(pod), object::name(pod));
    let _ = store.modify_status(&manager(), &PODS, namespace, name, |pod| {
        let mut list = object::list(pod, &["status", "conditions"]).to_vec();
        let message = "Node is not ready";
        conditions::put(&mut list, "Ready", "False", "NodeNotReady", message, now);
        object::set(pod, &["status", "conditions"], list);
    });
}
