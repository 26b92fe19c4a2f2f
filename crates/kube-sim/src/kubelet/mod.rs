//! The kubelets of a simulated cluster: registration, leases, pods and status, as requests to an
//! [`Api`].
//!
//! They are pure: time and facts come in, requests go out. The caller passes the facts of the
//! machines ([`sync`](Kubelets::sync)) and the changes at the API server
//! ([`observe`](Kubelets::observe), or [`follow`](Kubelets::follow) for the embedded one), and
//! calls [`advance`](Kubelets::advance) at the time of [`next_event`](Kubelets::next_event). A
//! request that the API server does not answer is retried a little later.

mod api;
mod attacher;
mod cluster;
mod events;
mod facts;
mod mirror;
mod node;
mod pod_status;
mod pods;

pub use api::Api;
pub use cluster::Cluster;
pub use facts::{NodeFacts, NodeFaults, StaticPod, Timings};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::names::{LEASES, NODES, PODS, ResourceName, VOLUME_ATTACHMENTS};
use crate::object;
use crate::random::Random;
use crate::store::lazy_leases::NODE_LEASES;
use crate::store::{ChangeKind, Store};
use crate::time::Time;
use attacher::Attachment;
use node::Kubelet;
use pods::Run;

/// Events are aligned to this interval in nanoseconds, so that many fall together.
const BEAT: u64 = 100_000_000;
/// The wait before a retry when the API server did not answer.
const RETRY: Duration = Duration::from_secs(1);

/// Something that is due.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Due {
    Lease(String),
    Heartbeat(String),
    Pod(String),
    Attachment(String),
}

/// All kubelets of a cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kubelets {
    random: Random,
    timings: Timings,
    nodes: BTreeMap<String, Kubelet>,
    /// By namespace and name, with a slash between.
    pods: BTreeMap<String, Run>,
    attachments: BTreeMap<String, Attachment>,
    due: BTreeMap<Time, BTreeSet<Due>>,
    /// Pods to reconcile.
    touched: BTreeSet<String>,
    /// Nodes with something to report.
    changed: BTreeSet<String>,
    /// The changes of the embedded store up to this revision have been processed.
    seen: u64,
    listed: bool,
}

impl Kubelets {
    /// Kubelets without nodes yet.
    pub fn new(seed: u64, timings: Timings) -> Self {
        Self {
            random: Random::new(seed ^ 0x6b75_6265_6c65_7473),
            timings,
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            attachments: BTreeMap::new(),
            due: BTreeMap::new(),
            touched: BTreeSet::new(),
            changed: BTreeSet::new(),
            seen: 0,
            listed: false,
        }
    }

    /// The time of the next event.
    pub fn next_event(&self) -> Option<Time> {
        self.due.first_key_value().map(|(at, _)| *at)
    }

    /// Takes the facts of all machines, and does what follows from them and what is due. A node
    /// that is missing here keeps its objects in the API, but has no kubelet any more.
    pub fn sync(&mut self, now: Time, api: &mut dyn Api, facts: &[NodeFacts]) {
        let new = |facts: &NodeFacts| !self.nodes.contains_key(&facts.name);
        if self.nodes.len() != facts.len() || facts.iter().any(new) {
            let names: BTreeSet<&str> = facts.iter().map(|facts| facts.name.as_str()).collect();
            let gone = self.nodes.keys().filter(|name| !names.contains(name.as_str()));
            let gone: Vec<String> = gone.cloned().collect();
            self.forget(api, &gone);
        }
        self.update(now, api, facts);
    }

    /// The same for changed machines only.
    pub fn update(&mut self, now: Time, api: &mut dyn Api, changed: &[NodeFacts]) {
        for facts in changed {
            if self.learn(now, facts) {
                api.end_lease(&facts.name);
            }
        }
        self.advance(now, api);
    }

    /// These machines are gone: their nodes keep their objects in the API, but have no kubelet any
    /// more.
    pub fn forget(&mut self, api: &mut dyn Api, gone: &[String]) {
        for name in gone {
            if self.nodes.remove(name).is_some() {
                api.end_lease(name);
            }
        }
    }

    /// The nodes whose pods cannot be evicted, a simulated fault.
    pub(super) fn stuck(&self) -> BTreeSet<String> {
        let stuck = self.nodes.values().filter(|kubelet| kubelet.facts.faults.budgets_stuck);
        stuck.map(|kubelet| kubelet.facts.name.clone()).collect()
    }

    /// Does what is due by `now`, including follow-up work.
    pub fn advance(&mut self, now: Time, api: &mut dyn Api) {
        self.work(now, api);
        while let Some(entry) = self.due.first_entry()
            && *entry.key() <= now
        {
            let (at, due) = entry.remove_entry();
            for due in due {
                match due {
                    Due::Lease(name) => self.renew(now, api, &name, at),
                    Due::Heartbeat(name) => self.heartbeat(now, &name, at),
                    Due::Pod(key) => {
                        if self.pods.get(&key).is_some_and(|run| run.due == Some(at)) {
                            self.touched.insert(key);
                        }
                    }
                    Due::Attachment(name) => self.attach(now, api, &name, at),
                }
            }
            self.work(now, api);
        }
    }

    fn work(&mut self, now: Time, api: &mut dyn Api) {
        for name in std::mem::take(&mut self.changed) {
            self.report(now, api, &name);
        }
        for key in std::mem::take(&mut self.touched) {
            self.step(now, api, &key);
        }
    }

    /// Takes a change of an object. Pods, volume attachments and nodes matter; other objects are
    /// ignored.
    pub fn observe(&mut self, now: Time, resource: &ResourceName, object: &Arc<Value>, gone: bool) {
        if *resource == PODS {
            self.observe_pod(object, gone);
        } else if *resource == VOLUME_ATTACHMENTS {
            self.observe_attachment(now, object, gone);
        } else if *resource == NODES && !gone {
            self.observe_node(object);
        } else if *resource == LEASES && gone && object::namespace(object) == NODE_LEASES {
            self.observe_lost_lease(now, object::name(object));
        }
    }

    /// Takes the changes of the embedded API server's store.
    pub fn follow(&mut self, store: &Store) {
        let now = store.now();
        let changes = if self.listed { store.changes_since(self.seen) } else { None };
        if let Some(changes) = changes {
            for change in changes {
                let gone = change.kind == ChangeKind::Deleted;
                self.observe(now, &change.resource, &change.object, gone);
            }
        } else {
            for resource in [PODS, VOLUME_ATTACHMENTS] {
                for object in store.list(&resource, None) {
                    self.observe(now, &resource, object, false);
                }
            }
            self.listed = true;
        }
        self.seen = store.revision();
    }

    /// The revision up to which the embedded store's changes have been processed.
    pub(super) fn seen(&self) -> u64 {
        self.seen
    }

    fn draw(&mut self, range: (Duration, Duration)) -> Duration {
        let (from, to) = range;
        let span = u64::try_from(to.saturating_sub(from).as_millis()).unwrap_or(u64::MAX);
        from + Duration::from_millis(self.random.number() % (span.saturating_add(1)))
    }

    /// Schedules something for the next aligned time at or after `at`.
    fn plan(&mut self, at: Time, due: Due) -> Time {
        let at = Time::from_nanos(at.as_nanos().div_ceil(BEAT).saturating_mul(BEAT));
        self.due.entry(at).or_default().insert(due);
        at
    }
}

#[cfg(test)]
mod tests;
