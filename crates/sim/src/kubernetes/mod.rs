//! The Kubernetes API of a cluster, as its control planes serve it.
//!
//! The API server itself is a pure model, [`kube_sim::ApiServer`]: there is one
//! for the cluster, it belongs to the same task as the nodes, and both have one
//! clock. Here is what surrounds it: a [`door`] on every control plane and on
//! the address that they share, who comes in ([`auth`]), the [`kubeconfig`],
//! what happens without etcd, and the feed between the nodes and their objects.
//! With a real API server, [`remote`] takes the place of the model.

pub mod auth;
pub mod calls;
pub mod door;
mod drain;
mod endpoints;
mod facts;
mod feed;
mod health;
pub mod kubeconfig;
mod manifests;
mod presence;
pub mod remote;

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

/// How long a new cluster's pods have had to come up.
const WARM_UP: Duration = Duration::from_mins(2);

/// How often it puts away what nobody asks for.
const REST: Duration = Duration::from_secs(15);

/// The field manager of the workloads that a user gives.
const WISHED: &str = "workloads";

/// Workloads that cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WorkloadError(String);

impl WorkloadError {
    pub(crate) fn new(why: String) -> Self {
        Self(why)
    }
}

/// Reads the workloads that a user gives: Kubernetes objects in YAML.
pub fn read_workloads(text: &str) -> Result<Vec<Value>, WorkloadError> {
    controllers::load_workloads(text).map_err(WorkloadError)
}

/// The Kubernetes side of a cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kubernetes {
    /// The API server and the kubelets.
    cluster: Cluster,
    feed: Feed,
    /// What the nodes themselves do with their pods before they go down.
    #[serde(default)]
    drains: drain::Drains,
    /// What the control planes have created.
    #[serde(default)]
    manifests: Manifests,
    /// Which API servers are listed as ready.
    #[serde(skip)]
    listed: endpoints::Listed,
    /// Kubelets on machines that are none of the world's: no Talos runs there.
    #[serde(default)]
    foreign: Vec<NodeFacts>,
    /// Nothing lives in it: the nodes are alone.
    #[serde(default)]
    empty: bool,
    /// Told what the machines are, if the API server is a real one.
    #[serde(skip)]
    machines: Option<watch::Sender<Machines>>,
    /// How often anything has touched the nodes when the kubelets last looked
    /// at them.
    #[serde(skip)]
    looked: Option<u64>,
    /// What the kubelets were told of the nodes.
    #[serde(skip)]
    told: facts::Told,
    /// The same when the feed last looked, and the revision of the objects then.
    #[serde(skip)]
    compared: Option<(u64, u64)>,
    /// Whether it lives too shortly to put anything away.
    #[serde(default)]
    brief: bool,
    /// When to put away next what nobody asks for.
    #[serde(skip)]
    rest_at: Time,
}

impl Kubernetes {
    /// That of a new cluster: its own workloads and those that are wished for
    /// have come up by now.
    pub fn new(world: &World, seed: u64, wished: &[Value]) -> Result<Self, WorkloadError> {
        Self::begin(world, seed, wished, false)
    }

    /// One that lives shortly, and in memory only, as those of the deterministic
    /// simulation: nothing is packed away to take less memory, leases are written
    /// only for those who read them, services have no endpoints, `managedFields` tell nothing of what kubelets
    /// and controllers write, and nobody leaves Events. Otherwise it is the same
    /// for a fraction of the work.
    pub fn brief(world: &World, seed: u64, wished: &[Value]) -> Result<Self, WorkloadError> {
        Self::begin(world, seed, wished, true)
    }

    fn begin(
        world: &World,
        seed: u64,
        wished: &[Value],
        brief: bool,
    ) -> Result<Self, WorkloadError> {
        let since = world.now().minus(WARM_UP);
        let mut cluster = Cluster::new(seed, since, Timings::default());
        if brief {
            cluster.server.store_mut().be_brief();
        }
        // What happened then is forgotten by now.
        cluster.server.store_mut().set_quiet(true);
        cluster.sync(since, &facts::of_all(world));
        let mut new = Self { brief, ..Self::of(cluster, false) };
        for look in new.manifests.looks(world) {
            let _ = look.at(new.cluster.server.store_mut());
        }
        new.create(WISHED, wished.to_vec())?;
        let mut at = since;
        while at < world.now() {
            at = at.plus(Duration::from_secs(1)).min(world.now());
            new.cluster.advance(at);
            // Nobody will know a version of before the start.
            new.cluster.server.compact();
        }
        new.cluster.server.store_mut().set_quiet(brief);
        Ok(new)
    }

    /// One in which nothing lives, for those who only want nodes: it has no
    /// kubelets and no workloads, and takes next to no memory.
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
            looked: None,
            told: facts::Told::default(),
            compared: None,
            brief: false,
            rest_at: Time::default(),
        }
    }

    /// Lets kubelets elsewhere follow the machines: those of a real API server.
    pub(crate) fn machines(&mut self, world: &World) -> watch::Receiver<Machines> {
        let (sender, receiver) = watch::channel(Machines::of(world));
        self.machines = Some(sender);
        receiver
    }

    fn lives(&self, world: &World) -> bool {
        !self.empty && world.kubernetes_api_is_up()
    }

    /// A kubelet registers on a machine that is none of the world's.
    pub fn join_foreign(&mut self, now: Time, name: &str, address: &str, version: &Version) {
        let facts = NodeFacts {
            kubelet_version: version.tag(),
            os_image: "Another Linux".to_owned(),
            ..NodeFacts::new(name, address, false)
        };
        self.cluster.update(now, std::slice::from_ref(&facts), &[]);
        self.foreign.push(facts);
    }

    /// It is gone, and its node with it.
    pub fn leave_foreign(&mut self, now: Time, name: &str) {
        self.foreign.retain(|facts| facts.name != name);
        self.cluster.update(now, &[], &[name.to_owned()]);
        let (write, options) = (Write::by("somebody"), DeleteOptions::now());
        let _ = self.cluster.server.store_mut().delete(&write, &NODES, "", name, &options);
    }

    /// Creates what is wished for and not there yet.
    pub fn wish(&mut self, wished: &[Value]) -> Result<(), WorkloadError> {
        self.create(WISHED, wished.to_vec())
    }

    fn create(&mut self, manager: &str, objects: Vec<Value>) -> Result<(), WorkloadError> {
        controllers::apply(self.cluster.server.store_mut(), manager, objects).map_err(WorkloadError)
    }

    /// The API server.
    pub fn api(&self) -> &ApiServer {
        &self.cluster.server
    }

    /// The API server, for requests.
    pub fn api_mut(&mut self) -> &mut ApiServer {
        &mut self.cluster.server
    }

    /// The latest time it has been told.
    pub fn now(&self) -> Time {
        self.cluster.server.store().now()
    }

    /// When something happens by itself next. Without etcd nothing does.
    pub fn next_event(&self, world: &World) -> Option<Time> {
        let next = [self.cluster.next_event(), self.drains.next_event()];
        next.into_iter().flatten().min().filter(|_| self.lives(world))
    }

    /// Makes everything happen that is due by `now`, after a change of objects.
    pub fn advance(&mut self, world: &mut World, now: Time) {
        if self.lives(world) {
            self.cluster.advance(now);
            self.compare(world, now);
        }
    }

    /// The same after a change of nodes: their kubelets learn of it.
    pub fn follow(&mut self, world: &mut World, now: Time) {
        if self.looked == Some(world.touched()) {
            return self.advance(world, now);
        }
        if self.lives(world) {
            self.looked = Some(world.touched());
            if let Some((changed, gone)) = self.told.news(world) {
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

    /// The same after a time in which nobody could look: what was due again and
    /// again, such as the renewal of leases, happens once.
    pub fn resume(&mut self, world: &mut World, now: Time) {
        if self.lives(world) {
            self.cluster.resume(now);
        }
        self.looked = None;
        self.follow(world, now);
    }

    /// Lets the nodes and their objects tell each other what is new, if either
    /// may have changed.
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

    /// What nodes and their objects have to do with each other, since the last
    /// time that somebody looked.
    fn pass(&mut self, world: &mut World, since: Option<u64>) {
        let store = self.cluster.server.store_mut();
        // Nobody looks for an API server in a world that lives shortly.
        if !self.brief {
            self.listed.update(world, store);
        }
        for look in self.manifests.looks(world) {
            // Talos tries again later; here nothing stands in the way.
            let _ = look.at(store);
        }
        let store = self.cluster.server.store();
        let news = since.and_then(|since| store.changes_since(since));
        let names: Option<BTreeSet<&str>> = news.map(|changes| {
            let nodes = changes.filter(|change| change.resource == NODES);
            nodes.map(|change| object::name(&change.object)).collect()
        });
        let changed = |name: &str| names.as_ref().is_none_or(|names| names.contains(name));
        let object = |name: &str| store.get(&NODES, "", name).map(AsRef::as_ref);
        for wish in self.feed.pass(world, changed, object) {
            feed::cordon(self.cluster.server.store_mut(), &wish);
        }
    }

    /// Lets nodes that drain themselves go on with it.
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

/// The control planes' API servers that run, by node.
pub(crate) fn running(world: &World) -> impl Iterator<Item = NodeIndex> {
    (0..world.len()).map(NodeIndex).filter(|node| world.api_server_runs(*node))
}

#[cfg(test)]
mod standstill_tests;
#[cfg(test)]
mod tests;
