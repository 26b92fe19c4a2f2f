//! Rollouts of deployments: how many pods each replica set gets.

use std::sync::Arc;

use serde_json::{Value, json};

use super::deployment::{available, replicas};
use super::{Controllers, manager, select};
use crate::events::{Source, about, tell};
use crate::names::REPLICA_SETS;
use crate::object;
use crate::store::Store;

/// How many pods must be available, and how many may exist.
pub(super) fn limits(deployment: &Value) -> (i64, i64) {
    let wanted = replicas(deployment);
    if object::text(deployment, &["spec", "strategy", "type"]) == "Recreate" {
        return (wanted, wanted);
    }
    let usual = json!("25%");
    let setting = |name: &str| {
        object::at(deployment, &["spec", "strategy", "rollingUpdate", name]).unwrap_or(&usual)
    };
    let surge = select::share(setting("maxSurge"), wanted, true);
    let mut missing = select::share(setting("maxUnavailable"), wanted, false);
    if surge == 0 && missing == 0 {
        missing = 1;
    }
    ((wanted - missing).max(0), wanted + surge)
}

fn scale(store: &mut Store, deployment: &Value, set: &Value, count: i64) {
    let (namespace, name) = (object::namespace(set), object::name(set));
    let wanted = replicas(deployment).to_string();
    let most = limits(deployment).1.to_string();
    let before = replicas(set);
    if before != count {
        let way = if count > before { "up" } else { "down" };
        let message = format!("Scaled {way} replica set {name} from {before} to {count}");
        let source = Source::controller("deployment-controller");
        let now = store.now();
        tell(store, now, source, &about(deployment), false, "ScalingReplicaSet", &message);
    }
    let _ = store.modify(&manager(), &REPLICA_SETS, namespace, name, |set| {
        object::set(set, &["spec", "replicas"], count.max(0));
        for (key, value) in [("desired-replicas", &wanted), ("max-replicas", &most)] {
            let key = format!("deployment.kubernetes.io/{key}");
            object::set(set, &["metadata", "annotations", &key], value.clone());
        }
    });
}

impl Controllers {
    /// Advances a rollout as far as the limits allow.
    pub(super) fn roll(
        &self,
        store: &mut Store,
        deployment: &Value,
        new: Option<&Arc<Value>>,
        old: &[Arc<Value>],
        paused: bool,
    ) {
        let wanted = replicas(deployment);
        let Some(new) = new else {
            // Paused with another template: only the latest set is scaled.
            if paused
                && let [only] = old
                && replicas(only) != wanted
            {
                scale(store, deployment, only, wanted);
            }
            return;
        };
        if paused {
            if old.iter().all(|set| replicas(set) == 0) && replicas(new) != wanted {
                scale(store, deployment, new, wanted);
            }
            return;
        }
        if object::text(deployment, &["spec", "strategy", "type"]) == "Recreate" {
            let mut all_gone = true;
            for set in old {
                all_gone &= replicas(set) == 0 && self.pods_of(store, set).is_empty();
                if replicas(set) != 0 {
                    scale(store, deployment, set, 0);
                }
            }
            if all_gone && replicas(new) != wanted {
                scale(store, deployment, new, wanted);
            }
            return;
        }
        let (least, most) = limits(deployment);
        let total: i64 = replicas(new) + old.iter().map(|set| replicas(set)).sum::<i64>();
        let mut target = replicas(new);
        if target > wanted {
            target = wanted;
        } else if target < wanted && total < most {
            target += (most - total).min(wanted - target);
        }
        if target != replicas(new) {
            scale(store, deployment, new, target);
        }
        let total: i64 = target + old.iter().map(|set| replicas(set)).sum::<i64>();
        shrink(
            store,
            deployment,
            old,
            total - least - (target - available(new)).max(0),
            least,
            new,
        );
    }
}

/// Scales the old sets down: broken pods first.
fn shrink(
    store: &mut Store,
    deployment: &Value,
    old: &[Arc<Value>],
    mut surplus: i64,
    least: i64,
    new: &Value,
) {
    if surplus <= 0 {
        return;
    }
    let mut usable: i64 = available(new) + old.iter().map(|set| available(set)).sum::<i64>();
    for set in old {
        let size = replicas(set);
        let broken = (size - available(set)).clamp(0, surplus);
        surplus -= broken;
        // The remaining pods are available; delete them only while enough others are.
        let spare = (usable - least).clamp(0, surplus).min(size - broken);
        surplus -= spare;
        usable -= spare;
        if broken + spare > 0 {
            scale(store, deployment, set, size - broken - spare);
        }
    }
}
