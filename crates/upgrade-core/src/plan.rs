//! The plan: immutable, serialisable, content-hashed, free of clock readings.
//!
//! A plan is a list of hops (one product, one version step), a hop a list of
//! waves, a wave a list of lanes, a lane the steps of one node in order. It
//! leaves the executor no choice but *when*, and that is for `decide` to say.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::io::BufWriter;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::image::ImageRef;
use crate::manifests::ObjectKey;
use crate::policy::Policy;
use crate::product::Product;
use crate::snapshot::{Component, NodeName};
use crate::step::{Action, StepId, StepName};
use crate::version::{Minor, Version};

/// The version of the plan's JSON form. It grows when a reader of the old form
/// would misunderstand the new one.
pub const PLAN_FORMAT: u32 = 1;

/// The SHA-256 of a plan's JSON form, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PlanHash(String);

impl PlanHash {
    /// The first twelve digits, enough for people.
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }
}

impl Display for PlanHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A version of each product; `None` where one is unknown or left alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// Talos.
    pub talos: Option<Version>,
    /// Kubernetes.
    pub kubernetes: Option<Version>,
}

/// One version step of one product.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "product", rename_all = "kebab-case")]
pub enum Change {
    /// The operating system: reboots every node it touches.
    Talos {
        /// The lowest version among the nodes that take part.
        from: Version,
        /// The version that they end on.
        to: Version,
    },
    /// Kubernetes: no reboots.
    Kubernetes {
        /// The lowest version among the components.
        from: Version,
        /// The version all components end on.
        to: Version,
    },
}

impl Change {
    /// The version moved away from.
    pub fn from(&self) -> &Version {
        match self {
            Self::Talos { from, .. } | Self::Kubernetes { from, .. } => from,
        }
    }

    /// The version moved to.
    pub fn to(&self) -> &Version {
        match self {
            Self::Talos { to, .. } | Self::Kubernetes { to, .. } => to,
        }
    }

    /// What moves.
    pub const fn product(&self) -> Product {
        match self {
            Self::Talos { .. } => Product::Talos,
            Self::Kubernetes { .. } => Product::Kubernetes,
        }
    }
}

/// Which of Talos's two upgrade calls a node understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpgradeApi {
    /// Up to 1.12: one call installs and reboots.
    Legacy,
    /// From 1.13: pull, install and reboot are calls of their own.
    Lifecycle,
}

impl UpgradeApi {
    /// The one that a node running `version` has. The newer call came after
    /// the second alpha of 1.13; talosctl draws the line in the same place.
    pub fn of(version: &Version) -> Self {
        let last_without: Version = "1.13.0-alpha.2".parse().expect("a version");
        if *version > last_without { Self::Lifecycle } else { Self::Legacy }
    }
}

/// What moves a node to another Talos.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpgradeMethod {
    /// One call of the Talos API installs and reboots.
    Legacy,
    /// Calls of the Talos API: pull, install, reboot.
    Lifecycle,
    /// Something outside upgrades the node or replaces it. Only where the intent asks for it.
    External,
}

impl From<UpgradeApi> for UpgradeMethod {
    fn from(api: UpgradeApi) -> Self {
        match api {
            UpgradeApi::Legacy => Self::Legacy,
            UpgradeApi::Lifecycle => Self::Lifecycle,
        }
    }
}

/// How a node is rebooted into what was installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RebootMode {
    /// By kexec, where the node can.
    #[default]
    Default,
    /// Through its firmware.
    Powercycle,
}

impl RebootMode {
    /// Plans of before there was a choice keep their hash.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
    fn is_default(&self) -> bool {
        *self == Self::Default
    }
}

/// What an operating system lane leaves its node with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TalosTarget {
    /// The version expected beforehand.
    pub from: Version,
    /// What moves the node. Named in plans as when it was always a call.
    #[serde(rename = "api")]
    pub method: UpgradeMethod,
    /// The installer.
    pub installer: ImageRef,
    /// The schematic expected afterwards, where there is one (rule 4).
    pub schematic: Option<String>,
    /// The names of the extensions expected afterwards (rule 4); `None` where
    /// the user asked for another installer, whose content is not known here.
    pub extensions: Option<Vec<String>>,
    /// What a rollback would install.
    pub previous: Option<ImageRef>,
    /// On a rollback to a lower minor of etcd, that minor: etcd does not start on
    /// data of a newer one, so the node does not boot while there is any (rule 13).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<Minor>,
    /// Whether the legacy call skips the node's own checks of etcd, which
    /// refuse one of two members whatever the user accepts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// How it is rebooted.
    #[serde(default, skip_serializing_if = "RebootMode::is_default")]
    pub reboot: RebootMode,
    /// The platform expected afterwards, which is the one before (rule 4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// Whether Secure Boot is on afterwards, as it was before (rule 4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secure_boot: Option<bool>,
}

/// What a lane leaves its node with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Target {
    /// Nothing changes; the cluster as a whole is looked after.
    Cluster,
    /// etcd's data is of this minor.
    Etcd {
        /// Which.
        minor: Minor,
    },
    /// Images are present.
    Pulled {
        /// Which.
        images: Vec<ImageRef>,
    },
    /// Another Talos. Boxed: it is far larger than the others.
    Talos(Box<TalosTarget>),
    /// Other Kubernetes images.
    Kubernetes {
        /// What each component runs afterwards.
        images: BTreeMap<Component, ImageRef>,
        /// What it ran before; what a rollback returns to.
        previous: BTreeMap<Component, ImageRef>,
    },
}

/// The steps of one node, or of the cluster, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// The node; `None` for the cluster as a whole.
    pub node: Option<NodeName>,
    /// The worker pool whose limit counts for it, where it has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// What is different afterwards.
    pub target: Target,
    /// What is done.
    pub steps: Vec<StepName>,
}

impl Lane {
    /// What is done, without the labels that tell steps of one action apart.
    pub fn actions(&self) -> impl DoubleEndedIterator<Item = Action> + Clone {
        self.steps.iter().map(|name| name.action)
    }

    /// Whether this is done, under whatever label.
    pub fn has(&self, action: Action) -> bool {
        self.actions().any(|own| own == action)
    }

    /// One of its steps, by its name within the plan.
    pub fn step_id(&self, hop: u32, name: &StepName) -> StepId {
        StepId::new(hop, self.node.clone(), name.clone())
    }
}

/// What kind of wave it is, and so which rules hold for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Pulls, preflight and snapshot: everywhere at once, nothing disrupted.
    Prepare,
    /// One control plane (rule 1).
    ControlPlane,
    /// Workers, within their limits (rule 6).
    Workers,
    /// The cluster as a whole.
    Cluster,
}

/// Lanes that may run side by side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wave {
    /// From 1, within the hop.
    pub number: u32,
    /// What kind it is.
    pub group: Group,
    /// The lanes.
    pub lanes: Vec<Lane>,
}

/// One version step of one product, over all nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// From 1, within the plan.
    pub number: u32,
    /// What moves.
    pub change: Change,
    /// What runs when the hop is done.
    pub versions: Versions,
    /// How many workers may be away at once (rule 6), as a number.
    pub limit: usize,
    /// The same for pools that have their own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pool_limits: BTreeMap<String, usize>,
    /// The waves, in order.
    pub waves: Vec<Wave>,
}

impl Hop {
    /// Every lane, wave by wave.
    pub fn lanes(&self) -> impl Iterator<Item = &Lane> + Clone {
        self.waves.iter().flat_map(|wave| &wave.lanes)
    }

    /// The limit that counts for a worker of this pool, and the pool's name if
    /// the limit is the pool's own.
    pub fn limit_for<'a>(&'a self, pool: Option<&str>) -> (Option<&'a str>, usize) {
        pool.and_then(|pool| self.pool_limits.get_key_value(pool))
            .map_or((None, self.limit), |(pool, limit)| (Some(pool.as_str()), *limit))
    }
}

/// What becomes of one node, where the user asked for something else than for all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTarget {
    /// The Talos that it runs afterwards; `None` where the plan is not about Talos.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub talos: Option<Version>,
    /// Nothing is done to it (rule 12).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hold: bool,
}

/// All that will be done to a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The version of this form.
    pub format: u32,
    /// The cluster.
    pub cluster: String,
    /// The plan that this one replaces, where it replaces one (rule 9).
    pub parent: Option<PlanHash>,
    /// An explicit rollback: health gates do not delay it (rule 12).
    pub rollback: bool,
    /// What runs now, on the nodes that the plan moves.
    pub from: Versions,
    /// What runs afterwards, on all nodes but those in `nodes`.
    pub to: Versions,
    /// The policy it was made under; `decide` takes it from here.
    pub policy: Policy,
    /// Objects that left Talos's manifests, deleted when those are synced.
    /// Nothing else is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prune: Vec<ObjectKey>,
    /// Nodes with an intent of their own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<NodeName, NodeTarget>,
    /// The hops, in order.
    pub hops: Vec<Hop>,
}

impl Plan {
    /// The content hash: the same plan has the same hash everywhere.
    pub fn hash(&self) -> PlanHash {
        let mut writer = BufWriter::with_capacity(1 << 16, HashWriter(Sha256::new()));
        serde_json::to_writer(&mut writer, self).expect("a plan is always JSON");
        let Ok(HashWriter(hasher)) = writer.into_inner() else {
            unreachable!("hashing cannot fail");
        };
        let digest = hasher.finalize();
        let mut text = String::with_capacity(digest.len() * 2);
        for byte in digest {
            let _ = fmt::Write::write_fmt(&mut text, format_args!("{byte:02x}"));
        }
        PlanHash(text)
    }

    /// Whether the user holds this node.
    pub fn holds(&self, node: &NodeName) -> bool {
        self.nodes.get(node).is_some_and(|own| own.hold)
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.hops.is_empty()
    }

    /// Every lane with its hop, in plan order.
    pub fn lanes(&self) -> impl Iterator<Item = (&Hop, &Lane)> + Clone {
        self.hops.iter().flat_map(|hop| hop.lanes().map(move |lane| (hop, lane)))
    }

    /// Every step, in plan order.
    pub fn steps(&self) -> impl Iterator<Item = StepId> {
        self.lanes().flat_map(|(hop, lane)| {
            lane.steps.iter().map(move |name| lane.step_id(hop.number, name))
        })
    }

    /// The lane of a step, and the step's place in it.
    pub fn place_of(&self, step: &StepId) -> Option<(&Lane, usize)> {
        let hop = self.hops.iter().find(|hop| hop.number == step.hop)?;
        let mut lanes = hop.lanes().filter(|lane| lane.node == step.node);
        lanes.find_map(|lane| {
            let place = lane.steps.iter().position(|name| step.is(name))?;
            Some((lane, place))
        })
    }
}

/// Feeds JSON into the hash without holding it: a plan for ten thousand nodes is
/// megabytes of text.
struct HashWriter(Sha256);

impl std::io::Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upgrade_call_follows_the_running_version() {
        for (version, api) in [
            ("1.12.11", UpgradeApi::Legacy),
            ("1.13.0-alpha.2", UpgradeApi::Legacy),
            ("1.13.0-alpha.3", UpgradeApi::Lifecycle),
            ("1.13.0-beta.0", UpgradeApi::Lifecycle),
            ("1.13.0", UpgradeApi::Lifecycle),
            ("1.14.0-alpha.0", UpgradeApi::Lifecycle),
        ] {
            assert_eq!(UpgradeApi::of(&version.parse().unwrap()), api, "{version}");
        }
    }

    #[test]
    fn the_hash_is_of_the_content() {
        let plan = Plan {
            format: PLAN_FORMAT,
            cluster: "prod".to_owned(),
            parent: None,
            rollback: false,
            from: Versions::default(),
            to: Versions::default(),
            policy: Policy::default(),
            prune: vec![],
            nodes: BTreeMap::new(),
            hops: vec![],
        };
        let json = serde_json::to_string(&plan).unwrap();
        let read: Plan = serde_json::from_str(&json).unwrap();
        assert_eq!(read, plan);
        assert_eq!(read.hash(), plan.hash());
        let other = Plan { cluster: "dev".to_owned(), ..plan.clone() };
        assert_ne!(other.hash(), plan.hash());
        assert_eq!(plan.hash().to_string().len(), 64);
        assert_eq!(plan.hash().short().len(), 12);
    }
}
