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

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use upgrade_core::catalogue::Catalogue;
use upgrade_core::matrix::Matrix;
use upgrade_core::version::Version;

use crate::address::{AddressError, Layout, Places, Sockets};
use crate::clock::{self, Clock};
use crate::control::{self, ActiveFault, Ask, Told};
use crate::driver::{Driver, Inside};
use crate::grpc::{Directory, Door};
use crate::kubernetes::auth::{Gate, gates};
use crate::kubernetes::{Kubernetes, WorkloadError, door, kubeconfig};
use crate::model::{ClusterSpec, NodeIndex, NodeRole, Secrets, Time, Timings, World};
use crate::pki::{Authority, Identity, PkiError};
use crate::schedule::{FaultError, Planned, Schedule};
use crate::server::Server;
use crate::store::{self, Store, StoreError};
use crate::tls::TlsError;
use crate::{apid, factory, talosconfig, tls};

/// What a cluster is made of. A folder remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Its name.
    pub name: String,
    /// How many control planes.
    pub control_planes: usize,
    /// How many workers.
    pub workers: usize,
    /// The Talos that runs on all nodes at first.
    pub talos: Version,
    /// The Kubernetes, likewise.
    pub kubernetes: Version,
    /// Where chance begins: the same seed gives the same run.
    pub seed: u64,
}

impl Default for Shape {
    /// Three control planes and two workers on the newest releases that go
    /// together.
    fn default() -> Self {
        let catalogue = Catalogue::builtin();
        let talos = newest(&catalogue.talos).unwrap_or(Version::new(1, 13, 9));
        let kubernetes = newest_kubernetes(&talos).unwrap_or(Version::new(1, 36, 3));
        Self { name: "sim".to_owned(), control_planes: 3, workers: 2, talos, kubernetes, seed: 0 }
    }
}

fn newest(versions: &[Version]) -> Option<Version> {
    let stable = versions.iter().filter(|version| !version.is_prerelease());
    stable.max().cloned()
}

/// The newest Kubernetes that a version of Talos runs.
pub fn newest_kubernetes(talos: &Version) -> Option<Version> {
    let matrix = Matrix::builtin();
    let supported: Vec<Version> = Catalogue::builtin()
        .kubernetes
        .into_iter()
        .filter(|kubernetes| matrix.supports(talos, kubernetes))
        .collect();
    newest(&supported)
}

/// How a cluster is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// What it is made of. A folder that holds a cluster already must hold this
    /// one; `None` takes whatever is there, or the default.
    pub shape: Option<Shape>,
    /// Where its state is kept; in memory only if `None`.
    pub folder: Option<PathBuf>,
    /// Virtual seconds a real second.
    pub speed: f64,
    /// How long things take, in a new cluster.
    pub timings: Timings,
    /// How nodes are told apart, in a new cluster.
    pub layout: Layout,
    /// The block of addresses of a new cluster, if it is to be a certain one.
    pub subnet: Option<Ipv4Addr>,
    /// What goes wrong.
    pub faults: Vec<Planned>,
    /// Leave the Kubernetes API of a new cluster empty, without kubelets and
    /// workloads: for very many clusters of which only the nodes matter.
    pub nodes_only: bool,
    /// Objects that the Kubernetes API has from the start; those that are there
    /// already stay as they are.
    pub workloads: Vec<serde_json::Value>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            shape: None,
            folder: None,
            speed: 1.0,
            timings: Timings::default(),
            layout: Layout::Auto,
            subnet: None,
            faults: Vec::new(),
            nodes_only: false,
            workloads: Vec::new(),
        }
    }
}

/// Why a cluster did not start. Nothing of it is left running then.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The folder.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The addresses.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A fault that was asked for.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// The workloads that were asked for.
    #[error("the workloads: {0}")]
    Workloads(#[from] WorkloadError),
    /// The certificates.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The control port.
    #[error("cannot open the control port")]
    Control(#[source] std::io::Error),
    /// No cluster has that shape.
    #[error("{0}")]
    Shape(&'static str),
    /// The folder holds another cluster.
    #[error("{} holds a cluster that differs: {what}", folder.display())]
    Differs {
        /// The folder.
        folder: PathBuf,
        /// In what.
        what: String,
    },
}

/// What a folder remembers beside the state.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Marker {
    shape: Shape,
    places: Places,
}

/// The shape of the cluster in a folder, if there is one.
pub fn stored_shape(folder: &Path) -> Result<Option<Shape>, StoreError> {
    Ok(store::read_marker::<Marker>(folder)?.map(|marker| marker.shape))
}

/// Makes a talosconfig for the cluster in a folder, whether it runs or not.
pub fn mint_talosconfig(folder: &Path, identity: &Identity) -> Result<String, StartError> {
    let missing = || StoreError::Missing(folder.to_owned());
    let marker: Marker = store::read_marker(folder)?.ok_or_else(missing)?;
    let pair = store::read_authority(folder)?.ok_or_else(missing)?;
    let authority = Authority::load(pair)?;
    Ok(mint(&marker.shape, &marker.places, &authority, identity)?)
}

fn mint(
    shape: &Shape,
    places: &Places,
    authority: &Authority,
    identity: &Identity,
) -> Result<String, PkiError> {
    let endpoints: Vec<String> = places
        .apid
        .iter()
        .take(shape.control_planes)
        .map(|apid| match apid.port() {
            crate::address::APID_PORT => apid.ip().to_string(),
            _ => apid.to_string(),
        })
        .collect();
    let first = places.nodes.first().map(IpAddr::to_string);
    Ok(talosconfig::write(
        &shape.name,
        &endpoints,
        &Vec::from_iter(first),
        &authority.pair().certificate,
        &authority.client(identity)?,
    ))
}

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
    driver: Driver,
    tasks: JoinSet<()>,
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
    }
}

/// Everything that can fail before the first task is started.
struct Prepared {
    shape: Shape,
    places: Places,
    sockets: Sockets,
    authority: Authority,
    inside: Inside,
    talosconfig: String,
    kubeconfig: String,
    servers: Vec<Arc<rustls::ServerConfig>>,
    gates: Vec<Gate>,
}

impl Prepared {
    fn new(options: &Options, store: Option<&Store>) -> Result<Self, StartError> {
        let wall = clock::wall_time();
        let marker: Option<Marker> = match store {
            Some(store) => store.marker()?,
            None => None,
        };
        let (shape, places, sockets) = match marker {
            Some(Marker { shape, places }) => {
                if let Some(wanted) = &options.shape {
                    compare(store.map_or(Path::new(""), Store::path), wanted, &shape)?;
                }
                let sockets = places.reopen()?;
                (shape, places, sockets)
            }
            None => new_cluster(options, store)?,
        };
        let authority = match store.map(Store::authority).transpose()?.flatten() {
            Some(pair) => Authority::load(pair)?,
            None => Authority::generate(wall)?,
        };
        let kubernetes_authority =
            match store.map(Store::kubernetes_authority).transpose()?.flatten() {
                Some(pair) => Authority::load(pair)?,
                None => Authority::generate_kubernetes(wall)?,
            };
        let spec = spec(&shape, &places, &authority, &kubernetes_authority, options);
        let restored = store.map(Store::state).transpose()?.flatten();
        let (mut world, mut schedule, mut kubernetes) = if let Some(restored) = restored {
            (restored.world, restored.schedule, restored.kubernetes)
        } else {
            let world = World::new(&spec, shape.seed, wall);
            let kubernetes = if options.nodes_only {
                Kubernetes::empty(&world, shape.seed)
            } else {
                Kubernetes::new(&world, shape.seed, &options.workloads)?
            };
            (world, Schedule::default(), kubernetes)
        };
        // The nodes ran on while nobody looked, and time never goes back.
        let now: Time = world.now().max(wall);
        world.advance(now);
        for planned in &options.faults {
            schedule.add(&world, now, planned)?;
        }
        kubernetes.wish(&options.workloads)?;
        let servers = spec
            .nodes
            .iter()
            .zip(&places.apid)
            .map(|(node, apid)| {
                let mut addresses = node.addresses.clone();
                addresses.push(apid.ip());
                let pair = authority.server(&node.hostname, &[], &addresses, wall)?;
                Ok(tls::server_config(&authority.pair().certificate, &pair)?)
            })
            .collect::<Result<_, StartError>>()?;
        let gates = gates(&spec, &places, &kubernetes_authority, wall)?;
        let url = format!("https://{}", places.endpoint);
        let kubeconfig = kubeconfig::admin(&shape.name, &url, &kubernetes_authority, wall)?;
        world.set_kubeconfig(kubeconfig::archive(&kubeconfig));
        let admin = Identity::new("os:admin", wall);
        let talosconfig = mint(&shape, &places, &authority, &admin)?;
        if let Some(store) = store {
            store.set_marker(&Marker { shape: shape.clone(), places: places.clone() })?;
            store.set_authority(authority.pair())?;
            store.set_kubernetes_authority(kubernetes_authority.pair())?;
            store.set_talosconfig(&talosconfig)?;
            store.set_kubeconfig(&kubeconfig)?;
        }
        let clock = Clock::starting_at(now, options.speed);
        Ok(Self {
            shape,
            places,
            sockets,
            authority,
            inside: Inside { world, clock, schedule, kubernetes },
            talosconfig,
            kubeconfig,
            servers,
            gates,
        })
    }

    fn start(self, store: Option<Store>) -> Result<Cluster, StartError> {
        let Self {
            shape,
            places,
            sockets,
            authority,
            inside,
            talosconfig,
            kubeconfig,
            servers,
            gates,
        } = self;
        let nodes = node_places(inside.world.spec(), &places);
        let mut tasks = JoinSet::new();
        let control = match &store {
            Some(store) => {
                let (control, listener) = control::open().map_err(StartError::Control)?;
                store.set_control(&control)?;
                Some((control, listener))
            }
            None => None,
        };
        let (driver, task) = Driver::start(inside, store.as_ref().map(Store::state_file));
        tasks.spawn(async move {
            let _ = task.await;
        });
        if let Some((control, listener)) = control {
            tasks.spawn(control::serve(listener, control, driver.clone()));
        }
        tasks.spawn(factory::serve(sockets.factory, driver.clone()));
        let names = |node: &NodePlace| vec![node.hostname.clone(), node.address.to_string()];
        let directory = Arc::new(Directory { names: nodes.iter().map(names).collect() });
        for (index, ((node, tls), listener)) in
            nodes.iter().zip(servers).zip(sockets.apid).enumerate()
        {
            let server = Server {
                address: node.apid,
                tls,
                door: Door {
                    node: NodeIndex(index),
                    router: Arc::new(apid::Router {
                        forwards: node.role == NodeRole::ControlPlane,
                        local: names(node),
                    }),
                    directory: Arc::clone(&directory),
                    driver: driver.clone(),
                    roles: Arc::from([]),
                },
            };
            tasks.spawn(server.run(listener));
        }
        // The shared address first, as `gates` has it.
        let addresses = std::iter::once(places.endpoint).chain(places.kubernetes.iter().copied());
        let listeners = std::iter::once(sockets.endpoint).chain(sockets.kubernetes);
        for (index, ((address, listener), gate)) in addresses.zip(listeners).zip(gates).enumerate()
        {
            let node = index.checked_sub(1).map(NodeIndex);
            let server = door::Server { address, gate, node, driver: driver.clone() };
            tasks.spawn(server.run(listener));
        }
        Ok(Cluster {
            shape,
            places,
            nodes,
            authority,
            talosconfig,
            kubeconfig,
            driver,
            tasks,
            store,
        })
    }
}

fn new_cluster(
    options: &Options,
    store: Option<&Store>,
) -> Result<(Shape, Places, Sockets), StartError> {
    let shape = options.shape.clone().unwrap_or_default();
    if shape.control_planes == 0 {
        return Err(StartError::Shape("a cluster needs a control plane"));
    }
    let count = shape.control_planes + shape.workers;
    let seed = match store {
        // The same folder is the same cluster, however it is spelt.
        Some(store) => std::path::absolute(store.path())
            .unwrap_or_else(|_| store.path().to_owned())
            .into_os_string()
            .into_encoded_bytes(),
        None => shape.name.clone().into_bytes(),
    };
    let (places, sockets) =
        Places::find(count, shape.control_planes, options.layout, options.subnet, &seed)?;
    Ok((shape, places, sockets))
}

fn compare(folder: &Path, wanted: &Shape, found: &Shape) -> Result<(), StartError> {
    let pairs = [
        ("name", wanted.name.clone(), found.name.clone()),
        ("control planes", wanted.control_planes.to_string(), found.control_planes.to_string()),
        ("workers", wanted.workers.to_string(), found.workers.to_string()),
        ("Talos at first", wanted.talos.tag(), found.talos.tag()),
        ("Kubernetes at first", wanted.kubernetes.tag(), found.kubernetes.tag()),
        ("seed", wanted.seed.to_string(), found.seed.to_string()),
    ];
    let differences: Vec<String> = pairs
        .into_iter()
        .filter(|(_, wanted, found)| wanted != found)
        .map(|(what, wanted, found)| format!("{what} {found}, not {wanted}"))
        .collect();
    if differences.is_empty() {
        return Ok(());
    }
    Err(StartError::Differs { folder: folder.to_owned(), what: differences.join("; ") })
}

fn spec(
    shape: &Shape,
    places: &Places,
    authority: &Authority,
    kubernetes: &Authority,
    options: &Options,
) -> ClusterSpec {
    let mut spec =
        ClusterSpec::new(shape.control_planes, shape.workers, &shape.talos, &shape.kubernetes);
    spec.name.clone_from(&shape.name);
    spec.timings = options.timings.clone();
    for (node, address) in spec.nodes.iter_mut().zip(&places.nodes) {
        node.addresses = vec![*address];
    }
    spec.endpoint = format!("https://{}", places.endpoint);
    spec.secrets = Secrets {
        machine_ca_crt: talosconfig::encode(&authority.pair().certificate),
        machine_ca_key: talosconfig::encode(&authority.pair().key),
        cluster_ca_crt: talosconfig::encode(&kubernetes.pair().certificate),
        cluster_ca_key: talosconfig::encode(&kubernetes.pair().key),
        ..Secrets::default()
    };
    spec
}

fn node_places(spec: &ClusterSpec, places: &Places) -> Vec<NodePlace> {
    spec.nodes
        .iter()
        .zip(places.nodes.iter().zip(&places.apid))
        .enumerate()
        .map(|(index, (node, (address, apid)))| NodePlace {
            kubernetes: places.kubernetes.get(index).copied(),
            hostname: node.hostname.clone(),
            role: node.role,
            address: *address,
            apid: *apid,
        })
        .collect()
}
