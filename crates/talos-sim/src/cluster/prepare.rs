//! Everything that can fail before the first task starts.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::runtime::Handle;

use super::marker::{Marker, compare, mint};
use super::{Machines, Options, Shape, StartError};
use crate::address::{Places, Sockets};
use crate::clock::{self, Clock};
use crate::driver::Inside;
use crate::kubernetes::auth::{Gate, gates};
use crate::kubernetes::remote::{self, BootstrapError, Endpoint, RealApi};
use crate::kubernetes::{Kubernetes, WorkloadError, kubeconfig};
use crate::model::{ClusterSpec, NodeSpec, Secrets, Time, World};
use crate::pki::{Authority, Identity};
use crate::schedule::Schedule;
use crate::store::Store;
use crate::{talosconfig, tls};

/// A cluster whose tasks are ready to start.
pub(super) struct Prepared {
    pub(super) shape: Shape,
    pub(super) places: Places,
    pub(super) sockets: Sockets,
    pub(super) authority: Authority,
    pub(super) inside: Inside,
    pub(super) talosconfig: String,
    pub(super) kubeconfig: String,
    pub(super) servers: Vec<Arc<rustls::ServerConfig>>,
    /// The shared address first, then each control plane's own.
    pub(super) gates: Vec<Gate>,
    /// The kubelets of a real Kubernetes API.
    pub(super) kubelets: Option<remote::Start>,
}

impl Prepared {
    /// Reads, makes and checks everything. Blocks; must be called inside a runtime.
    pub(super) fn new(options: &Options, store: Option<&Store>) -> Result<Self, StartError> {
        let wall = clock::wall_time();
        let marker: Option<Marker> = match store {
            Some(store) => store.marker()?,
            None => None,
        };
        if let Some(marker) = &marker {
            compare(store.map_or(Path::new(""), Store::path), options, marker)?;
        }
        let remembered = marker.as_ref().and_then(|marker| marker.real_api.clone());
        let real = match options.real_api.clone().or(remembered) {
            Some(api) => Some(reach(api)?),
            None => None,
        };
        let (shape, places, sockets) = match marker {
            Some(Marker { shape, places, .. }) => {
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
            let kubernetes = if real.is_some() {
                Kubernetes::empty(&world, shape.seed)
            } else {
                Kubernetes::new(&world, shape.seed, &options.workloads)?
            };
            (world, Schedule::default(), kubernetes)
        };
        // The nodes kept running while the simulator was stopped, and time never goes back.
        let now: Time = world.now().max(wall);
        world.advance(now);
        for planned in &options.faults {
            schedule.add(&world, now, planned)?;
        }
        match &real {
            Some(place) => create_objects(place, &options.workloads)?,
            None => kubernetes.create_workloads(&options.workloads)?,
        }
        let servers = servers(&spec, &places, &authority, wall)?;
        let gates = gates(&spec, &places, &kubernetes_authority, wall)?;
        let url = format!("https://{}", places.endpoint);
        let kubeconfig = kubeconfig::admin(&shape.name, &url, &kubernetes_authority, wall)?;
        world.set_kubeconfig(kubeconfig::archive(&kubeconfig));
        let admin = Identity::new("os:admin", wall);
        let talosconfig = mint(&shape, &places, &authority, &admin)?;
        if let Some(store) = store {
            let real_api = real.as_ref().map(|place| place.api().clone());
            let (shape, places) = (shape.clone(), places.clone());
            store.set_marker(&Marker { shape, places, real_api })?;
            store.set_authority(authority.pair())?;
            store.set_kubernetes_authority(kubernetes_authority.pair())?;
            store.set_talosconfig(&talosconfig)?;
            store.set_kubeconfig(&kubeconfig)?;
        }
        let kubelets = real.map(|place| remote::Start {
            machines: kubernetes.machines(&world),
            place,
            seed: shape.seed,
            speed: options.speed,
        });
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
            kubelets,
        })
    }
}

/// TLS for every node's apid.
fn servers(
    spec: &ClusterSpec,
    places: &Places,
    authority: &Authority,
    wall: Time,
) -> Result<Vec<Arc<rustls::ServerConfig>>, StartError> {
    let server = |(node, apid): (&NodeSpec, &SocketAddr)| {
        let mut addresses = node.addresses.clone();
        addresses.push(apid.ip());
        let pair = authority.server(&node.hostname, &[], &addresses, wall)?;
        Ok(tls::server_config(&authority.pair().certificate, &pair)?)
    };
    spec.nodes.iter().zip(&places.apid).map(server).collect()
}

/// Checks that a real Kubernetes API is there and accepts the token.
fn reach(api: RealApi) -> Result<Arc<Endpoint>, StartError> {
    // The folder stores the path, and may be used from another directory.
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    let (token_file, ca_file) = (absolute(api.token_file), absolute(api.ca_file));
    let place = Arc::new(Endpoint::open(&RealApi { url: api.url, token_file, ca_file })?);
    Handle::current().block_on(remote::check(&place))?;
    Ok(place)
}

/// Creates the requested objects, and the class of the volumes that are made here.
fn create_objects(
    place: &Arc<Endpoint>,
    workloads: &[serde_json::Value],
) -> Result<(), StartError> {
    let objects = std::iter::once(remote::storage()).chain(workloads.iter().cloned());
    let creating = remote::create_objects(place, objects.collect());
    Handle::current().block_on(creating).map_err(|error| match error {
        BootstrapError::Remote(error) => error.into(),
        BootstrapError::Object(why) => WorkloadError::new(why).into(),
    })
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
    spec.discovery = options.discovery;
    spec.storage_network = options.storage_network;
    spec.own_times = options.own_times.then_some(shape.seed);
    let Machines { platform, secure_boot, install_image } = &options.machines;
    for (node, address) in spec.nodes.iter_mut().zip(&places.nodes) {
        node.addresses = vec![*address];
        node.platform.clone_from(platform);
        node.secure_boot = *secure_boot;
        node.install_image.clone_from(install_image);
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
