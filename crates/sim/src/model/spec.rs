//! What a world begins as.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Serialize};
use upgrade_core::catalogue::Catalogue;
use upgrade_core::version::{Minor, Version};

use super::timing::Timings;

/// The schematic of an image without any extension.
pub const EMPTY_SCHEMATIC: &str =
    "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba";

/// A cluster as it is before anything happens to it: installed, bootstrapped
/// and healthy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterSpec {
    /// The cluster's name.
    pub name: String,
    /// Its nodes; the order gives each its [`NodeIndex`](super::NodeIndex).
    pub nodes: Vec<NodeSpec>,
    /// How long things take.
    pub timings: Timings,
    /// Where the times of each node are drawn from, if each has its own: then it
    /// always pulls, installs and boots as fast, whatever happens elsewhere.
    #[serde(default)]
    pub own_times: Option<u64>,
    /// What can be pulled.
    pub registry: Registry,
    /// The URL of the Kubernetes API, as the machine configurations name it.
    pub endpoint: String,
    /// Keys and tokens in the machine configurations. Those left empty are made
    /// up; a door that has a real authority puts it here.
    pub secrets: Secrets,
    /// Whether Talos brings the network between pods, as it does unless told
    /// otherwise, or somebody else does (`cni: none`).
    #[serde(default = "usual")]
    pub flannel: bool,
    /// Whether GRUB boots the nodes, as on machines without UEFI, and not
    /// systemd-boot.
    #[serde(default)]
    pub grub: bool,
    /// Whether every node has an address in a storage network as well, which sorts before
    /// its own and which only the node itself reaches.
    #[serde(default)]
    pub storage_network: bool,
    /// Files that nodes can download, by their address.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Manifests that the configurations of control planes name beside Talos's
    /// own.
    #[serde(default)]
    pub extra_manifests: Vec<ExtraManifest>,
    /// How the nodes find each other.
    #[serde(default)]
    pub discovery: Discovery,
}

/// How nodes find each other. A node is on its own list whenever a registry is
/// configured, reachable or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discovery {
    /// Through the discovery service, as Talos is configured unless told otherwise.
    #[default]
    Service,
    /// The same in an air gap: each node knows itself alone.
    AirGap,
    /// Through Kubernetes (`registries.kubernetes`). Since Kubernetes 1.32 control
    /// planes know control planes, and a worker itself.
    Kubernetes,
    /// Not at all (`discovery.enabled: false`): no node has a list.
    Off,
}

/// A manifest that a machine configuration names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtraManifest {
    /// Its name; for a file that is downloaded, its address.
    pub name: String,
    /// Its text; `None` for a file that is downloaded.
    pub text: Option<String>,
    /// The only node whose configuration names it, by number; `None` for all
    /// control planes.
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
    /// The addresses, the one that apid is reached at first.
    pub addresses: Vec<IpAddr>,
    /// The running version of Talos.
    pub talos: Version,
    /// The version of its Kubernetes components.
    pub kubernetes: Version,
    /// The schematic of the running image; `None` for an image that was not
    /// built by an Image Factory.
    pub schematic: Option<String>,
    /// What the machine is, such as `metal` or `nocloud`; `container` for Talos in a
    /// container.
    #[serde(default = "metal")]
    pub platform: String,
    /// Whether its firmware boots signed images only.
    #[serde(default)]
    pub secure_boot: bool,
    /// The installer of its machine configuration, if it is not the one that fits what
    /// runs.
    #[serde(default)]
    pub install_image: Option<String>,
}

/// What a node is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeRole {
    /// Runs etcd and the control plane of Kubernetes.
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
    /// Rule 14: never what they are.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets(..)")
    }
}

/// What the world's registries hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Registry {
    /// Released versions of Talos: their installers can be pulled.
    pub talos: Vec<Version>,
    /// Released versions of Kubernetes: their components can be pulled.
    pub kubernetes: Vec<Version>,
    /// Schematics that the Image Factory knows, by id.
    pub schematics: BTreeMap<String, Schematic>,
    /// References beyond those, such as those of a mirror: pulled as they are,
    /// and no installers.
    pub others: Vec<String>,
    /// Installers that no Image Factory built, by registry and repository: there is one
    /// of every release of Talos.
    #[serde(default)]
    pub own: BTreeMap<String, OwnInstaller>,
    /// The Image Factory's address.
    #[serde(default = "factory")]
    pub factory: String,
    /// Extensions that go by another name from some release on. Whoever builds an image of
    /// it takes the old name for the new one.
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

/// An installer that somebody built with `imager`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnInstaller {
    /// What it is for.
    pub platform: String,
    /// Whether it is signed for Secure Boot.
    pub secure_boot: bool,
    /// Names of its system extensions.
    pub extensions: Vec<String>,
}

/// What an Image Factory builds into an image.
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
    /// Names of extensions as an image of this release has them.
    pub(super) fn named_in(&self, version: &Version, names: &[String]) -> Vec<String> {
        let renamed = |name: &String| {
            let mut all = self.renamed.iter();
            all.find(|it| it.from == *name && it.since <= version.minor())
        };
        names.iter().map(|it| renamed(it).map_or(it, |new| &new.to).clone()).collect()
    }

    /// Whether a Talos release exists: one that is listed, or an earlier patch
    /// of its line.
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
    /// A cluster of so many nodes, named `cp-1`, ..., `worker-1`, ..., with
    /// addresses that follow `10.5.0.1`, all on these versions and with the
    /// empty schematic.
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

    /// Where a node is in the storage network, if there is one.
    pub fn storage_address(&self, number: usize) -> Option<IpAddr> {
        self.storage_network.then(|| address_after(Ipv4Addr::new(10, 4, 0, 2), number))
    }
}

fn address_after(base: Ipv4Addr, number: usize) -> IpAddr {
    let offset = u32::try_from(number).unwrap_or(u32::MAX);
    IpAddr::V4(Ipv4Addr::from_bits(base.to_bits().saturating_add(offset)))
}
