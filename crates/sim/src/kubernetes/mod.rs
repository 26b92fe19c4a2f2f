//! The Kubernetes API of a cluster, as its control planes serve it.
//!
//! The API server itself is a pure model, [`kube_sim::ApiServer`]: there is one
//! for the cluster, it belongs to the same task as the nodes, and both have one
//! clock. Here is what surrounds it: a [`door`] on every control plane and on
//! the address that they share, who comes in ([`auth`]), the [`kubeconfig`],
//! what happens without etcd, and the feed between the nodes and their objects.
//! With a real API server, [`remote`] takes the place of model and doors.

pub mod auth;
pub mod calls;
pub mod door;
mod drain;
mod facts;
mod feed;
mod health;
pub mod kubeconfig;
mod manifests;
mod presence;
pub mod remote;

use std::collections::BTreeMap;
use std::time::Duration;

use kube_sim::ApiServer;
use kube_sim::controllers;
use kube_sim::kubelet::{Cluster, Timings};
use kube_sim::names::NODES;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use crate::model::{NodeIndex, Time, World};
use feed::Feed;
use manifests::Manifests;
use remote::Machines;

pub(crate) use presence::Presences;

/// How long a new cluster's pods have had to come up.
const WARM_UP: Duration = Duration::from_mins(2);

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
    /// Nothing lives in it: the nodes are alone.
    #[serde(default)]
    empty: bool,
    /// Told what the machines are, if the API server is a real one.
    #[serde(skip)]
    machines: Option<watch::Sender<Machines>>,
}

impl Kubernetes {
    /// That of a new cluster: its own workloads and those that are wished for
    /// have come up by now.
    pub fn new(world: &World, seed: u64, wished: &[Value]) -> Result<Self, WorkloadError> {
        let since = to_api(world.now().minus(WARM_UP));
        let mut cluster = Cluster::new(seed, since, Timings::default());
        cluster.sync(since, &facts::of_all(world));
        let mut new = Self::of(cluster, false);
        for look in new.manifests.looks(world) {
            let _ = look.at(new.cluster.server.store_mut());
        }
        new.create(WISHED, wished.to_vec())?;
        new.cluster.advance(to_api(world.now()));
        Ok(new)
    }

    /// One in which nothing lives, for those who only want nodes: it has no
    /// kubelets and no workloads, and takes next to no memory.
    pub fn empty(world: &World, seed: u64) -> Self {
        let cluster = Cluster::new(seed, to_api(world.now()), Timings::default());
        Self::of(cluster, true)
    }

    fn of(cluster: Cluster, empty: bool) -> Self {
        Self {
            cluster,
            feed: Feed::default(),
            drains: drain::Drains::default(),
            manifests: Manifests::default(),
            empty,
            machines: None,
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

    /// When something happens by itself next. Without etcd nothing does.
    pub fn next_event(&self, world: &World) -> Option<Time> {
        let next = [self.cluster.next_event(), self.drains.next_event()];
        let next = next.into_iter().flatten().min().filter(|_| self.lives(world))?;
        Some(Time::from_nanos(next.as_nanos()))
    }

    /// Makes everything happen that is due by `now`, after a change of objects.
    pub fn advance(&mut self, world: &mut World, now: Time) {
        if self.lives(world) {
            self.cluster.advance(to_api(now));
            self.pass(world, now);
        }
    }

    /// The same after a change of nodes: their kubelets learn of it.
    pub fn follow(&mut self, world: &mut World, now: Time) {
        if self.lives(world) {
            self.cluster.sync(to_api(now), &facts::of_all(world));
            self.pass(world, now);
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

    /// What nodes and their objects have to do with each other.
    fn pass(&mut self, world: &mut World, now: Time) {
        let store = self.cluster.server.store_mut();
        for look in self.manifests.looks(world) {
            // Talos tries again later; here nothing stands in the way.
            let _ = look.at(store);
        }
        let store = self.cluster.server.store();
        let object = |name: &str| store.get(&NODES, "", name).map(AsRef::as_ref);
        for wish in self.feed.pass(world, object) {
            feed::cordon(self.cluster.server.store_mut(), &wish);
        }
        self.drain(world, now);
    }

    /// Lets nodes that drain themselves go on with it.
    fn drain(&mut self, world: &mut World, now: Time) {
        let draining: BTreeMap<String, NodeIndex> =
            world.draining().map(|(node, name)| (name.to_owned(), node)).collect();
        for (name, node) in &draining {
            if !self.drains.has(name) {
                world.hold_drain(now, *node);
            }
        }
        let names = draining.keys().cloned().collect();
        let empty = self.drains.advance(to_api(now), self.cluster.server.store_mut(), &names);
        if !draining.is_empty() {
            // The evicted begin to stop at once.
            self.cluster.advance(to_api(now));
        }
        for name in empty {
            world.drained(now, draining[&name]);
        }
    }
}

/// The same instant for the API server.
pub(crate) fn to_api(time: Time) -> kube_sim::Time {
    kube_sim::Time::from_nanos(time.as_nanos())
}

/// The control planes' API servers that run, by node.
pub(crate) fn running(world: &World) -> impl Iterator<Item = NodeIndex> {
    (0..world.len()).map(NodeIndex).filter(|node| world.api_server_runs(*node))
}

#[cfg(test)]
mod tests;
