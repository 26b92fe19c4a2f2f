//! Stateful sets: named pods, in order, each with its volumes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Controllers, Kind, manager, pods, select};
use crate::names::{PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS};
use crate::object;
use crate::store::Store;

const HASH: &str = "controller-revision-hash";

impl Controllers {
    pub(super) fn stateful_set(&mut self, store: &mut Store, namespace: &str, name: &str) {
        let Some(set) = store.get(&STATEFUL_SETS, namespace, name).cloned() else { return };
        if object::is_deleting(&set) {
            return;
        }
        let template = object::at(&set, &["spec", "template"]).unwrap_or(&Value::Null);
        let revision = format!("{name}-{}", pods::hash(template));
        let wanted = object::number(&set, &["spec", "replicas"]).unwrap_or(1).max(0);
        let wait = object::number(&set, &["spec", "minReadySeconds"]).unwrap_or(0);
        let mut found: BTreeMap<i64, Arc<Value>> = BTreeMap::new();
        for pod in self.pods_of(store, &set) {
            let ordinal = object::name(&pod).rsplit_once('-').and_then(|(_, end)| end.parse().ok());
            if let Some(ordinal) = ordinal {
                found.insert(ordinal, pod);
            }
        }
        let mut healthy = |controllers: &mut Self, pod: &Value, now| {
            !object::is_deleting(pod)
                && pods::is_available(pod, wait, now).unwrap_or_else(|at| {
                    controllers.later(at, Kind::StatefulSet, namespace, name);
                    false
                })
        };
        let counts = Counts::of(&found, &revision, |pod| healthy(self, pod, store.now()));
        self.step_stateful_set(store, &set, &revision, &found, wanted, &mut healthy);
        status(store, &set, &revision, &counts, wanted);
    }

    /// Takes the next step, or all steps at once if order does not matter.
    fn step_stateful_set(
        &mut self,
        store: &mut Store,
        set: &Value,
        revision: &str,
        found: &BTreeMap<i64, Arc<Value>>,
        wanted: i64,
        healthy: &mut impl FnMut(&mut Self, &Value, crate::time::Time) -> bool,
    ) {
        let at_once = object::text(set, &["spec", "podManagementPolicy"]) == "Parallel";
        for ordinal in 0..wanted {
            match found.get(&ordinal) {
                None => create(store, set, revision, ordinal),
                Some(pod) if select::is_over(pod) && !object::is_deleting(pod) => {
                    pods::delete(store, pod);
                }
                Some(pod) if healthy(self, pod, store.now()) => continue,
                Some(_) => {}
            }
            if !at_once {
                return;
            }
        }
        for (_, pod) in found.range(wanted..).rev() {
            if !object::is_deleting(pod) {
                pods::delete(store, pod);
            }
            if !at_once {
                return;
            }
        }
        if object::text(set, &["spec", "updateStrategy", "type"]) == "OnDelete" {
            return;
        }
        let partition = ["spec", "updateStrategy", "rollingUpdate", "partition"];
        let partition = object::number(set, &partition).unwrap_or(0);
        for (_, pod) in found.range(partition.min(wanted)..wanted).rev() {
            if object::label(pod, HASH) != Some(revision) {
                if !object::is_deleting(pod) {
                    pods::delete(store, pod);
                }
                return;
            }
            if !healthy(self, pod, store.now()) {
                return;
            }
        }
    }
}

#[derive(Default)]
struct Counts {
    all: usize,
    ready: usize,
    available: usize,
    updated: usize,
}

impl Counts {
    fn of(
        found: &BTreeMap<i64, Arc<Value>>,
        revision: &str,
        mut healthy: impl FnMut(&Value) -> bool,
    ) -> Self {
        let mut counts = Self::default();
        for pod in found.values() {
            counts.all += 1;
            counts.ready += usize::from(pods::is_ready(pod));
            counts.available += usize::from(healthy(pod));
            counts.updated += usize::from(object::label(pod, HASH) == Some(revision));
        }
        counts
    }
}

fn create(store: &mut Store, set: &Value, revision: &str, ordinal: i64) {
    let name = format!("{}-{ordinal}", object::name(set));
    let namespace = object::namespace(set);
    let mut pod = pods::from_template(set);
    let mut volumes = object::list(&pod, &["spec", "volumes"]).to_vec();
    for template in object::list(set, &["spec", "volumeClaimTemplates"]) {
        let volume = object::name(template);
        let claim = format!("{volume}-{name}");
        if store.get(&PERSISTENT_VOLUME_CLAIMS, namespace, &claim).is_none() {
            let mut object = template.clone();
            object::set(&mut object, &["metadata", "name"], claim.clone());
            object::set(&mut object, &["metadata", "namespace"], namespace);
            if let Some(labels) = object::at(set, &["spec", "selector", "matchLabels"]) {
                object::set(&mut object, &["metadata", "labels"], labels.clone());
            }
            object::remove(&mut object, &["status"]);
            let _ = store.create(&manager(), &PERSISTENT_VOLUME_CLAIMS, object);
        }
        volumes.retain(|known| object::text(known, &["name"]) != volume);
        volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": claim}}));
    }
    if !volumes.is_empty() {
        object::set(&mut pod, &["spec", "volumes"], volumes);
    }
    for (key, value) in [
        (HASH, revision.to_owned()),
        ("statefulset.kubernetes.io/pod-name", name.clone()),
        ("apps.kubernetes.io/pod-index", ordinal.to_string()),
    ] {
        object::set(&mut pod, &["metadata", "labels", key], value);
    }
    object::set(&mut pod, &["spec", "hostname"], name.clone());
    object::set(&mut pod, &["spec", "subdomain"], object::text(set, &["spec", "serviceName"]));
    object::set(&mut pod, &["metadata", "name"], name);
    let _ = store.create(&manager(), &PODS, pod);
}

fn status(store: &mut Store, set: &Value, revision: &str, counts: &Counts, wanted: i64) {
    let wanted = usize::try_from(wanted).unwrap_or(0);
    let done = counts.updated >= wanted && counts.ready >= wanted && counts.all == wanted;
    let current = match object::text(set, &["status", "currentRevision"]) {
        "" => revision,
        _ if done => revision,
        known => known,
    };
    let mut status = json!({
        "observedGeneration": object::number(set, &["metadata", "generation"]).unwrap_or(1),
        "replicas": counts.all,
        "readyReplicas": counts.ready,
        "availableReplicas": counts.available,
        "updatedReplicas": counts.updated,
        "currentReplicas":
            if current == revision { counts.updated } else { counts.all - counts.updated },
        "currentRevision": current,
        "updateRevision": revision,
        "collisionCount": 0,
    });
    pods::drop_zeros(&mut status, &["readyReplicas", "updatedReplicas", "currentReplicas"]);
    let (namespace, name) = (object::namespace(set), object::name(set));
    let _ = store.set_status(&manager(), &STATEFUL_SETS, namespace, name, status);
}
