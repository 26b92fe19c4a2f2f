//! A whole cluster on loopback: the handle for a command or a test that runs one.
//!
//! ```no_run
//! # async fn example() -> Result<(), talos_sim::cluster::StartError> {
//! use talos_sim::cluster::{Cluster, Options};
//!
//! let cluster = Cluster::start(Options::default()).await?;
//! println!("{}", cluster.talosconfig());
//! cluster.stop().await;
//! # Ok(())
//! # }
//! ```

mod error;
mod launch;
mod marker;
mod options;
mod prepare;

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::thread;

use tokio::task::JoinSet;

use crate::address::Places;
use crate::control::{self, ActiveFault, Ask, ControlReply};
use crate::driver::Driver;
use crate::model::NodeRole;
use crate::pki::{Authority, Identity, PkiError};
use crate::secrets_bundle;
use crate::store::Store;
use marker::mint;
use prepare::Prepared;

pub use error::StartError;
pub use marker::{mint_talosconfig, stored_shape};
pub use options::{Machines, Options, Shape, newest_kubernetes, platform};

/// A node of a running cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePlace {
    /// Its name.
    pub hostname: String,
    /// Its role.
    pub role: NodeRole,
    /// Its address inside the cluster: the value for `--nodes`.
    pub address: IpAddr,
    /// Where its apid listens.
    pub apid: SocketAddr,
    /// Where its Kubernetes API server listens; `None` for a worker.
    pub kubernetes: Option<SocketAddr>,
}

/// A running cluster. Dropping it stops it without saving the last second.
#[derive(Debug)]
pub struct Cluster {
    shape: Shape,
    places: Places,
    nodes: Vec<NodePlace>,
    authority: Authority,
    talosconfig: String,
    kubeconfig: String,
    real_api_url: Option<String>,
    driver: Driver,
    tasks: JoinSet<()>,
    /// The kubelets of a real Kubernetes API; they end together with the driver.
    kubelets: Option<thread::JoinHandle<()>>,
    store: Option<Store>,
}

impl Cluster {
    /// Starts a cluster, or continues the one in the folder.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        // Making keys and files takes a while; the runtime's other tasks must not wait for it.
        let started = tokio::task::spawn_blocking(move || Self::start_here(&options));
        match started.await {
            Ok(started) => started,
            Err(failure) => std::panic::resume_unwind(failure.into_panic()),
        }
    }

    fn start_here(options: &Options) -> Result<Self, StartError> {
        let store = match &options.folder {
            Some(folder) => Some(Store::open(folder)?),
            None => None,
        };
        match Prepared::new(options, store.as_ref()) {
            Ok(prepared) => prepared.start(store),
            Err(error) => {
                if let Some(store) = store {
                    store.abandon();
                }
                Err(error)
            }
        }
    }

    /// The shape: names, counts and first versions.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Its nodes, control planes first.
    pub fn nodes(&self) -> &[NodePlace] {
        &self.nodes
    }

    /// A talosconfig for an administrator.
    pub fn talosconfig(&self) -> &str {
        &self.talosconfig
    }

    /// A talosconfig for another identity.
    pub fn talosconfig_for(&self, identity: &Identity) -> Result<String, PkiError> {
        mint(&self.shape, &self.places, &self.authority, identity)
    }

    /// The secrets of the cluster as `talosctl gen secrets` writes them; `None` once it stopped.
    pub async fn secrets_bundle(&self) -> Option<String> {
        self.driver.visit(|inside| secrets_bundle::write(inside.world.spec())).await
    }

    /// A kubeconfig for an administrator.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// The shared address of the Kubernetes API as `https://...`, open while any control plane
    /// serves it.
    pub fn kubernetes_url(&self) -> String {
        format!("https://{}", self.places.endpoint)
    }

    /// The address of the real Kubernetes API behind it, if there is one.
    pub fn real_api_url(&self) -> Option<&str> {
        self.real_api_url.as_deref()
    }

    /// The address of the Image Factory as `http://...`.
    pub fn factory_url(&self) -> String {
        format!("http://{}", self.places.factory)
    }

    /// The folder, if it has one.
    pub fn folder(&self) -> Option<&Path> {
        self.store.as_ref().map(Store::path)
    }

    /// The handle on the task that owns the world.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// Injects or clears a fault, or changes the speed; returns the faults that are then active.
    pub async fn ask(&self, ask: Ask) -> Result<Vec<ActiveFault>, String> {
        let reply = self.driver.visit(move |inside| control::execute(inside, &ask));
        match reply.await {
            Some(ControlReply::Faults(faults)) => Ok(faults),
            Some(ControlReply::Refused(why)) => Err(why),
            None => Err("the cluster has stopped".to_owned()),
        }
    }

    /// Injects a fault on a node: `inject("cp-1", "boot-back")`.
    pub async fn inject(&self, node: &str, fault: &str) -> Result<(), String> {
        let ask =
            Ask::Inject { node: Some(node.to_owned()), fault: fault.to_owned(), lasting: None };
        self.ask(ask).await.map(drop)
    }

    /// Ends a fault on a node.
    pub async fn clear(&self, node: &str, fault: &str) -> Result<(), String> {
        let ask = Ask::Clear { node: Some(node.to_owned()), fault: fault.to_owned() };
        self.ask(ask).await.map(drop)
    }

    /// Saves the state and stops everything.
    pub async fn stop(mut self) {
        self.driver.stop().await;
        if let Some(store) = &self.store {
            store.remove_control();
        }
        self.tasks.shutdown().await;
        if let Some(kubelets) = self.kubelets.take() {
            // A request in flight ends first.
            let _ = tokio::task::spawn_blocking(move || kubelets.join()).await;
        }
    }
}
