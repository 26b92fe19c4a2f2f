//! The nodes' own drains, as Talos does them: every pod that a controller recreates is evicted, a
//! refused eviction is retried, and pods that do not leave in time are left on the node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube_sim::kubelet::Api;
use kube_sim::names::PODS;
use kube_sim::store::DeleteOptions;
use kube_sim::{Status, Store, Time, Write, object};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::DRAIN_TIMEOUT;

/// How long it waits before it retries a refused eviction.
const REFUSED: Duration = Duration::from_secs(5);
/// The polling interval while a pod leaves, and the time after which it stops waiting.
const POLL: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_mins(1);
/// The grace period of its evictions, in seconds.
pub(super) const GRACE: i64 = 60;

const MIRROR: &str = "kubernetes.io/config.mirror";

/// An API server at which pods can be evicted.
pub(crate) trait Evict: Api {
    /// Evicts a pod, with [`GRACE`] seconds of grace.
    fn evict(&mut self, namespace: &str, name: &str) -> Result<(), Status>;
}

impl Evict for Store {
    fn evict(&mut self, namespace: &str, name: &str) -> Result<(), Status> {
        let options =
            DeleteOptions { grace_period_seconds: Some(GRACE), ..DeleteOptions::default() };
        Self::evict(self, &Write::by("machined"), namespace, name, &options)
    }
}

/// Drains in progress, by node.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Drains {
    nodes: BTreeMap<String, Drain>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Drain {
    until: Time,
    pods: Vec<Leaving>,
}

/// A pod that is leaving.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Leaving {
    namespace: String,
    name: String,
    uid: String,
    /// The end of the wait for it; `None` before it has been evicted.
    patience: Option<Time>,
    /// When the next step is due.
    due: Time,
}

impl Drains {
    /// Whether a drain of this node is in progress.
    pub(super) fn has(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }

    /// Whether no drain is in progress.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// When the next step is due.
    pub(super) fn next_event(&self) -> Option<Time> {
        self.nodes.values().flat_map(|drain| &drain.pods).map(|pod| pod.due).min()
    }

    /// Does what is due on the nodes that are being drained, and returns those that are done.
    pub(super) fn advance(
        &mut self,
        now: Time,
        api: &mut dyn Evict,
        draining: &BTreeSet<String>,
    ) -> Vec<String> {
        self.nodes.retain(|name, _| draining.contains(name));
        for name in draining {
            if !self.nodes.contains_key(name)
                && let Ok(pods) = pods_of(now, api, name)
            {
                self.nodes.insert(name.clone(), Drain { until: now.plus(DRAIN_TIMEOUT), pods });
            }
        }
        for drain in self.nodes.values_mut() {
            drain.pods.retain_mut(|pod| pod.due > now || pod.stays(now, drain.until, api));
        }
        let empty = |drain: &Drain| drain.pods.is_empty();
        self.nodes.iter().filter(|(_, drain)| empty(drain)).map(|(name, _)| name.clone()).collect()
    }
}

impl Leaving {
    /// The next step for a pod. It stays on the list until it is gone or the wait for it has ended.
    fn stays(&mut self, now: Time, until: Time, api: &mut dyn Evict) -> bool {
        if now >= until {
            return false;
        }
        if let Some(patience) = self.patience {
            let gone = match api.get(&PODS, &self.namespace, &self.name) {
                Ok(found) => found.is_none_or(|pod| object::uid(&pod) != self.uid),
                Err(_) => false,
            };
            self.due = now.plus(POLL);
            return !gone && now < patience;
        }
        match api.evict(&self.namespace, &self.name) {
            Ok(()) => {
                self.patience = Some(now.plus(PATIENCE));
                self.due = now.plus(POLL);
                true
            }
            Err(status) if status.code == 429 => {
                self.due = now.plus(REFUSED);
                true
            }
            // Already gone, or a failure that Talos only logs.
            Err(_) => false,
        }
    }
}

/// The pods of a node that have to leave it.
fn pods_of(now: Time, api: &mut dyn Evict, node: &str) -> Result<Vec<Leaving>, Status> {
    let pods = api.list(&PODS)?;
    let leaving = pods
        .iter()
        .filter(|pod| object::text(pod, &["spec", "nodeName"]) == node && is_replaceable(pod));
    Ok(leaving
        .map(|pod| Leaving {
            namespace: object::namespace(pod).to_owned(),
            name: object::name(pod).to_owned(),
            uid: object::uid(pod).to_owned(),
            patience: None,
            due: now,
        })
        .collect())
}

/// Whether a controller makes a replacement elsewhere: mirror pods, pods without an owner and those
/// of daemon sets stay.
fn is_replaceable(pod: &Value) -> bool {
    let owners = object::list(pod, &["metadata", "ownerReferences"]);
    let controller = owners.iter().find(|owner| object::flag(owner, &["controller"]));
    object::annotation(pod, MIRROR).is_none()
        && controller.is_some_and(|owner| object::text(owner, &["kind"]) != "DaemonSet")
}
