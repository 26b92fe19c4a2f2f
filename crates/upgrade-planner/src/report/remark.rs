//! Warnings, which deserve a check before the run starts, and notes.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use serde::Serialize;
use upgrade_core::advice::{Advice, Permission};
use upgrade_core::image::ImageRef;
use upgrade_core::manifests::ObjectKey;
use upgrade_core::readiness::{self, UnmetCondition};
use upgrade_core::snapshot::NodeName;
use upgrade_core::text;
use upgrade_core::version::{Minor, Version};
use upgrade_core::workload::PodName;

use super::nodes::{mixed, named};
use super::{Constraint, Product};

/// What deserves a check before the run starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum Warning {
    /// Two Talos minors at once.
    SkipsMinor {
        /// Before.
        from: Version,
        /// After.
        to: Version,
    },
    /// The newest patch of the running line is not passed.
    SkipsPatch {
        /// Before.
        from: Version,
        /// The newest patch of its line.
        newest: Version,
        /// After.
        to: Version,
    },
    /// The legacy call is told to skip the node's own checks of etcd, which refuse
    /// one of two members.
    ChecksSkipped {
        /// On which node.
        node: NodeName,
    },
    /// What runs now is outside the matrix.
    StartsUnsupported {
        /// The constraint it breaks.
        #[serde(flatten)]
        constraint: Constraint,
    },
    /// Kubernetes' version was not given, so the pairs were not checked.
    PairsUnchecked {
        /// The product whose version is missing.
        missing: Product,
    },
    /// A prerelease as target.
    Prerelease {
        /// Of what.
        product: Product,
        /// Which.
        version: Version,
    },
    /// A line that was not released when this program was built.
    Unreleased {
        /// Which.
        talos: Version,
    },
    /// A release with a known fault.
    Broken {
        /// Which.
        talos: Version,
        /// The fault.
        why: String,
    },
    /// The API is unavailable while a control plane reboots, with consent.
    Outage {
        /// How many control planes there are.
        control_planes: usize,
    },
    /// etcd is not healthy; a rollback waits for it, and for nothing else (rule 1).
    EtcdNotWell {
        /// What is wrong.
        why: String,
    },
    /// An even number of control planes tolerates no more failures than one less.
    EvenControlPlanes {
        /// How many there are.
        control_planes: usize,
    },
    /// A worker is down; it counts against the limit and goes last.
    NodeDown {
        /// Which.
        node: NodeName,
    },
    /// A machine does not meet all of its conditions, and need not afterwards either.
    NotReady {
        /// Which.
        node: NodeName,
        /// What it does not meet.
        unmet: Vec<UnmetCondition>,
    },
    /// No machine is known for a Kubernetes node; a rollback continues without it.
    NoMachine {
        /// Which node.
        node: NodeName,
        /// Why not.
        why: String,
    },
    /// Nodes of Kubernetes that the user lists as foreign.
    Foreign {
        /// Which.
        nodes: Vec<NodeName>,
    },
    /// Nodes that stay on a Talos which is in the way.
    StaysBehind {
        /// Which.
        nodes: Vec<NodeName>,
        /// What they run.
        talos: Version,
    },
    /// Control planes run different Talos versions afterwards, as the intent says.
    MixedControlPlanes {
        /// The versions, and the nodes that run them.
        versions: BTreeMap<Version, Vec<NodeName>>,
        /// The minor that etcd stays on meanwhile, where the members' own differ.
        etcd: Option<Minor>,
    },
    /// Extensions will be gone, with consent.
    ExtensionsDropped {
        /// Where.
        node: NodeName,
        /// Which.
        extensions: Vec<String>,
    },
    /// The schematic that runs differs from the one in the machine config.
    SchematicDiffers {
        /// Where.
        node: NodeName,
        /// The installer of the machine config.
        configured: ImageRef,
        /// The schematic that runs, and is kept.
        running: String,
    },
    /// The installer of the machine config is for another platform or another kind of
    /// boot than what runs.
    PlatformDiffers {
        /// Where.
        node: NodeName,
        /// The installer of the machine config.
        configured: ImageRef,
        /// The platform that runs, and is kept.
        platform: String,
        /// Whether it boots with Secure Boot, which is kept, too.
        secure_boot: bool,
    },
    /// A mirror that may lack the image.
    MirrorUnchecked {
        /// The reference.
        installer: ImageRef,
    },
    /// No newest patch is known for a line that has to be passed.
    PatchUnknown {
        /// Of what.
        product: Product,
        /// The version taken instead.
        version: Version,
    },
    /// Objects that left Talos's manifests are deleted.
    Prunes {
        /// Which.
        objects: Vec<ObjectKey>,
    },
    /// Objects that left Talos's manifests stay: other objects or data would be deleted
    /// with them.
    PruneNeedsConsent {
        /// Which.
        objects: Vec<ObjectKey>,
    },
    /// What left Talos's manifests is not known, so nothing is deleted (rule 10).
    PruneHeld {
        /// Why.
        why: String,
    },
    /// The workloads could not be observed, so no drain was simulated.
    DrainUnchecked {
        /// Why.
        why: String,
    },
    /// A disruption budget that never allows an eviction.
    BudgetNeverAllows {
        /// Namespace and name.
        budget: String,
        /// How many pods it wants healthy.
        wants: i64,
        /// Of how many.
        of: i64,
        /// Those of them that have to leave a node.
        #[serde(flatten)]
        pods: Pods,
    },
    /// A disruption budget that allows no eviction in the current state of its pods.
    BudgetAllowsNone {
        /// Namespace and name.
        budget: String,
        /// How many pods it wants healthy.
        wants: i64,
        /// How many are.
        healthy: i64,
        /// Those of them that have to leave a node.
        #[serde(flatten)]
        pods: Pods,
    },
    /// A pod with several budgets, which Kubernetes does not evict at all.
    SeveralBudgets {
        /// The budgets.
        budgets: Vec<String>,
        /// The pods.
        #[serde(flatten)]
        pods: Pods,
    },
    /// Pods that make the policy halt the drain of their node.
    DrainHalts {
        /// Where.
        node: NodeName,
        /// What is at stake: `no controller` or `emptyDir`.
        stake: String,
        /// The pods.
        #[serde(flatten)]
        pods: Pods,
    },
    /// Pods that are not recreated after their eviction, with consent.
    PodsLost {
        /// Where.
        node: NodeName,
        /// The pods.
        #[serde(flatten)]
        pods: Pods,
    },
    /// Pods that no other node takes, because of selectors and taints.
    NowhereToGo {
        /// Where they are.
        node: NodeName,
        /// The pods.
        #[serde(flatten)]
        pods: Pods,
    },
    /// Pods that no other node has room for while theirs are drained.
    CapacityLacks {
        /// The nodes that are drained at the same time.
        nodes: Vec<NodeName>,
        /// The pods.
        #[serde(flatten)]
        pods: Pods,
    },
}

/// Some pods, by name, and how many there are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pods {
    /// The first of them.
    pub pods: Vec<PodName>,
    /// How many there are.
    pub count: usize,
}

impl Pods {
    /// How many are named; the rest is a number.
    const NAMED: usize = 5;

    /// The first few, and the number of all.
    pub fn new(mut pods: Vec<PodName>) -> Self {
        let count = pods.len();
        pods.sort();
        pods.truncate(Self::NAMED);
        Self { pods, count }
    }
}

impl Display for Pods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::some(&self.pods, self.count))
    }
}

impl Warning {
    /// What the user can do about it, where that is not to be seen from the warning.
    pub fn advice(&self) -> Option<Advice> {
        match self {
            Self::PruneNeedsConsent { .. } => Some(Advice::Allow(Permission::PruneAll)),
            Self::DrainHalts { .. } => Some(Advice::pods_at_stake()),
            _ => None,
        }
    }

    fn about_pruning(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prunes { objects } => write!(
                f,
                "deleted, since they are no longer in the manifests of any control plane: {}",
                text::all(objects)
            ),
            Self::PruneNeedsConsent { objects } => write!(
                f,
                "no longer in the manifests of any control plane, and kept, since other \
                 objects or data would go with them: {}",
                text::all(objects)
            ),
            Self::PruneHeld { why } => write!(
                f,
                "nothing that left the manifests is deleted, since they are not known \
                 completely: {why}"
            ),
            _ => Ok(()),
        }
    }

    fn about_drains(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DrainUnchecked { why } => {
                write!(
                    f,
                    "the workloads of the nodes are unknown, so no drain was simulated: {why}"
                )
            }
            Self::BudgetNeverAllows { budget, wants, of, pods } => write!(
                f,
                "budget {budget} never allows an eviction: it requires {wants} of {of} pods to be \
                 healthy; it blocks {pods}"
            ),
            Self::BudgetAllowsNone { budget, wants, healthy, pods } => write!(
                f,
                "budget {budget} allows no eviction now: it requires {wants} healthy pods and has \
                 {healthy}; it blocks {pods}"
            ),
            Self::SeveralBudgets { budgets, pods } => write!(
                f,
                "Kubernetes does not evict pods that several budgets match ({}): {pods}",
                text::all(budgets)
            ),
            Self::DrainHalts { node, stake, pods } => {
                write!(
                    f,
                    "the drain of {node} will halt, since the policy halts for {stake}: {pods}"
                )
            }
            Self::PodsLost { node, pods } => {
                write!(
                    f,
                    "evicted from {node} and not recreated, since no controller owns them: {pods}"
                )
            }
            Self::NowhereToGo { node, pods } => write!(
                f,
                "no other node takes these pods of {node}, because of selectors or taints: {pods}"
            ),
            Self::CapacityLacks { nodes, pods } => write!(
                f,
                "there may be no room for these pods while {} {} drained: {pods}",
                text::all(nodes),
                if nodes.len() == 1 { "is" } else { "are" }
            ),
            _ => Ok(()),
        }
    }

    fn about_nodes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeDown { node } => {
                write!(f, "{node} is down; it counts against the limit and goes last")
            }
            Self::NotReady { node, unmet } => write!(
                f,
                "{node} runs and is not ready: {}; after its upgrade these may be unmet, and \
                 nothing else",
                readiness::listed(unmet)
            ),
            Self::NoMachine { node, why } => {
                write!(f, "node {node} is left out: no machine is known for it: {why}")
            }
            Self::Foreign { nodes } => write!(
                f,
                "foreign nodes are not upgraded: {}; keep their kubelets within three minors of \
                 the API server",
                text::all(nodes)
            ),
            Self::StaysBehind { nodes, talos } => {
                write!(f, "nodes that stay on Talos {talos}: {}", named(nodes))
            }
            Self::MixedControlPlanes { versions, etcd } => mixed(f, versions, *etcd),
            Self::ExtensionsDropped { node, extensions } => {
                write!(f, "{node} loses {}, as allowed", extensions.join(", "))
            }
            Self::SchematicDiffers { node, configured, running } => write!(
                f,
                "{node} runs schematic {}, its machine config names {configured}; what runs is kept",
                short(running)
            ),
            Self::PlatformDiffers { node, configured, platform, secure_boot } => {
                let secure = if *secure_boot { "with" } else { "without" };
                write!(
                    f,
                    "{node} runs on {platform} {secure} Secure Boot, its machine config names \
                     {configured}, which is not for that; what runs is kept"
                )
            }
            _ => Ok(()),
        }
    }
}

impl Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SkipsMinor { from, to } => write!(
                f,
                "Talos goes from {from} to {to} at once; upstream tests adjacent minors only"
            ),
            Self::SkipsPatch { from, newest, to } => write!(
                f,
                "Talos goes from {from} to {to} without passing {newest}, the newest patch of its \
                 line; upstream tests upgrades from there"
            ),
            Self::ChecksSkipped { node } => write!(
                f,
                "{node} skips its own checks of etcd, since Talos up to 1.12 refuses to upgrade one \
                 of two members; etcd is still checked before each step"
            ),
            Self::StartsUnsupported { constraint } => {
                write!(f, "what runs now is not supported: {constraint}")
            }
            Self::PairsUnchecked { missing } => {
                write!(f, "the {missing} version is not given, so its support was not checked")
            }
            Self::Prerelease { product, version } => {
                write!(f, "{product} {version} is a prerelease")
            }
            Self::Unreleased { talos } => {
                write!(f, "Talos {talos} was not released when this program was built")
            }
            Self::Broken { talos, why } => write!(f, "Talos {talos} has a known fault: {why}"),
            Self::EtcdNotWell { why } => {
                write!(f, "etcd is not healthy, and nothing is disrupted until it is: {why}")
            }
            Self::Outage { control_planes } => write!(
                f,
                "the Kubernetes API is unavailable while a control plane is disrupted (there {} {control_planes})",
                if *control_planes == 1 { "is" } else { "are" }
            ),
            Self::EvenControlPlanes { control_planes } => write!(
                f,
                "{control_planes} control planes tolerate no more failures than {}",
                control_planes.saturating_sub(1)
            ),
            Self::NodeDown { .. }
            | Self::NotReady { .. }
            | Self::NoMachine { .. }
            | Self::Foreign { .. }
            | Self::StaysBehind { .. }
            | Self::MixedControlPlanes { .. }
            | Self::ExtensionsDropped { .. }
            | Self::SchematicDiffers { .. }
            | Self::PlatformDiffers { .. } => self.about_nodes(f),
            Self::MirrorUnchecked { installer } => {
                write!(
                    f,
                    "{installer} is on a mirror: make sure that it is there before the upgrade starts"
                )
            }
            Self::PatchUnknown { product, version } => write!(
                f,
                "no patch of {product} {} is known; the path passes through {version}",
                version.minor()
            ),
            Self::Prunes { .. } | Self::PruneNeedsConsent { .. } | Self::PruneHeld { .. } => {
                self.about_pruning(f)
            }
            Self::DrainUnchecked { .. }
            | Self::BudgetNeverAllows { .. }
            | Self::BudgetAllowsNone { .. }
            | Self::SeveralBudgets { .. }
            | Self::DrainHalts { .. }
            | Self::PodsLost { .. }
            | Self::NowhereToGo { .. }
            | Self::CapacityLacks { .. } => self.about_drains(f),
        }
    }
}

/// What is good to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum Note {
    /// A product is where it should be.
    AlreadyThere {
        /// Which.
        product: Product,
        /// At which version.
        version: Version,
    },
    /// A newer patch than the target is known.
    NewerPatch {
        /// Of what.
        product: Product,
        /// The target.
        target: Version,
        /// The newer one.
        newer: Version,
    },
    /// A digest was replaced by a tag.
    DigestReplaced {
        /// What was configured.
        configured: ImageRef,
        /// What is used.
        installer: ImageRef,
    },
    /// The plain installer is not published any more.
    PlainInstallerGone {
        /// What was configured.
        configured: ImageRef,
        /// What is used.
        installer: ImageRef,
    },
    /// A node is the only one: its pods have nowhere to go.
    DrainLeftOut {
        /// Which.
        node: NodeName,
    },
    /// Nothing is done to a node in a hop.
    Skipped {
        /// Which.
        node: NodeName,
        /// In which hop.
        hop: u32,
        /// What it runs already.
        version: Version,
    },
    /// Nodes that the user holds: nothing is done to them.
    Held {
        /// Which.
        nodes: Vec<NodeName>,
    },
    /// Nodes with a Talos version of their own.
    OwnVersion {
        /// Which version.
        version: Version,
        /// Which nodes.
        nodes: Vec<NodeName>,
    },
}

impl Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyThere { product, version } => {
                write!(f, "{product} is already at {version}")
            }
            Self::NewerPatch { product, target, newer } => {
                write!(f, "{product} {newer} is known, newer than the target {target}")
            }
            Self::DigestReplaced { configured, installer } => {
                write!(f, "the digest of {configured} pins the old release; {installer} is used")
            }
            Self::PlainInstallerGone { configured, installer } => write!(
                f,
                "{} is not published from Talos 1.14; {installer} is used",
                configured.repository
            ),
            Self::DrainLeftOut { node } => {
                write!(
                    f,
                    "{node} is the only node: its pods have nowhere to go and are not evicted"
                )
            }
            Self::Skipped { node, hop, version } => {
                write!(f, "{node} already runs {version} and is left alone in hop {hop}")
            }
            Self::Held { nodes } => write!(f, "held, and left as they are: {}", named(nodes)),
            Self::OwnVersion { version, nodes } => {
                write!(f, "Talos {version} is for these nodes only: {}", named(nodes))
            }
        }
    }
}

/// Enough of a schematic for people to tell it from another.
fn short(schematic: &str) -> &str {
    schematic.get(..12).unwrap_or(schematic)
}
