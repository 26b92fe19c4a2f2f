//! Replica sets: keeps the desired number of pods.

use serde_json::{Value, json};

use super::{Controllers, Kind, manager, pods, select};
use crate::names::{PODS, REPLICA_SETS};
use crate::object;
use crate::store::Store;

impl Controllers {
    pub(super) fn replica_set(&mut self, store: &mut Store, namespace: &str, name: &str) {
        let Some(set) = store.get(&REPLICA_SETS, namespace, name).cloned() else { return };
        if object::is_deleting(&set) {
            return;
        }
        if self.index.owned(object::uid(&set), &PODS).next().is_none() {
            Self::adopt(store, &set);
            self.absorb(store);
        }
        let wanted =
            usize::try_from(object::number(&set, &["spec", "replicas"]).unwrap_or(1)).unwrap_or(0);
        let mut alive = self.pods_of(store, &set);
        alive.retain(|pod| !object::is_deleting(pod) && !select::is_over(pod));
        if alive.len() < wanted {
            for _ in alive.len()..wanted {
                let mut pod = pods::from_template(&set);
                object::set(&mut pod, &["metadata", "generateName"], format!("{name}-"));
                if let Ok(pod) = store.create(&manager(), &PODS, pod) {
                    alive.push(pod);
                } else {
                    break;
                }
            }
        } else if alive.len() > wanted {
            alive.sort_by_key(|pod| pods::worth(pod));
            for pod in alive.drain(..alive.len() - wanted) {
                pods::delete(store, &pod);
            }
        }
        self.replica_set_status(store, &set, &alive);
    }

    fn replica_set_status(
        &mut self,
        store: &mut Store,
        set: &Value,
        alive: &[std::sync::Arc<Value>],
    ) {
        let (namespace, name) = (object::namespace(set), object::name(set));
        let wait = object::number(set, &["spec", "minReadySeconds"]).unwrap_or(0);
        let selector = object::at(set, &["spec", "selector"]);
        let (mut ready, mut available, mut labelled) = (0, 0, 0);
        for pod in alive {
            labelled += i32::from(select::matches(selector, pod));
            ready += i32::from(pods::is_ready(pod));
            match pods::is_available(pod, wait, store.now()) {
                Ok(is) => available += i32::from(is),
                Err(at) => self.later(at, Kind::ReplicaSet, namespace, name),
            }
        }
        let mut status = json!({
            "replicas": alive.len(),
            "fullyLabeledReplicas": labelled,
            "readyReplicas": ready,
            "availableReplicas": available,
            "observedGeneration": object::number(set, &["metadata", "generation"]).unwrap_or(1),
        });
        pods::drop_zeros(
            &mut status,
            &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
        );
        let _ = store.set_status(&manager(), &REPLICA_SETS, namespace, name, status);
    }
}
