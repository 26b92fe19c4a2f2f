//! Deployments: selects the new replica set and updates the status.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Controllers, Kind, conditions, manager, pods};
use crate::names::{DEPLOYMENTS, REPLICA_SETS};
use crate::object;
use crate::store::{DeleteOptions, Store};
use crate::time::Time;

pub(super) const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";

/// A count in a replica set.
pub(super) fn replicas(set: &Value) -> i64 {
    object::number(set, &["spec", "replicas"]).unwrap_or(1)
}

pub(super) fn available(set: &Value) -> i64 {
    object::number(set, &["status", "availableReplicas"]).unwrap_or(0)
}

fn total(sets: &[Arc<Value>], path: &[&str]) -> i64 {
    sets.iter().map(|set| object::number(set, path).unwrap_or(0)).sum()
}

fn revision(object: &Value) -> i64 {
    object::annotation(object, REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The template hashes, cached while the templates stay the same: each deployment is reconciled
/// often.
#[derive(Clone, Debug, Default)]
pub(super) struct Hashes {
    /// By the UID of the deployment, with its generation.
    known: BTreeMap<String, (Option<i64>, Arc<str>)>,
}

impl Hashes {
    fn of(&mut self, deployment: &Value, template: &Value) -> Arc<str> {
        let generation = object::number(deployment, &["metadata", "generation"]);
        let known = self.known.get(object::uid(deployment));
        if let Some((_, hash)) = known.filter(|(known, _)| *known == generation) {
            return hash.clone();
        }
        let hash: Arc<str> = pods::hash(template).into();
        self.known.insert(object::uid(deployment).to_owned(), (generation, hash.clone()));
        hash
    }

    /// Drops a deleted deployment.
    pub(super) fn forget(&mut self, deployment: &Value) {
        self.known.remove(object::uid(deployment));
    }
}

impl Controllers {
    pub(super) fn deployment(&mut self, store: &mut Store, namespace: &str, name: &str) {
        let Some(deployment) = store.get(&DEPLOYMENTS, namespace, name).cloned() else { return };
        if object::is_deleting(&deployment) {
            return;
        }
        let template = object::at(&deployment, &["spec", "template"]).unwrap_or(&Value::Null);
        let hash = self.hashes.of(&deployment, template);
        let paused = object::flag(&deployment, &["spec", "paused"]);
        let is_new = |set: &Arc<Value>| object::label(set, HASH) == Some(&*hash);
        let mut sets = self.replica_sets(store, &deployment);
        if !paused && !sets.iter().any(is_new) {
            let newest = sets.iter().map(|set| revision(set)).max().unwrap_or(0) + 1;
            if let Ok(set) = make(store, &deployment, template.clone(), &hash, newest) {
                sets.push(set);
            }
        }
        if !paused && let Some(new) = sets.iter().find(|set| is_new(set)).cloned() {
            mark_revision(store, &deployment, &sets, &new);
            self.absorb(store);
            sets = self.replica_sets(store, &deployment);
        }
        let (new, old): (Vec<_>, Vec<_>) = sets.into_iter().partition(is_new);
        self.roll(store, &deployment, new.first(), &old, paused);
        self.absorb(store);
        let sets = self.replica_sets(store, &deployment);
        let (new, old): (Vec<_>, Vec<_>) = sets.into_iter().partition(is_new);
        self.deployment_status(store, &deployment, &new, &old);
        forget_history(store, &deployment, old);
    }

    fn replica_sets(&self, store: &Store, deployment: &Value) -> Vec<Arc<Value>> {
        self.index
            .owned(object::uid(deployment), &REPLICA_SETS)
            .filter_map(|(namespace, name)| store.get(&REPLICA_SETS, namespace, name))
            .filter(|set| !object::is_deleting(set))
            .cloned()
            .collect()
    }

    fn deployment_status(
        &mut self,
        store: &mut Store,
        deployment: &Value,
        new: &[Arc<Value>],
        old: &[Arc<Value>],
    ) {
        let (namespace, name) = (object::namespace(deployment), object::name(deployment));
        let now = store.now();
        let wanted = replicas(deployment);
        let all: Vec<Arc<Value>> = new.iter().chain(old).cloned().collect();
        let count = total(&all, &["status", "replicas"]);
        let ready = total(&all, &["status", "readyReplicas"]);
        let usable = total(&all, &["status", "availableReplicas"]);
        let updated = total(new, &["status", "replicas"]);
        let known = |field: &str| object::number(deployment, &["status", field]).unwrap_or(0);
        let moved = updated > known("updatedReplicas")
            || count - updated < known("replicas") - known("updatedReplicas")
            || ready > known("readyReplicas")
            || usable > known("availableReplicas");
        let complete = updated == wanted && count == wanted && usable == wanted;
        let mut list = object::list(deployment, &["status", "conditions"]).to_vec();
        let (least, _) = super::rollout::limits(deployment);
        let (is, reason, has) = if usable >= least {
            ("True", "MinimumReplicasAvailable", "has")
        } else {
            ("False", "MinimumReplicasUnavailable", "does not have")
        };
        let message = format!("Deployment {has} minimum availability.");
        put(&mut list, "Available", is, reason, &message, now);
        let set = new.first().map_or("", |set| object::name(set));
        if !object::flag(deployment, &["spec", "paused"]) {
            self.progress(deployment, &mut list, now, set, complete, moved);
        }
        let mut status = json!({
            "observedGeneration": object::number(deployment, &["metadata", "generation"]).unwrap_or(1),
            "replicas": count,
            "updatedReplicas": updated,
            "readyReplicas": ready,
            "availableReplicas": usable,
            "unavailableReplicas": (count.max(wanted) - usable).max(0),
            "conditions": list,
        });
        let optional = [
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
        ];
        pods::drop_zeros(&mut status, &optional);
        let _ = store.set_status(&manager(), &DEPLOYMENTS, namespace, name, status);
    }

    /// Whether the rollout progresses, is complete or has timed out.
    fn progress(
        &mut self,
        deployment: &Value,
        list: &mut Vec<Value>,
        now: Time,
        set: &str,
        complete: bool,
        moved: bool,
    ) {
        let (namespace, name) = (object::namespace(deployment), object::name(deployment));
        let current = conditions::get(deployment, "Progressing").cloned().unwrap_or_default();
        let reason = object::text(&current, &["reason"]);
        if complete {
            let message = format!("ReplicaSet {set:?} has successfully progressed.");
            put(list, "Progressing", "True", "NewReplicaSetAvailable", &message, now);
            return;
        }
        let generation = object::number(deployment, &["metadata", "generation"]);
        let news = generation != object::number(deployment, &["status", "observedGeneration"]);
        if reason.is_empty() {
            let message = format!("Created new replica set {set:?}");
            put(list, "Progressing", "True", "NewReplicaSetCreated", &message, now);
        } else if moved || news {
            let message = format!("ReplicaSet {set:?} is progressing.");
            put(list, "Progressing", "True", "ReplicaSetUpdated", &message, now);
            renew(list, now);
        } else if reason == "NewReplicaSetAvailable" || reason == "ProgressDeadlineExceeded" {
            // The rollout was complete; a pod lost later does not start another one.
            return;
        }
        let seconds =
            object::number(deployment, &["spec", "progressDeadlineSeconds"]).unwrap_or(600);
        let deadline = Duration::from_secs(u64::try_from(seconds).unwrap_or(600));
        let since = list
            .iter()
            .find(|condition| object::text(condition, &["type"]) == "Progressing")
            .and_then(|condition| Time::from_text(object::text(condition, &["lastUpdateTime"])))
            .unwrap_or(now);
        if since.plus(deadline) <= now {
            let message = format!("ReplicaSet {set:?} has timed out progressing.");
            put(list, "Progressing", "False", "ProgressDeadlineExceeded", &message, now);
        } else {
            self.later(since.plus(deadline), Kind::Deployment, namespace, name);
        }
    }
}

/// Sets a condition with the time of its last update.
fn put(list: &mut Vec<Value>, kind: &str, status: &str, reason: &str, message: &str, now: Time) {
    if conditions::put(list, kind, status, reason, message, now)
        && let Some(condition) =
            list.iter_mut().find(|condition| object::text(condition, &["type"]) == kind)
    {
        object::set(condition, &["lastUpdateTime"], now.to_text());
    }
}

fn renew(list: &mut [Value], now: Time) {
    for condition in list {
        if object::text(condition, &["type"]) == "Progressing" {
            object::set(condition, &["lastUpdateTime"], now.to_text());
        }
    }
}

fn make(
    store: &mut Store,
    deployment: &Value,
    mut template: Value,
    hash: &str,
    revision: i64,
) -> Result<Arc<Value>, crate::status::Status> {
    let mut selector = object::at(deployment, &["spec", "selector"]).cloned().unwrap_or_default();
    object::set(&mut template, &["metadata", "labels", HASH], hash);
    object::set(&mut selector, &["matchLabels", HASH], hash);
    let labels = object::at(&template, &["metadata", "labels"]).cloned();
    let mut set = json!({
        "metadata": {
            "name": format!("{}-{hash}", object::name(deployment)),
            "namespace": object::namespace(deployment),
            "labels": labels,
            "annotations": {REVISION: revision.to_string()},
            "ownerReferences": [pods::controlled_by(deployment)],
        },
        "spec": {"replicas": 0, "selector": selector, "template": template},
    });
    if let Some(wait) = object::at(deployment, &["spec", "minReadySeconds"]) {
        object::set(&mut set, &["spec", "minReadySeconds"], wait.clone());
    }
    store.create(&manager(), &REPLICA_SETS, set)
}

/// Gives the new replica set the highest revision, and the deployment the same one.
fn mark_revision(store: &mut Store, deployment: &Value, sets: &[Arc<Value>], new: &Arc<Value>) {
    let others = sets.iter().filter(|set| object::uid(set) != object::uid(new));
    let newest = revision(new).max(others.map(|set| revision(set) + 1).max().unwrap_or(1));
    let namespace = object::namespace(deployment);
    let text = newest.to_string();
    for (resource, object) in [(&REPLICA_SETS, new.as_ref()), (&DEPLOYMENTS, deployment)] {
        if revision(object) != newest {
            let _ = store.modify(&manager(), resource, namespace, object::name(object), |object| {
                object::set(object, &["metadata", "annotations", REVISION], text.clone());
            });
        }
    }
}

/// Deletes old replica sets beyond the limit, the oldest first.
fn forget_history(store: &mut Store, deployment: &Value, mut old: Vec<Arc<Value>>) {
    let limit = object::number(deployment, &["spec", "revisionHistoryLimit"]).unwrap_or(10);
    let limit = usize::try_from(limit).unwrap_or(0);
    old.retain(|set| {
        replicas(set) == 0 && object::number(set, &["status", "replicas"]).unwrap_or(0) == 0
    });
    old.sort_by_key(|set| revision(set));
    let surplus = old.len().saturating_sub(limit);
    for set in old.drain(..surplus) {
        let (namespace, name) = (object::namespace(&set), object::name(&set));
        let options = DeleteOptions::default();
        let _ = store.delete(&manager(), &REPLICA_SETS, namespace, name, &options);
    }
}
