//! One node: everything it has on disk and in memory.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use upgrade_core::version::Version;

use super::World;
use super::api::NodeIndex;
use super::config::Config;
use super::cosi::Store;
use super::events::Ring;
use super::fault::{Fault, FaultKind};
use super::images::StoredImage;
use super::installer::Install;
use super::kubernetes::Kubernetes;
use super::pull::Pull;
use super::readiness::Condition;
use super::sequence::Sequence;
use super::services::{self, Service, State};
use super::slots::Slots;
use super::spec::NodeRole;
use super::time::Time;

/// The stage of a machine's life, with the numbers of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Stage {
    Booting = 1,
    Running = 4,
    Rebooting = 5,
    ShuttingDown = 6,
    Upgrading = 8,
}

impl Stage {
    /// The name in the resource's YAML.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Booting => "booting",
            Self::Running => "running",
            Self::Rebooting => "rebooting",
            Self::ShuttingDown => "shutting down",
            Self::Upgrading => "upgrading",
        }
    }
}

/// Whether the machine runs at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Power {
    On,
    /// Between shutdown and the next boot.
    Down,
    /// It stays down until it is powered on.
    Off,
}

/// A node.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent state")]
pub(super) struct Node {
    pub(super) hostname: String,
    pub(super) role: NodeRole,
    pub(super) addresses: Vec<std::net::IpAddr>,
    /// Where discovery shows it, if that is not its own address.
    #[serde(default)]
    pub(super) shown_at: Option<Vec<std::net::IpAddr>>,
    /// Its id in the cluster.
    pub(super) identity: String,
    pub(super) slots: Slots,
    /// Whether it boots with GRUB, which does not show the next entry; otherwise with systemd-boot.
    #[serde(default)]
    pub(super) grub: bool,
    /// The machine's real platform; Talos may assume another one.
    #[serde(default = "super::spec::metal")]
    pub(super) platform: String,
    /// Whether the firmware boots signed images only.
    #[serde(default)]
    pub(super) secure_boot: bool,
    pub(super) power: Power,
    pub(super) stage: Stage,
    /// Changes with every boot, like the kernel's boot ID.
    pub(super) boot_id: String,
    /// Counts boots; scheduled events carry the number.
    pub(super) boot: u64,
    pub(super) booted: Time,
    /// Whether time and network are up.
    pub(super) network: bool,
    pub(super) sequence: Option<Sequence>,
    pub(super) services: Vec<Service>,
    pub(super) config: Config,
    pub(super) kubernetes: Kubernetes,
    pub(super) images: Vec<StoredImage>,
    pub(super) install: Option<Install>,
    /// A staged upgrade, installed first at the next boot: the image's reference.
    pub(super) staged_upgrade: Option<String>,
    pub(super) events: Ring,
    /// The last published machine status.
    pub(super) last_status: Option<(Stage, Vec<(String, String)>)>,
    /// Counts connections to apid.
    pub(super) connections: u32,
    /// Counts requests to its API server.
    #[serde(default)]
    pub(super) api_requests: u32,
    /// Manifests that were downloaded since its boot, by URL.
    #[serde(default)]
    pub(super) downloads: BTreeMap<String, String>,
    /// Whether it has left the cluster for good.
    #[serde(default)]
    pub(super) gone: bool,
    /// Whether it last went down by kexec, rather than through its firmware.
    #[serde(default)]
    pub(super) kexec: bool,
    /// A condition that is unmet since its last boot, while a fault lasts.
    #[serde(default)]
    pub(super) unmet_since_boot: Option<Condition>,
    /// Since when discovery has no news from it.
    #[serde(default)]
    pub(super) unheard: Option<Time>,
    /// How often an upgrade has wiped its data.
    #[serde(default)]
    pub(super) wiped: u64,
    /// How many installers the lifecycle API has started.
    #[serde(default)]
    pub(super) installs: u64,
    /// Pulls end with the connections of their callers.
    #[serde(skip)]
    pub(super) pulls: Vec<Pull>,
    /// Resources live in memory and are rebuilt on demand.
    #[serde(skip)]
    pub(super) cosi: Store,
}

impl Node {
    pub(super) fn version(&self) -> &Version {
        &self.slots.running().version
    }

    /// The minor of the running Talos 1.
    pub(super) fn minor(&self) -> u64 {
        let first = Version::new(1, 0, 0).minor();
        first.steps_to(self.version().minor()).unwrap_or(0)
    }

    pub(super) fn is_control_plane(&self) -> bool {
        self.role == NodeRole::ControlPlane
    }

    pub(super) fn service(&self, id: &str) -> Option<&Service> {
        self.services
            .binary_search_by(|service| service.id.as_ref().cmp(id))
            .ok()
            .map(|place| &self.services[place])
    }

    pub(super) fn service_runs(&self, id: &str) -> bool {
        self.service(id).is_some_and(|service| service.state == State::Running)
    }

    pub(super) fn service_is_healthy(&self, id: &str) -> bool {
        self.service(id)
            .is_some_and(|service| service.state == State::Running && service.healthy == Some(true))
    }
}

impl World {
    /// The node's own clock.
    pub(super) fn node_time(&self, node: NodeIndex) -> Time {
        match self.fault(node, FaultKind::ClockSkew) {
            Some(Fault::ClockSkew { by, ahead: true }) => self.now.plus(*by),
            Some(Fault::ClockSkew { by, ahead: false }) => self.now.minus(*by),
            _ => self.now,
        }
    }

    /// The unmet conditions of a machine, in the order of Talos's checks.
    pub(super) fn unmet_conditions(&self, node: NodeIndex) -> Vec<(&'static str, String)> {
        let here = &self.nodes[node.0];
        if !matches!(here.stage, Stage::Booting | Stage::Running) {
            return Vec::new();
        }
        let mut unmet = Vec::new();
        let kept = |condition| self.is_kept_unmet(node, condition);
        let skewed = self.fault(node, FaultKind::ClockSkew).is_some();
        if !here.network || skewed || kept(Condition::Time) {
            unmet.push(("time", "time is not synced".to_owned()));
        }
        if !here.network {
            unmet.push(("network", "waiting on: address, connectivity".to_owned()));
        } else if kept(Condition::Network) {
            unmet.push(("network", "waiting on: connectivity".to_owned()));
        }
        let mut problems: Vec<String> = Vec::new();
        if kept(Condition::Services) {
            problems.push("ext-hello-world not healthy".to_owned());
        }
        for service in &here.services {
            if service.state == State::Running && service.healthy == Some(false) {
                problems.push(format!("{} not healthy", service.id));
            }
        }
        for required in
            ["apid", "machined"].iter().chain(services::late(here.role)).filter(|id| **id != "cri")
        {
            if !here.service_runs(required) {
                problems.push(format!("{required} not running"));
            } else if here.service(required).is_some_and(|service| service.healthy.is_none()) {
                problems.push(format!("{required} not healthy"));
            }
        }
        if !problems.is_empty() {
            unmet.push(("services", problems.join(", ")));
        }
        let pods = self.pod_problems(node);
        if !pods.is_empty() {
            unmet.push(("staticPods", pods.join(", ")));
        }
        if !here.kubernetes.registered {
            let reason = format!("node {:?} status is not available yet", here.hostname);
            unmet.push(("nodeReady", reason));
        } else if !self.node_ready(node) {
            unmet.push(("nodeReady", format!("node {:?} is not ready", here.hostname)));
        }
        unmet
    }
}
