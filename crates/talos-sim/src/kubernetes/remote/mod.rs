//! The Kubernetes of a cluster at a real API server: the same kubelets, static pods and objects as
//! in the embedded one, kept in a real one over HTTPS. Its own controllers and scheduler do the
//! rest. The endpoints of the control planes forward to it.
//!
//! ```text
//! world --facts--> runner (kubelets, a thread of their own) --requests--> API server
//!   ^                 ^                                                     |
//!   +--feed-----------+---------------------- watches -----------------------+
//! ```

mod api;
mod bootstrap;
mod client;
mod endpoint;
mod error;
mod forward;
mod path;
mod provision;
mod runner;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use kube_sim::kubelet::{Kubelets, NodeFacts, Timings};
use kube_sim::names::{
    NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, VOLUME_ATTACHMENTS,
};
use tokio::sync::{mpsc, watch as channel};
use tokio::task::JoinSet;

pub use endpoint::RealApi;
pub use error::RemoteError;

pub(crate) use bootstrap::{BootstrapError, create_objects, storage};
pub(crate) use client::check;
pub(crate) use endpoint::Endpoint;
pub(crate) use forward::Forwarder;

use super::drain::Drains;
use super::facts;
use crate::clock::{self, Clock};
use crate::driver::Driver;
use crate::model::{NodeIndex, World};
use api::RemoteApi;
use provision::Provisioner;
use runner::Runner;
use watch::Watcher;

/// The storage driver.
const DRIVER: &str = "sim";

/// The nodes as their kubelets see them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Machines {
    pub(crate) facts: Vec<NodeFacts>,
    /// Whether each has an API server that has its etcd.
    has_etcd: Vec<bool>,
    /// Whether each is cordoned.
    cordoned: Vec<bool>,
    /// Those that drain themselves.
    draining: Vec<NodeIndex>,
    /// The state that makes each control plane install its manifests again when it changes.
    manifests: Vec<Option<(u64, u64, usize)>>,
}

impl Machines {
    pub(crate) fn of(world: &World) -> Self {
        let nodes = || (0..world.len()).map(NodeIndex);
        let cordoned = |node| world.kubernetes(node).is_some_and(|node| node.unschedulable);
        Self {
            facts: facts::of_all(world),
            has_etcd: nodes().map(|node| serves_api(world, node)).collect(),
            cordoned: nodes().map(cordoned).collect(),
            draining: world.draining().map(|(node, _)| node).collect(),
            manifests: nodes().map(|node| world.manifests_seen(node)).collect(),
        }
    }
}

/// The readiness of its pod does not show this: up to Talos 1.13 the pod has no probes.
fn serves_api(world: &World, node: NodeIndex) -> bool {
    world.api_server_runs(node) && world.api_server_has_etcd(node)
}

/// Everything needed to start.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) place: Arc<Endpoint>,
    pub(crate) machines: channel::Receiver<Machines>,
    pub(crate) seed: u64,
    pub(crate) speed: f64,
}

impl Start {
    /// Forwarding for the endpoints.
    pub(crate) fn forwarder(&self) -> Forwarder {
        Forwarder::new(Arc::clone(&self.place), self.machines.clone(), self.speed)
    }

    /// Starts the kubelets and the watches that feed them. The thread ends with
    /// the driver's task.
    pub(crate) fn start(
        self,
        driver: Driver,
        tasks: &mut JoinSet<()>,
    ) -> std::io::Result<thread::JoinHandle<()>> {
        let Self { place, machines, seed, speed } = self;
        let (sender, changes) = mpsc::unbounded_channel();
        for (resource, selector) in [
            (NODES, ""),
            // Kubelets ignore pods without a node.
            (PODS, "spec.nodeName%21%3D"),
            (VOLUME_ATTACHMENTS, ""),
            (PERSISTENT_VOLUME_CLAIMS, ""),
            (PERSISTENT_VOLUMES, ""),
        ] {
            let place = Arc::clone(&place);
            tasks.spawn(Watcher::new(place, resource, selector, sender.clone()).run());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let runner = Runner {
            api: RemoteApi::new(runtime, place),
            kubelets: Kubelets::new(seed, Timings::default().faster(speed)),
            machines,
            changes,
            driver,
            clock: Clock::starting_at(clock::wall_time(), 1.0),
            nodes: BTreeMap::new(),
            provisioner: Provisioner::default(),
            nodes_clock: Clock::starting_at(clock::wall_time(), speed),
            held: BTreeMap::new(),
            drains: Drains::default(),
        };
        thread::Builder::new().name("kubelets".to_owned()).spawn(move || runner.run())
    }
}
