//! What a cluster is made of, and how one is started.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use upgrade_core::catalogue::Catalogue;
use upgrade_core::matrix::Matrix;
use upgrade_core::version::Version;

use crate::address::Layout;
use crate::kubernetes::remote::RealApi;
use crate::model::platform::{CONTAINER, EQUINIX, PLATFORMS};
use crate::model::{Discovery, Timings};
use crate::schedule::Planned;

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

/// What the machines of a cluster are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machines {
    /// The platform, such as `metal` or `nocloud`.
    pub platform: String,
    /// Whether the firmware boots signed images only.
    pub secure_boot: bool,
    /// The installer of the machine configurations, if it is not the one that fits.
    pub install_image: Option<String>,
}

/// Reads the name of a platform.
pub fn platform(text: &str) -> Result<String, String> {
    if PLATFORMS.contains(&text) || [CONTAINER, EQUINIX].contains(&text) {
        return Ok(text.to_owned());
    }
    let known = PLATFORMS.join(", ");
    Err(format!("`{text}` is no platform of Talos: write one of {known}, {EQUINIX}, {CONTAINER}"))
}

impl Default for Machines {
    fn default() -> Self {
        Self { platform: "metal".to_owned(), secure_boot: false, install_image: None }
    }
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
    /// Whether each node of a new cluster has times of its own, from the seed:
    /// then two who upgrade the same cluster meet the same nodes, in whatever
    /// order they go.
    pub own_times: bool,
    /// What the machines of a new cluster are.
    pub machines: Machines,
    /// How nodes are told apart, in a new cluster.
    pub layout: Layout,
    /// The block of addresses of a new cluster, if it is to be a certain one.
    pub subnet: Option<Ipv4Addr>,
    /// What goes wrong.
    pub faults: Vec<Planned>,
    /// Objects that the Kubernetes API has from the start; those that are there
    /// already stay as they are.
    pub workloads: Vec<serde_json::Value>,
    /// The real Kubernetes API that the nodes register with, instead of one of
    /// their own. A folder remembers it.
    pub real_api: Option<RealApi>,
    /// How the nodes of a new cluster find each other.
    pub discovery: Discovery,
    /// Whether the nodes of a new cluster have addresses in a storage network as well,
    /// which sort first and which nobody else reaches.
    pub storage_network: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            shape: None,
            folder: None,
            speed: 1.0,
            timings: Timings::default(),
            own_times: false,
            machines: Machines::default(),
            layout: Layout::Auto,
            subnet: None,
            faults: Vec::new(),
            workloads: Vec::new(),
            real_api: None,
            discovery: Discovery::default(),
            storage_network: false,
        }
    }
}
