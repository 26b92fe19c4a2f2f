//! The Kubernetes API of a cluster, as its control planes serve it.
//!
//! The API server itself is a pure model, [`kube_sim::ApiServer`]: there is one
//! for the cluster, it belongs to the same task as the nodes, and both have one
//! clock. Here is what surrounds it: a [`door`] on every control plane and on
//! the address that they share, who comes in ([`auth`]), the [`kubeconfig`],
//! what happens without etcd, and the feed between the nodes and their objects.

pub mod auth;
pub mod calls;
pub mod door;
mod facts;
mod feed;
mod health;
pub mod kubeconfig;
mod presence;

use std::time::Duration;

use kube_sim::ApiServer;
use kube_sim::controllers::{self, furniture};
use kube_sim::kubelet::{Cluster, Timings};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::{NodeIndex, Time, World};

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

/// Reads the workloads that a user gives: Kubernetes objects in YAML.
pub fn read_workloads(text: &str) -> Result<Vec<Value>, WorkloadError> {
    controllers::load_workloads(text).map_err(WorkloadError)
}

/// The Kubernetes side of a cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kubernetes {
    /// The API server and the kubelets.
    cluster: Cluster,
    feed: feed::Feed,
    /// Nothing lives in it: the nodes are alone.
    #[serde(default)]
    empty: bool,
    /// How often anything has touched the nodes when the kubelets last looked
    /// at them.
    #[serde(skip)]
    looked: Option<u64>,
    /// The same when the feed last looked, and the revision of the objects then.
    #[serde(skip)]
    compared: Option<(u64, u64)>,
    /// When to put away next what nobody asks for.
    #[serde(skip)]
    rest_at: Time,
}

impl Kubernetes {
    /// That of a new cluster: its own workloads and those that are wished for
    /// have come up by now.
    pub fn new(world: &World, seed: u64, wished: &[Value]) -> Result<Self, WorkloadError> {
        let since = world.now().minus(WARM_UP);
        let mut cluster = Cluster::new(seed, since, Timings::default());
        cluster.sync(since, &facts::of_all(world));
        let mut new = Self::of(cluster, false);
        new.create("talos", furniture(&facts::furniture(world)))?;
        new.create(WISHED, wished.to_vec())?;
        let mut at = since;
        while at < world.now() {
            at = at.plus(Duration::from_secs(1)).min(world.now());
            new.cluster.advance(at);
            // Nobody will know a version of before the start.
            new.cluster.server.compact();
        }
        Ok(new)
    }

    /// One in which nothing lives, for those who only want nodes: it has no
    /// kubelets and no workloads, and takes next to no memory.
    pub fn empty(world: &World, seed: u64) -> Self {
        Self::of(Cluster::new(seed, world.now(), Timings::default()), true)
    }

    fn of(cluster: Cluster, empty: bool) -> Self {
        let (feed, rest_at) = (feed::Feed::default(), Time::default());
        Self { cluster, feed, empty, looked: None, compared: None, rest_at }
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

    /// The latest time it has been told.
    pub fn now(&self) -> Time {
        self.cluster.server.store().now()
    }

    /// When something happens by itself next. Without etcd nothing does.
    pub fn next_event(&self, world: &World) -> Option<Time> {
        self.cluster.next_event().filter(|_| self.lives(world))
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
            self.cluster.sync(now, &facts::of_all(world));
            self.compare(world, now);
        }
    }

    /// The same after a time in which nobody could look: what was due again and
    /// again, such as the renewal of leases, happens once.
    pub fn resume(&mut self, world: &mut World, now: Time) {
        if self.lives(world) {
            self.cluster.resume(now);
            self.looked = None;
            self.follow(world, now);
        }
    }

    /// Lets the nodes and their objects tell each other what is new, if either
    /// may have changed.
    fn compare(&mut self, world: &mut World, now: Time) {
        let server = &mut self.cluster.server;
        let current = (world.touched(), server.store().revision_to_keep());
        if self.compared.replace(current) != Some(current) {
            self.feed.pass(server, world, now);
        }
        if self.rest_at <= now {
            self.rest_at = now.plus(REST);
            self.cluster.rest();
        }
    }
}

/// The control planes' API servers that run, by node.
pub(crate) fn running(world: &World) -> impl Iterator<Item = NodeIndex> {
    (0..world.len()).map(NodeIndex).filter(|node| world.api_server_runs(*node))
}

#[cfg(test)]
mod tests {
    use kube_sim::names::{LEASES, NODES};
    use kube_sim::object;
    use upgrade_core::version::Version;

    use super::*;
    use crate::model::ClusterSpec;

    fn cluster() -> (World, Kubernetes) {
        let spec = ClusterSpec::new(1, 2, &Version::new(1, 13, 9), &Version::new(1, 34, 2));
        let mut world = World::new(&spec, 0, Time::from_secs(1_800_000_000));
        let mut kubernetes = Kubernetes::new(&world, 0, &[]).unwrap();
        let now = world.now();
        kubernetes.follow(&mut world, now);
        (world, kubernetes)
    }

    /// How often leases have changed since a revision, and how often anything.
    fn changes(kubernetes: &Kubernetes, since: u64) -> (usize, u64) {
        let store = kubernetes.api().store();
        let changes = store.changes_since(since).expect("they are at hand");
        let leases = changes.filter(|change| change.resource == LEASES).count();
        (leases, store.revision() - since)
    }

    #[test]
    fn after_a_standstill_leases_are_renewed_once() {
        let (mut world, mut kubernetes) = cluster();
        let before = kubernetes.api().store().revision();
        let later = world.now().plus(Duration::from_hours(1));
        world.advance(later);
        kubernetes.resume(&mut world, later);
        let (leases, all) = changes(&kubernetes, before);
        assert_eq!(leases, 3);
        assert!(all < 12, "{all} changes");
        for node in kubernetes.api().store().list(&NODES, None) {
            let conditions = object::list(node, &["status", "conditions"]);
            let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
            assert_eq!(ready.expect("a condition")["status"], "True", "{node}");
        }
    }

    #[test]
    fn signs_of_life_are_nothing_to_keep() {
        let (mut world, mut kubernetes) = cluster();
        let before = kubernetes.api().store().revision();
        let kept = kubernetes.api().store().revision_to_keep();
        let touched = world.touched();
        let later = world.now().plus(Duration::from_secs(35));
        kubernetes.advance(&mut world, later);
        let (leases, _) = changes(&kubernetes, before);
        assert!(leases >= 6, "{leases} renewals");
        assert_eq!(kubernetes.api().store().revision_to_keep(), kept);
        assert_eq!(world.touched(), touched);
    }
}
