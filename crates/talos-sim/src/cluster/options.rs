//! The shape of a cluster, and the options to start one.

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

/// The shape of a cluster. A folder stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Its name.
    pub name: String,
    /// How many control planes.
    pub control_planes: usize,
    /// How many workers.
    pub workers: usize,
    /// The Talos version that all nodes run at first.
    pub talos: Version,
    /// The Kubernetes version at first.
    pub kubernetes: Version,
    /// The random seed: the same seed gives the same run.
    pub seed: u64,
}

impl Default for Shape {
    /// Three control planes and two workers on the newest releases that work together.
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

/// The machines of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machines {
    /// The platform, such as `metal` or `nocloud`.
    pub platform: String,
    /// Whether the firmware boots signed images only.
    pub secure_boot: bool,
    /// The installer in the machine configurations, if it is not the one that fits.
    pub install_image: Option<String>,
}

/// Parses the name of a platform.
pub fn platform(text: &str) -> Result<String, String> {
    if PLATFORMS.contains(&text) || [CONTAINER, EQUINIX].contains(&text) {
        return Ok(text.to_owned());
    }
    let known = PLATFORMS.join(", ");
    Err(format!("`{text}` is not a Talos platform: use one of {known}, {EQUINIX}, {CONTAINER}"))
}

impl Default for Machines {
    fn default() -> Self {
        Self { platform: "metal".to_owned(), secure_boot: false, install_image: None }
    }
}

/// How a cluster is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// The shape. A folder that already holds a cluster must hold this one; `None` takes the
    /// existing one, or the default.
    pub shape: Option<Shape>,
    /// Where its state is kept; in memory only if `None`.
    pub folder: Option<PathBuf>,
    /// Virtual seconds per real second.
    pub speed: f64,
    /// How long things take, in a new cluster.
    pub timings: Timings,
    /// Whether each node of a new cluster has its own durations, derived from the seed: then two
    /// programs that upgrade the same cluster see the same nodes, in whatever order they upgrade
    /// them.
    pub own_times: bool,
    /// What the machines of a new cluster are.
    pub machines: Machines,
    /// How node addresses are chosen in a new cluster.
    pub layout: Layout,
    /// The block of addresses of a new cluster; `None` for one derived from the folder.
    pub subnet: Option<Ipv4Addr>,
    /// Faults to inject.
    pub faults: Vec<Planned>,
    /// Objects that the Kubernetes API has from the start; existing ones stay unchanged.
    pub workloads: Vec<serde_json::Value>,
    /// The real Kubernetes API that the nodes register with, instead of the embedded one. A folder
    /// stores it.
    pub real_api: Option<RealApi>,
    /// How the nodes of a new cluster find each other.
    pub discovery: Discovery,
    /// Whether the nodes of a new cluster also have addresses in a storage network, which sort
    /// first and which no other node can reach.
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
