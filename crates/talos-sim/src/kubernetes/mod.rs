//! The Kubernetes API of a cluster, as its control planes serve it.
//!
//! The API server itself is a pure model, [`kube_sim::ApiServer`]: there is one for the cluster, it
//! belongs to the same task as the nodes, and both share one clock. This module has everything
//! around it: an [endpoint](server) on every control plane and on the shared address, authentication
//! ([`auth`]), the [`kubeconfig`], behaviour without etcd, and the synchronisation of nodes with
//! their objects. With a real API server, [`remote`] takes the place of the model.

pub mod auth;
pub mod calls;
mod drain;
mod endpoints;
mod facts;
mod feed;
mod health;
pub mod kubeconfig;
mod manifests;
mod presence;
pub mod remote;
pub mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube_sim::controllers;
use kube_sim::kubelet::{Cluster, NodeFacts, Timings};
use kube_sim::names::NODES;
use kube_sim::store::DeleteOptions;
use kube_sim::{ApiServer, Write, object};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;
use upgrade_core::version::Version;

use crate::model::{NodeIndex, Time, World};
use feed::Feed;
use manifests::Manifests;
use remote::Machines;

pub(crate) use presence::Presences;

/// How long a new cluster's pods have had to start.
const WARM_UP: Duration = Duration::from_mins(2);

/// How often data that is rarely read is packed.
const REST: Duration = Duration::from_secs(15);

/// The field manager of the user's workloads.
const USER_WORKLOADS: &str = "workloads";

/// Workloads that cannot be created.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WorkloadError(String);

impl WorkloadError {
    pub(crate) fn new(why: String) -> Self {
        Self(why)
    }
}

/// Parses the user's workloads: Kubernetes objects in YAML.
pub fn read_workloads(text: &str) -> Result<Vec<Value>, WorkloadError> {
    controllers::load_workloads(text).map_err(WorkloadError)
}

/// The Kubernetes side of a cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kubernetes {
    /// The API server and the kubelets.
    cluster: Cluster,
    feed: Feed,
    /// The drains of nodes that evict their pods before they go down.
    #[serde(default)]
    drains: drain::Drains,
    /// What the control planes have created.
    #[serde(default)]
    manifests: Manifests,
    /// The API servers listed as ready.
    #[serde(skip)]
    listed: endpoints::Listed,
    /// Kubelets on machines outside the world, without Talos.
    #[serde(default)]
    foreign: Vec<NodeFacts>,
    /// No Kubernetes objects at all: only the nodes exist.
    #[serde(default)]
    empty: bool,
    /// Receives facts of the machines, if the API server is a real one.
    #[serde(skip)]
    machines: Option<watch::Sender<Machines>>,
    /// The world's change counter when the kubelets last synchronised.
    #[serde(skip)]
    synced: Option<u64>,
    /// The facts last sent to the kubelets.
    #[serde(skip)]
    sent: facts::Sent,
    /// The change counter and the object revision of the last comparison.
    #[serde(skip)]
    compared: Option<(u64, u64)>,
    /// Whether it is too short-lived to pack anything.
    #[serde(default)]
    brief: bool,
    /// When rarely read data is packed next.
    #[serde(skip)]
    rest_at: Time,
}

impl Kubernetes {
    /// For a new cluster: its own workloads and the user's have already started.
    pub fn new(world: &World, seed: u64, workloads: &[Value]) -> Result<Self, WorkloadError> {
        Self::begin(world, seed, workloads, false)
    }

    /// A short-lived, in-memory cluster for the deterministic simulation: nothing is packed to save
    /// memory, leases are written only when something reads them, services have no endpoints,
    /// `managedFields` omit kubelets and controllers, and there are no Events. Otherwise it behaves
    /// the same, for a fraction of the work.
    pub fn brief(world: &World, seed: u64, workloads: &[Value]) -> Result<Self, WorkloadError> {
        Self::begin(world, seed, workloads, true)
    }

    fn begin(
        world: &World,
        seed: u64,
        workloads: &[Value],
        brief: bool,
    ) -> Result<Self, WorkloadError> {
        let since = world.now().minus(WARM_UP);
        let mut cluster = Cluster::new(seed, since, Timings::default());
        if brief {
            cluster.server.store_mut().write_lazily();
        }
        // Events of the start have expired by now.
        cluster.server.store_mut().set_quiet(true);
        cluster.sync(since, &facts::of_all(world));
        let mut new = Self { brief, ..Self::of(cluster, false) };
        for pass in new.manifests.passes(world) {
            let _ = pass.at(new.cluster.server.store_mut());
        }
        new.create(USER_WORKLOADS, workloads.to_vec())?;
        let mut at = since;
        while at < world.now() {
            at = at.plus(Duration::from_secs(1)).min(world.now());
            new.cluster.advance(at);
            // No client can hold a version from before the start.
            new.cluster.server.compact();
        }
        new.cluster.server.store_mut().set_quiet(brief);
        Ok(new)
    }

    /// An empty one, for callers that need only nodes: it has no kubelets and no workloads, and
    /// takes next to no memory.
    pub fn empty(world: &World, seed: u64) -> Self {
        Self::of(Cluster::new(seed, world.now(), Timings::default()), true)
    }

    fn of(cluster: Cluster, empty: bool) -> Self {
        Self {
            cluster,
            feed: Feed::default(),
            drains: drain::Drains::default(),
            manifests: Manifests::default(),
            foreign: Vec::new(),
            listed: endpoints::Listed::default(),
            empty,
            machines: None,
            synced: None,
            sent: facts::Sent::default(),
            compared: None,
            brief: false,
            rest_at: Time::default(),
        }
    }

    /// Publishes the machines to the kubelets of a real API server.
    pub(crate) fn machines(&mut self, world: &World) -> watch::Receiver<Machines> {
        let (sender, receiver) = watch::channel(Machines::of(world));
        self.machines = Some(sender);
        receiver
    }

    fn lives(&self, world: &World) -> bool {
        !self.empty && world.kubernetes_api_is_up()
    }

    /// A kubelet registers from a machine outside the world.
    pub fn join_foreign(&mut self, now: Time, name: &str, address: &str, version: &Version) {
        let facts = NodeFacts {
            kubelet_version: version.tag(),
            os_image: "Another Linux".to_owned(),
            ..NodeFacts::new(name, address, false)
        };
        self.cluster.update(now, std::slice::from_ref(&facts), &[]);
        self.foreign.push(facts);
    }

    /// That machine and its Node object are removed.
    pub fn leave_foreign(&mut self, now: Time, name: &str) {
        self.foreign.retain(|facts| facts.name != name);
        self.cluster.update(now, &[], &[name.to_owned()]);
        let (write, options) = (Write::by("somebody"), DeleteOptions::now());
        let _ = self.cluster.server.store_mut().delete(&write, &NODES, "", name, &options);
    }

    /// Creates the requested objects that do not exist yet.
    pub fn create_workloads(&mut self, workloads: &[Value]) -> Result<(), WorkloadError> {
        self.create(USER_WORKLOADS, workloads.to_vec())
    }

    fn create(&mut self, manager: &str, objects: Vec<Value>) -> Result<(), WorkloadError> {
        controllers::apply(self.cluster.server.store_mut(), manager, objects).map_err(WorkloadError)
    }

    /// The API server, read only.
    pub fn api(&self) -> &ApiServer {
        &self.cluster.server
    }

    /// The API server, for requests.
    pub fn api_mut(&mut self) -> &mut ApiServer {
        &mut self.cluster.server
    }

    /// The latest time it has been advanced to.
    pub fn now(&self) -> Time {
        self.cluster.server.store().now()
    }

    /// When the next event is due. Without etcd there is none.
    pub fn next_event(&self, world: &World) -> Option<Time> {
        let next = [self.cluster.next_event(), self.drains.next_event()];
        next.into_iter().flatten().min().filter(|_| self.lives(world))
    }

    /// Processes everything that is due by `now`, after a change of objects.
    pub fn advance(&mut self, world: &mut World, now: Time) {
        if self.lives(world) {
            self.cluster.advance(now);
            self.compare(world, now);
        }
    }

    /// The same after a change of nodes: their kubelets receive the new facts.
    pub fn follow(&mut self, world: &mut World, now: Time) {
        if self.synced == Some(world.touched()) {
            return self.advance(world, now);
        }
        if self.lives(world) {
            self.synced = Some(world.touched());
            if let Some((changed, gone)) = self.sent.news(world) {
                self.cluster.update(now, &changed, &gone);
            } else {
                let mut all = facts::of_all(world);
                all.extend(self.foreign.iter().cloned());
                self.cluster.sync(now, &all);
            }
            self.compare(world, now);
        }
        if let Some(machines) = &self.machines {
            let current = Machines::of(world);
            machines.send_if_modified(|known| {
                let changed = *known != current;
                *known = current;
                changed
            });
        }
    }

    /// The same after a suspension: periodic work that became due many times, such as lease
    /// renewals, happens once.
    pub fn resume(&mut self, world: &mut World, now: Time) {
        if self.lives(world) {
            self.cluster.resume(now);
        }
        self.synced = None;
        self.follow(world, now);
    }

    /// Synchronises the nodes with their objects, if either may have changed.
    fn compare(&mut self, world: &mut World, now: Time) {
        let revision = self.cluster.server.store().revision_to_keep();
        let current = (world.touched(), revision);
        let before = self.compared.replace(current);
        if before != Some(current) {
            self.pass(world, before.map(|(_, revision)| revision));
        }
        self.drain(world, now);
        if !self.brief && self.rest_at <= now {
            self.rest_at = now.plus(REST);
            self.cluster.rest();
        }
    }

    /// Synchronises nodes and objects with everything that changed since the last pass.
    fn pass(&mut self, world: &mut World, since: Option<u64>) {
        let store = self.cluster.server.store_mut();
        // A short-lived world needs no endpoints of the API server.
        if !self.brief {
            self.listed.update(world, store);
        }
        for pass in self.manifests.passes(world) {
            // Talos retries later; here nothing can fail.
            let _ = pass.at(store);
        }
        let store = self.cluster.server.store();
        let news = since.and_then(|since| store.changes_since(since));
        let names: Option<BTreeSet<&str>> = news.map(|changes| {
            let nodes = changes.filter(|change| change.resource == NODES);
            nodes.map(|change| object::name(&change.object)).collect()
        });
        let changed = |name: &str| names.as_ref().is_none_or(|names| names.contains(name));
        let object = |name: &str| store.get(&NODES, "", name).map(AsRef::as_ref);
        for change in self.feed.pass(world, changed, object) {
            feed::cordon(self.cluster.server.store_mut(), &change);
        }
    }

    /// Advances the nodes that drain themselves.
    fn drain(&mut self, world: &mut World, now: Time) {
        if self.drains.is_empty() && world.draining().next().is_none() {
            return;
        }
        let draining: BTreeMap<String, NodeIndex> =
            world.draining().map(|(node, name)| (name.to_owned(), node)).collect();
        for (name, node) in &draining {
            if !self.drains.has(name) {
                world.hold_drain(now, *node);
            }
        }
        let names = draining.keys().cloned().collect();
        let empty = self.drains.advance(now, self.cluster.server.store_mut(), &names);
        if !draining.is_empty() {
            // The evicted begin to stop at once.
            self.cluster.advance(now);
        }
        for name in empty {
            world.drained(now, draining[&name]);
        }
    }
}

/// The control planes whose API server is running.
pub(crate) fn running(world: &World) -> impl Iterator<Item = NodeIndex> {
    (0..world.len()).map(NodeIndex).filter(|node| world.api_server_runs(*node))
}

#[cfg(test)]
mod standstill_tests;
#[cfg(test)]
mod tests;
