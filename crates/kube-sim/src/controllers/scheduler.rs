//! The scheduler: assigns pods to nodes.

use serde_json::Value;

use super::index::NodeInfo;
use super::select::{self, Resources};
use super::{Controllers, conditions};
use crate::events::{Source, about, tell};
use crate::names::PODS;
use crate::object;
use crate::store::{Store, Write};

const SCHEDULER: Source<'_> = Source::controller("default-scheduler");

impl Controllers {
    /// Finds a node for a pod.
    pub(super) fn place(&mut self, store: &mut Store, namespace: &str, name: &str) {
        let Some(pod) = store.get(&PODS, namespace, name).cloned() else { return };
        if !object::text(&pod, &["spec", "nodeName"]).is_empty()
            || object::is_deleting(&pod)
            || object::text(&pod, &["spec", "schedulerName"]) != "default-scheduler"
            || !object::list(&pod, &["spec", "schedulingGates"]).is_empty()
        {
            return;
        }
        let (now, write) = (store.now(), Write::by("kube-scheduler"));
        match self.choose(&pod) {
            Ok(node) => {
                if store.bind(&write, namespace, name, &node).is_ok() {
                    let message = format!("Successfully assigned {namespace}/{name} to {node}");
                    tell(store, now, SCHEDULER, &about(&pod), false, "Scheduled", &message);
                }
            }
            Err(message) => {
                let known = conditions::get(&pod, "PodScheduled")
                    .map_or("", |condition| object::text(condition, &["message"]));
                if known != message {
                    tell(store, now, SCHEDULER, &about(&pod), true, "FailedScheduling", &message);
                }
                self.parked.insert((namespace.to_owned(), name.to_owned()));
                let _ = store.modify_status(&write, &PODS, namespace, name, |pod| {
                    let mut list = object::list(pod, &["status", "conditions"]).to_vec();
                    let (kind, reason) = ("PodScheduled", "Unschedulable");
                    conditions::put(&mut list, kind, "False", reason, &message, now);
                    object::set(pod, &["status", "conditions"], list);
                });
            }
        }
    }

    /// The best node, or why none fits.
    fn choose(&self, pod: &Value) -> Result<String, String> {
        let asked = select::requests(pod);
        let owner = select::controller(pod).map_or("", |owner| object::text(owner, &["uid"]));
        let mut best: Option<((u32, u64), &str)> = None;
        let mut refusals = std::collections::BTreeMap::<&str, usize>::new();
        let named = select::named_node(pod);
        let together = self.index.together.get(owner);
        let candidates: Vec<(&String, &NodeInfo)> = match named {
            Some(name) => self.index.nodes.get_key_value(name).into_iter().collect(),
            None => self.index.nodes.iter().collect(),
        };
        for (name, info) in candidates {
            let used = self.index.used.get(name).copied().unwrap_or_default();
            if let Some(refusal) = refusal(pod, info, &asked, &used) {
                *refusals.entry(refusal).or_default() += 1;
                continue;
            }
            let together = together.and_then(|nodes| nodes.get(name));
            let score = (together.copied().unwrap_or_default(), used.pods);
            if best.is_none_or(|(least, _)| score < least) {
                best = Some((score, name));
            }
        }
        best.map(|(_, name)| name.to_owned()).ok_or_else(|| {
            let total = self.index.nodes.len();
            let reasons: Vec<String> =
                refusals.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
            if reasons.is_empty() {
                "no nodes available to schedule pods".to_owned()
            } else {
                format!("0/{total} nodes are available: {}.", reasons.join(", "))
            }
        })
    }
}

/// Why a pod cannot run on a node.
fn refusal(
    pod: &Value,
    info: &NodeInfo,
    asked: &Resources,
    used: &Resources,
) -> Option<&'static str> {
    let tolerations = object::list(pod, &["spec", "tolerations"]);
    if info.deleting {
        return Some("node(s) were being deleted");
    }
    let tolerates = |key: &str| {
        let taint = serde_json::json!({"key": key, "effect": "NoSchedule"});
        select::toleration(tolerations, &taint).is_some()
    };
    if info.unschedulable && !tolerates("node.kubernetes.io/unschedulable") {
        return Some("node(s) were unschedulable");
    }
    if !info.ready && !tolerates("node.kubernetes.io/not-ready") {
        return Some("node(s) had untolerated taint(s)");
    }
    let repels = info.taints().iter().any(|taint| {
        object::text(taint, &["effect"]) != "PreferNoSchedule"
            && select::toleration(tolerations, taint).is_none()
    });
    if repels {
        return Some("node(s) had untolerated taint(s)");
    }
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    if !select::wants_node(spec, &info.node) {
        return Some("node(s) didn't match Pod's node affinity/selector");
    }
    let room = &info.allocatable;
    if used.pods + 1 > room.pods {
        Some("Too many pods")
    } else if used.cpu_millis + asked.cpu_millis > room.cpu_millis {
        Some("Insufficient cpu")
    } else if used.memory + asked.memory > room.memory {
        Some("Insufficient memory")
    } else {
        None
    }
}
