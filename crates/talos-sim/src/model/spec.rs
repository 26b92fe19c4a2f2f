//! The initial state of a world.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Serialize};
use upgrade_core::catalogue::Catalogue;
use upgrade_core::version::{Minor, Version};

use super::timing::Timings;

/// The schematic of an image without any extension.
pub const EMPTY_SCHEMATIC: &str =
    "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba";

/// The initial state of a cluster: installed, bootstrapped and healthy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterSpec {
    /// The cluster's name.
    pub name: String,
    /// Its nodes; the order gives each its [`NodeIndex`](super::NodeIndex).
    pub nodes: Vec<NodeSpec>,
    /// How long things take.
    pub timings: Timings,
    /// The seed of each node's own durations, if set: a node then always pulls, installs and boots
    /// in the same time, whatever happens elsewhere.
    #[serde(default)]
    pub own_times: Option<u64>,
    /// The images that can be pulled.
    pub registry: Registry,
    /// The URL of the Kubernetes API, as the machine configurations name it.
    pub endpoint: String,
    /// Keys and tokens in the machine configurations. Empty ones are generated; an adapter with a
    /// real authority sets it here.
    pub secrets: Secrets,
    /// Whether Talos installs flannel as the pod network, the default, or the user installs another
    /// one (`cni: none`).
    #[serde(default = "usual")]
    pub flannel: bool,
    /// Whether the nodes boot with GRUB, as on machines without UEFI, instead of systemd-boot.
    #[serde(default)]
    pub grub: bool,
    /// Whether every node also has an address in a storage network, which sorts before its own and
    /// which only the node itself can reach.
    #[serde(default)]
    pub storage_network: bool,
    /// Files that nodes can download, by URL.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Manifests in the configurations of control planes, beside Talos's own.
    #[serde(default)]
    pub extra_manifests: Vec<ExtraManifest>,
    /// How the nodes find each other.
    #[serde(default)]
    pub discovery: Discovery,
}

/// How nodes find each other. A node is on its own list whenever a registry is configured,
/// reachable or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discovery {
    /// Through the discovery service, the default in Talos.
    #[default]
    Service,
    /// The same in an air gap: each node knows only itself.
    AirGap,
    /// Through Kubernetes (`registries.kubernetes`). Since Kubernetes 1.32 control planes know only
    /// control planes, and a worker only itself.
    Kubernetes,
    /// Disabled (`discovery.enabled: false`): no node has a list.
    Off,
}

/// A manifest in a machine configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtraManifest {
    /// Its name; for a downloaded file, its URL.
    pub name: String,
    /// Its text; `None` for a downloaded file.
    pub text: Option<String>,
    /// The only node whose configuration has it, by number; `None` for all control planes.
    pub only: Option<usize>,
}

fn usual() -> bool {
    true
}

pub(super) fn metal() -> String {
    super::platform::METAL.to_owned()
}

/// One node of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeSpec {
    /// The host name, also the name of the Kubernetes node.
    pub hostname: String,
    /// Control plane or worker.
    pub role: NodeRole,
    /// The addresses, the one of apid first.
    pub addresses: Vec<IpAddr>,
    /// The running version of Talos.
    pub talos: Version,
    /// The version of its Kubernetes components.
    pub kubernetes: Version,
    /// The schematic of the running image; `None` for an image that was not
    /// built by an Image Factory.
    pub schematic: Option<String>,
    /// The machine's platform, such as `metal` or `nocloud`; `container` for Talos in a container.
    #[serde(default = "metal")]
    pub platform: String,
    /// Whether its firmware boots signed images only.
    #[serde(default)]
    pub secure_boot: bool,
    /// The installer in its machine configuration, if it is not the one that fits the running
    /// system.
    #[serde(default)]
    pub install_image: Option<String>,
}

/// The role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeRole {
    /// Runs etcd and the Kubernetes control plane.
    ControlPlane,
    /// Runs workloads.
    Worker,
}

/// Keys and tokens: base64 of PEM for certificates and keys.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are those of the machine configuration")]
pub struct Secrets {
    pub machine_ca_crt: String,
    pub machine_ca_key: String,
    pub machine_token: String,
    pub cluster_ca_crt: String,
    pub cluster_ca_key: String,
    pub etcd_ca_crt: String,
    pub etcd_ca_key: String,
    pub cluster_token: String,
}

impl std::fmt::Debug for Secrets {
    /// Rule 14: without the values.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets(..)")
    }
}

/// The content of the world's registries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Registry {
    /// Released versions of Talos: their installers can be pulled.
    pub talos: Vec<Version>,
    /// Released versions of Kubernetes: their components can be pulled.
    pub kubernetes: Vec<Version>,
    /// Schematics that the Image Factory knows, by id.
    pub schematics: BTreeMap<String, Schematic>,
    /// Other references, such as those of a mirror: pulled as they are, and not installers.
    pub others: Vec<String>,
    /// Installers that were not built by an Image Factory, by registry and repository: there is one
    /// for every Talos release.
    #[serde(default)]
    pub own: BTreeMap<String, OwnInstaller>,
    /// The Image Factory's address.
    #[serde(default = "factory")]
    pub factory: String,
    /// Extensions that were renamed in some release. An image built from that release on has the
    /// new name instead of the old one.
    #[serde(default)]
    pub renamed: Vec<Renamed>,
}

/// An extension that was renamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renamed {
    /// Its old name, such as `siderolabs/i915-ucode`.
    pub from: String,
    /// Its new name.
    pub to: String,
    /// The first line of Talos that has it under the new name.
    pub since: Minor,
}

fn factory() -> String {
    "https://factory.talos.dev".to_owned()
}

/// An installer that a user built with `imager`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnInstaller {
    /// Its platform.
    pub platform: String,
    /// Whether it is signed for Secure Boot.
    pub secure_boot: bool,
    /// Names of its system extensions.
    pub extensions: Vec<String>,
}

/// The input of an image that an Image Factory builds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schematic {
    /// The schematic itself, in its canonical form.
    pub yaml: String,
    /// Names of its system extensions, such as `siderolabs/qemu-guest-agent`.
    pub extensions: Vec<String>,
}

impl Default for Registry {
    /// The releases of the catalogue, and the empty schematic.
    fn default() -> Self {
        let Catalogue { talos, kubernetes, .. } = Catalogue::builtin();
        let empty = Schematic { yaml: "customization: {}\n".to_owned(), extensions: Vec::new() };
        Self {
            talos,
            kubernetes,
            schematics: BTreeMap::from([(EMPTY_SCHEMATIC.to_owned(), empty)]),
            others: Vec::new(),
            own: BTreeMap::new(),
            factory: factory(),
            renamed: Vec::new(),
        }
    }
}

impl Registry {
    /// The names of extensions in an image of this release.
    pub(super) fn named_in(&self, version: &Version, names: &[String]) -> Vec<String> {
        let renamed = |name: &String| {
            let mut all = self.renamed.iter();
            all.find(|it| it.from == *name && it.since <= version.minor())
        };
        names.iter().map(|it| renamed(it).map_or(it, |new| &new.to).clone()).collect()
    }

    /// Whether a Talos release exists: a listed one, or an earlier patch of its line.
    pub fn has_talos(&self, version: &Version) -> bool {
        has(&self.talos, version)
    }

    /// Whether a Kubernetes release exists, by the same rule.
    pub fn has_kubernetes(&self, version: &Version) -> bool {
        has(&self.kubernetes, version)
    }
}

fn has(versions: &[Version], version: &Version) -> bool {
    let line: Minor = version.minor();
    versions.iter().any(|known| known == version || (known.minor() == line && version < known))
}

impl ClusterSpec {
    /// A cluster of this many nodes, named `cp-1`, ..., `worker-1`, ..., with addresses after
    /// `10.5.0.1`, all on these versions and with the empty schematic.
    pub fn new(
        control_planes: usize,
        workers: usize,
        talos: &Version,
        kubernetes: &Version,
    ) -> Self {
        let node = |hostname: String, role, number: usize| NodeSpec {
            hostname,
            role,
            addresses: vec![address_after(Ipv4Addr::new(10, 5, 0, 1), number)],
            talos: talos.clone(),
            kubernetes: kubernetes.clone(),
            schematic: Some(EMPTY_SCHEMATIC.to_owned()),
            platform: metal(),
            secure_boot: false,
            install_image: None,
        };
        let nodes = (1..=control_planes)
            .map(|n| node(format!("cp-{n}"), NodeRole::ControlPlane, n))
            .chain(
                (1..=workers)
                    .map(|n| node(format!("worker-{n}"), NodeRole::Worker, control_planes + n)),
            )
            .collect();
        let mut registry = Registry::default();
        if !registry.has_talos(talos) {
            registry.talos.push(talos.clone());
        }
        if !registry.has_kubernetes(kubernetes) {
            registry.kubernetes.push(kubernetes.clone());
        }
        Self {
            name: "sim".to_owned(),
            nodes,
            timings: Timings::default(),
            own_times: None,
            registry,
            endpoint: "https://10.5.0.2:6443".to_owned(),
            secrets: Secrets::default(),
            flannel: usual(),
            grub: false,
            files: BTreeMap::new(),
            extra_manifests: Vec::new(),
            discovery: Discovery::default(),
            storage_network: false,
        }
    }

    /// The address of a node in the storage network, if there is one.
    pub fn storage_address(&self, number: usize) -> Option<IpAddr> {
        self.storage_network.then(|| address_after(Ipv4Addr::new(10, 4, 0, 2), number))
    }
}

fn address_after(base: Ipv4Addr, number: usize) -> IpAddr {
    let offset = u32::try_from(number).unwrap_or(u32::MAX);
    IpAddr::V4(Ipv4Addr::from_bits(base.to_bits().saturating_add(offset)))
}
