//! The status of pod disruption budgets.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Controllers, Kind, conditions, manager, pods, select};
use crate::names::{
    DEPLOYMENTS, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS, ResourceName, STATEFUL_SETS,
};
use crate::object;
use crate::store::Store;
use crate::time::Time;

/// How long the disruption controller waits for an evicted pod to go before the eviction no longer
/// counts.
const DISRUPTION: Duration = Duration::from_mins(2);

impl Controllers {
    /// See [`ApiServer::stick_budgets`](crate::ApiServer::stick_budgets).
    pub(crate) fn stick_budgets(&mut self, store: &Store, nodes: BTreeSet<String>) {
        if self.stuck != nodes {
            self.stuck = nodes;
            for budget in store.list(&POD_DISRUPTION_BUDGETS, None) {
                self.enqueue(Kind::Budget, object::namespace(budget), object::name(budget));
            }
        }
    }

    pub(super) fn budget(&mut self, store: &mut Store, namespace: &str, name: &str) {
        let Some(budget) = store.get(&POD_DISRUPTION_BUDGETS, namespace, name).cloned() else {
            return;
        };
        let now = store.now();
        let selector = object::at(&budget, &["spec", "selector"]);
        let mut disrupted = Map::new();
        let known = object::at(&budget, &["status", "disruptedPods"]).and_then(Value::as_object);
        let (mut healthy, mut count) = (0_i64, 0_i64);
        let mut owners = BTreeMap::new();
        let mut failure = None;
        for pod in store.list(&PODS, Some(namespace)).filter(|pod| select::matches(selector, pod)) {
            count += 1;
            match scale_of(store, pod) {
                Some((uid, scale)) => drop(owners.insert(uid, scale)),
                // A pod without a controller does not count; one with an unknown owner is an error.
                None if counts_owners(&budget) && select::controller(pod).is_some() => {
                    failure = Some(format!("found no controllers for pod {:?}", object::name(pod)));
                }
                None => {}
            }
            let node = object::text(pod, &["spec", "nodeName"]);
            if self.stuck.contains(node) {
                failure = Some(format!("evictions from {node} are blocked by a simulated fault"));
            }
            if object::is_deleting(pod) {
                continue;
            }
            let since = known.and_then(|known| known.get(object::name(pod)));
            if let Some(since) = since
                && let Some(at) = since.as_str().and_then(Time::from_text)
                && at.plus(DISRUPTION) > now
            {
                disrupted.insert(object::name(pod).to_owned(), since.clone());
                self.later(at.plus(DISRUPTION), Kind::Budget, namespace, name);
                continue;
            }
            healthy += i64::from(pods::is_ready(pod));
        }
        let mut list = object::list(&budget, &["status", "conditions"]).to_vec();
        let mut put = |is, reason, message: &str, generation: i64| {
            conditions::put(&mut list, "DisruptionAllowed", is, reason, message, now);
            for condition in &mut list {
                object::set(condition, &["message"], message);
                object::set(condition, &["observedGeneration"], generation);
            }
            std::mem::take(&mut list)
        };
        let resource = &POD_DISRUPTION_BUDGETS;
        if let Some(failure) = failure {
            // The numbers keep their last values, which are not valid any more.
            let seen = object::number(&budget, &["status", "observedGeneration"]).unwrap_or(0);
            let list = put("False", "SyncFailed", &failure, seen);
            let _ = store.modify_status(&manager(), resource, namespace, name, |budget| {
                object::set(budget, &["status", "disruptionsAllowed"], 0);
                object::set(budget, &["status", "conditions"], list);
            });
            return;
        }
        let scale: i64 = owners.values().sum();
        let (expected, desired) = demands(&budget, count, scale);
        let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
        let (is, reason) =
            if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
        let generation = object::number(&budget, &["metadata", "generation"]).unwrap_or(1);
        let mut status = json!({
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "disruptionsAllowed": allowed,
            "observedGeneration": generation,
            "conditions": put(is, reason, "", generation),
        });
        if !disrupted.is_empty() {
            object::set(&mut status, &["disruptedPods"], disrupted);
        }
        let _ = store.set_status(&manager(), resource, namespace, name, status);
    }
}

/// Whether a budget is relative to the replica counts of its pods' owners.
fn counts_owners(budget: &Value) -> bool {
    object::at(budget, &["spec", "maxUnavailable"]).is_some()
        || object::at(budget, &["spec", "minAvailable"]).is_some_and(Value::is_string)
}

/// How many pods there should be, and how many of them must be healthy.
fn demands(budget: &Value, count: i64, scale: i64) -> (i64, i64) {
    if let Some(most) = object::at(budget, &["spec", "maxUnavailable"]) {
        return (scale, (scale - select::share(most, scale, true)).max(0));
    }
    match object::at(budget, &["spec", "minAvailable"]) {
        Some(least @ Value::String(_)) => (scale, select::share(least, scale, true)),
        Some(least) => (count, least.as_i64().unwrap_or(0)),
        None => (count, 1),
    }
}

/// The UID and the replica count of the pod's owner.
fn scale_of(store: &Store, pod: &Value) -> Option<(String, i64)> {
    let find = |object: &Value, kind: &str, resource: &ResourceName| {
        let owner =
            select::controller(object).filter(|owner| object::text(owner, &["kind"]) == kind)?;
        store
            .get(resource, object::namespace(object), object::text(owner, &["name"]))
            .filter(|found| object::uid(found) == object::text(owner, &["uid"]))
            .cloned()
    };
    let owner = if let Some(set) = find(pod, "ReplicaSet", &REPLICA_SETS) {
        find(&set, "Deployment", &DEPLOYMENTS).unwrap_or(set)
    } else {
        find(pod, "StatefulSet", &STATEFUL_SETS)?
    };
    let replicas = object::number(&owner, &["spec", "replicas"]).unwrap_or(1);
    Some((object::uid(&owner).to_owned(), replicas))
}
