//! A whole cluster on loopback: the handle for whoever runs one, a command or a
//! test.
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
use crate::control::{self, ActiveFault, Ask, Told};
use crate::driver::Driver;
use crate::model::NodeRole;
use crate::pki::{Authority, Identity, PkiError};
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
    /// What it is for.
    pub role: NodeRole,
    /// The address that the cluster knows it by: what `--nodes` takes.
    pub address: IpAddr,
    /// Where its apid is reached.
    pub apid: SocketAddr,
    /// Where its Kubernetes API server is reached, if it is to run one.
    pub kubernetes: Option<SocketAddr>,
}

/// A cluster that runs. Dropping it stops it without saving the last second.
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
    /// The kubelets of a real Kubernetes API; they end with the driver.
    kubelets: Option<thread::JoinHandle<()>>,
    store: Option<Store>,
}

impl Cluster {
    /// Starts a cluster, or goes on with the one in the folder.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        // Keys and files take their time; whoever else runs here goes on.
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

    /// What it is made of.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Its nodes, control planes first.
    pub fn nodes(&self) -> &[NodePlace] {
        &self.nodes
    }

    /// A talosconfig of an administrator.
    pub fn talosconfig(&self) -> &str {
        &self.talosconfig
    }

    /// A talosconfig of somebody else.
    pub fn talosconfig_for(&self, identity: &Identity) -> Result<String, PkiError> {
        mint(&self.shape, &self.places, &self.authority, identity)
    }

    /// A kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// Where the Kubernetes API is reached as long as a control plane serves
    /// it, as `https://...`.
    pub fn kubernetes_url(&self) -> String {
        format!("https://{}", self.places.endpoint)
    }

    /// Where the real Kubernetes API behind that is, if it is one.
    pub fn real_api_url(&self) -> Option<&str> {
        self.real_api_url.as_deref()
    }

    /// Where the Image Factory is reached, as `http://...`.
    pub fn factory_url(&self) -> String {
        format!("http://{}", self.places.factory)
    }

    /// The folder, if it has one.
    pub fn folder(&self) -> Option<&Path> {
        self.store.as_ref().map(Store::path)
    }

    /// What owns the world.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// Asks for a fault, its end, or another speed; answers with the faults
    /// that hold then.
    pub async fn ask(&self, ask: Ask) -> Result<Vec<ActiveFault>, String> {
        let told = self.driver.visit(move |inside| control::obey(inside, &ask));
        match told.await {
            Some(Told::Faults(faults)) => Ok(faults),
            Some(Told::Refused(why)) => Err(why),
            None => Err("the cluster has stopped".to_owned()),
        }
    }

    /// Makes something go wrong on a node: `inject("cp-1", "boot-back")`.
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
            // A request that is under way ends first.
            let _ = tokio::task::spawn_blocking(move || kubelets.join()).await;
        }
    }
}
