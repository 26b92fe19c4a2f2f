//! The built-in controllers: scheduling, rollouts, garbage collection, namespace deletion, node
//! lifecycle.
//!
//! The controllers read the store's log, keep indexes for fast lookups, and reconcile the objects
//! that a change affects. They hold no state of record: after a restart they reconcile every object
//! once.

mod budget;
pub(crate) mod conditions;
mod daemon_set;
mod deployment;
mod events;
mod garbage;
mod index;
mod informer;
mod job;
mod namespace;
mod nodes;
mod pods;
mod replica_set;
mod rollout;
mod scheduler;
mod select;
mod services;
mod stateful_set;
mod volumes;
mod workloads;

pub use workloads::{apply, load_workloads};

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::names::ResourceName;
use crate::store::{Store, Write};
use crate::time::Time;
use index::Index;
use nodes::Watch;

/// More reconciliations than this at one moment mean that two controllers disagree; the rest waits
/// for the next moment.
const MAX_RECONCILES: usize = 1_000_000;

/// The controller of a work item. They run in this order: pods are scheduled before the controllers
/// that count them run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Node,
    Place,
    Collect(ResourceName),
    Claim,
    Volume,
    Job,
    ReplicaSet,
    Deployment,
    DaemonSet,
    StatefulSet,
    Budget,
    Service,
    Namespace,
    Events,
}

/// An object that a controller has to reconcile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Work {
    kind: Kind,
    namespace: String,
    name: String,
}

/// The controllers and their state between two calls.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Controllers {
    /// Whether the controllers are off.
    off: bool,
    /// The last signs of life of the nodes.
    watch: Watch,
    /// Nodes whose pods cannot be evicted, a simulated fault.
    #[serde(default)]
    stuck: BTreeSet<String>,
    /// The changes up to this revision have been processed.
    #[serde(skip)]
    seen: Option<u64>,
    #[serde(skip)]
    index: Index,
    #[serde(skip)]
    models: daemon_set::Models,
    #[serde(skip)]
    hashes: deployment::Hashes,
    #[serde(skip)]
    queue: BTreeSet<Work>,
    /// Pods that do not fit on any node at present.
    #[serde(skip)]
    parked: BTreeSet<(String, String)>,
    #[serde(skip)]
    timers: BTreeMap<Time, BTreeSet<Work>>,
    /// When the next event expires.
    #[serde(skip)]
    forgets: Option<Time>,
}

impl Controllers {
    /// Disabled controllers: for an API server alone, like one without a controller manager.
    pub fn off() -> Self {
        Self { off: true, ..Self::default() }
    }

    /// The changes up to this revision have been processed; `None` if no change needs to be.
    pub(crate) fn seen(&self) -> Option<u64> {
        self.seen.filter(|_| !self.off)
    }

    /// The time of the next action that needs no change.
    pub fn next_event(&self) -> Option<Time> {
        self.timers.first_key_value().map(|(at, _)| *at)
    }

    /// Reacts to changes and to the time, [`Store::now`]. Call it after every request and at the
    /// time of [`next_event`](Self::next_event).
    pub fn react(&mut self, store: &mut Store) {
        if self.off {
            return;
        }
        self.reset_silence(store.now());
        while let Some(entry) = self.timers.first_entry()
            && *entry.key() <= store.now()
        {
            self.queue.extend(entry.remove());
        }
        self.absorb(store);
        for _ in 0..MAX_RECONCILES {
            let Some(work) = self.queue.pop_first() else { break };
            self.reconcile(store, work);
            self.absorb(store);
        }
    }

    fn reconcile(&mut self, store: &mut Store, work: Work) {
        let Work { kind, namespace, name } = work;
        match kind {
            Kind::Node => self.check_node(store, &name),
            Kind::Place => self.place(store, &namespace, &name),
            Kind::Collect(resource) => self.collect(store, &resource, &namespace, &name),
            Kind::Claim => self.bind_claim(store, &namespace, &name),
            Kind::Volume => self.attach(store, &name),
            Kind::Job => self.job(store, &namespace, &name),
            Kind::ReplicaSet => self.replica_set(store, &namespace, &name),
            Kind::Deployment => self.deployment(store, &namespace, &name),
            Kind::DaemonSet => self.daemon_set(store, &namespace, &name),
            Kind::StatefulSet => self.stateful_set(store, &namespace, &name),
            Kind::Budget => self.budget(store, &namespace, &name),
            Kind::Service => self.service(store, &namespace, &name),
            Kind::Namespace => self.namespace(store, &name),
            Kind::Events => self.forget_events(store),
        }
    }

    fn enqueue(&mut self, kind: Kind, namespace: &str, name: &str) {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        self.queue.insert(Work { kind, namespace, name });
    }

    /// Queues an object for a later time.
    fn later(&mut self, at: Time, kind: Kind, namespace: &str, name: &str) {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        self.timers.entry(at).or_default().insert(Work { kind, namespace, name });
    }
}

/// All controllers write as one field manager.
fn manager() -> Write {
    Write::by("kube-controller-manager")
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
