//! What acts by itself on the objects: placing pods, rolling out, collecting
//! garbage, emptying namespaces, watching over nodes.
//!
//! The controllers read the store's log, keep an index of what they need to
//! find quickly, and look again at the objects that a change concerns. They
//! hold no truth of their own: after a restart they look at everything once.

mod absorb;
mod budget;
pub(crate) mod conditions;
mod daemon_set;
mod deployment;
mod events;
mod garbage;
mod index;
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

/// More looks than this at one moment mean that two controllers disagree; the
/// rest waits for the next moment.
const MOST_LOOKS: usize = 1_000_000;

/// Which controller is to look. The order is the order of looking: pods find
/// their places before those who count them count.
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

/// An object that a controller is to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Work {
    kind: Kind,
    namespace: String,
    name: String,
}

/// The controllers and what they remember between two looks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Controllers {
    /// Whether they do nothing at all.
    off: bool,
    /// What has been heard of the nodes.
    watch: Watch,
    /// Nodes whose pods no budget lets go.
    #[serde(default)]
    stuck: BTreeSet<String>,
    /// The changes up to this revision have been seen.
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
    /// Pods that fit nowhere as things are.
    #[serde(skip)]
    parked: BTreeSet<(String, String)>,
    #[serde(skip)]
    timers: BTreeMap<Time, BTreeSet<Work>>,
    /// When the next event is to be forgotten.
    #[serde(skip)]
    forgets: Option<Time>,
}

impl Controllers {
    /// Controllers that do nothing: for an API server alone, as one without a
    /// controller manager is.
    pub fn off() -> Self {
        Self { off: true, ..Self::default() }
    }

    /// The changes up to this revision have been seen; `None` if no change has
    /// to be.
    pub(crate) fn seen(&self) -> Option<u64> {
        self.seen.filter(|_| !self.off)
    }

    /// When something is due by itself next.
    pub fn next_event(&self) -> Option<Time> {
        self.timers.first_key_value().map(|(at, _)| *at)
    }

    /// Reacts to what has changed and to the time, [`Store::now`]. Called after
    /// every request and at the time of [`next_event`](Self::next_event).
    pub fn react(&mut self, store: &mut Store) {
        if self.off {
            return;
        }
        self.forgive(store.now());
        while let Some(entry) = self.timers.first_entry()
            && *entry.key() <= store.now()
        {
            self.queue.extend(entry.remove());
        }
        self.absorb(store);
        for _ in 0..MOST_LOOKS {
            let Some(work) = self.queue.pop_first() else { break };
            self.look(store, work);
            self.absorb(store);
        }
    }

    fn look(&mut self, store: &mut Store, work: Work) {
        let Work { kind, namespace, name } = work;
        match kind {
            Kind::Node => self.look_at_node(store, &name),
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

    /// Looks again at a later time.
    fn later(&mut self, at: Time, kind: Kind, namespace: &str, name: &str) {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        self.timers.entry(at).or_default().insert(Work { kind, namespace, name });
    }
}

/// Controllers write under one name.
fn manager() -> Write {
    Write::by("kube-controller-manager")
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
