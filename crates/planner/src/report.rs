//! What the planner has to say: every refusal, warning and note is typed, and
//! each tells what to do next.

use std::fmt::{self, Display};

use serde::Serialize;
use upgrade_core::image::ImageRef;
use upgrade_core::plan::Versions;
use upgrade_core::snapshot::NodeName;
use upgrade_core::version::{Minor, Version};

/// One of the two things that have versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "product names")]
pub enum Product {
    Talos,
    Kubernetes,
}

impl Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Talos => "Talos",
            Self::Kubernetes => "Kubernetes",
        })
    }
}

/// The rule of the support matrix that a path runs against.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "constraint", rename_all = "kebab-case")]
pub enum Constraint {
    /// A Talos release does not run a Kubernetes release.
    Pair {
        /// The Talos release.
        talos: Version,
        /// The Kubernetes release.
        kubernetes: Version,
        /// The oldest minor it runs.
        oldest: Minor,
        /// The newest minor it runs.
        newest: Minor,
        /// The first newer Talos line that runs it, if one is known.
        needs: Option<Minor>,
    },
    /// A Talos release that the matrix does not know runs nothing (rule 10).
    UnknownTalos {
        /// The Talos release.
        talos: Version,
    },
    /// A Talos release cannot be installed over the one that runs.
    Host {
        /// What runs.
        from: Version,
        /// What was to be installed.
        to: Version,
        /// The oldest version it may be installed over.
        oldest: Version,
        /// The first version that is too new for it.
        too_new: Version,
    },
}

impl Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pair { talos, kubernetes, oldest, newest, needs: _ } => {
                write!(f, "Talos {talos} runs Kubernetes {oldest} to {newest}, not {kubernetes}")
            }
            Self::UnknownTalos { talos } => {
                write!(f, "Talos {talos} is unknown to the support matrix")
            }
            Self::Host { from, to, oldest, too_new } => write!(
                f,
                "Talos {to} installs over {oldest} and newer, below {too_new}; {from} runs"
            ),
        }
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "code", rename_all = "kebab-case")]
#[expect(clippy::large_enum_variant, reason = "a report holds a handful, for a moment")]
pub enum Refusal {
    /// The policy cannot be followed.
    BadPolicy {
        /// Why not.
        problem: String,
    },
    /// Neither product has a target.
    NoTarget,
    /// No control plane was observed.
    NoControlPlane,
    /// Rule 13: versions do not fall unless a rollback was asked for.
    Downgrade {
        /// Of what.
        product: Product,
        /// What runs.
        from: Version,
        /// What was asked for.
        to: Version,
    },
    /// A rollback was asked for, and the target is newer than what runs: gates
    /// would be opened for something that is no way back (rule 12).
    NoWayBack {
        /// Of what.
        product: Product,
        /// What runs.
        from: Version,
        /// What was asked for.
        to: Version,
    },
    /// Kubernetes never goes back a minor: its stored objects may not be
    /// readable by the older one.
    KubernetesRollback {
        /// What runs.
        from: Version,
        /// What was asked for.
        to: Version,
    },
    /// The support matrix has no such line (rule 10).
    UnknownMinor {
        /// Of what.
        product: Product,
        /// The version asked for.
        version: Version,
        /// The oldest line known.
        oldest: Minor,
        /// The newest line known.
        newest: Minor,
    },
    /// No sequence of supported steps leads there (rule 13).
    NoPath {
        /// What stands in the way.
        #[serde(flatten)]
        constraint: Constraint,
        /// What runs.
        running: Versions,
        /// As far as one can go towards the target.
        furthest: Versions,
    },
    /// A node could not be seen (rule 10).
    NodeUnknown {
        /// Which.
        node: NodeName,
        /// What is missing.
        why: String,
    },
    /// The version of Kubernetes could not be seen (rule 10).
    KubernetesUnknown {
        /// Why not.
        why: String,
    },
    /// A control plane is not serving (rule 1).
    ControlPlaneDown {
        /// Which.
        node: NodeName,
    },
    /// etcd is not fit to lose a member (rule 1).
    EtcdUnsafe {
        /// What is wrong.
        why: String,
    },
    /// One or two control planes cannot lose one and keep quorum (rule 1).
    Outage {
        /// How many there are.
        control_planes: usize,
    },
    /// As many workers are down already as may be (rule 6).
    NoRoom {
        /// The pool with its own limit, if it is one.
        pool: Option<String>,
        /// The limit.
        limit: usize,
        /// Who is down.
        down: Vec<NodeName>,
    },
    /// The installer would drop extensions (rule 4).
    ExtensionsLost {
        /// Where.
        node: NodeName,
        /// Which installer.
        installer: String,
        /// Which extensions.
        extensions: Vec<String>,
    },
    /// There is no telling which installer fits the node (rule 10).
    NoInstaller {
        /// Which node.
        node: NodeName,
        /// Why.
        why: String,
    },
}

impl Refusal {
    /// What to do about it.
    pub fn advice(&self) -> String {
        match self {
            Self::BadPolicy { .. } => "correct the policy".to_owned(),
            Self::NoTarget => "name a Talos target, a Kubernetes target, or both".to_owned(),
            Self::NoControlPlane => {
                "check that the endpoints are control planes of this cluster".to_owned()
            }
            Self::Downgrade { .. } => {
                "choose a newer target, or say --rollback if going back is what you want".to_owned()
            }
            Self::NoWayBack { .. } => "leave out --rollback".to_owned(),
            Self::KubernetesRollback { from, to } => format!(
                "stay within Kubernetes {}, or restore an etcd snapshot taken under {}",
                from.minor(),
                to.minor()
            ),
            Self::UnknownMinor { version, oldest, product, .. } if version.minor() < *oldest => {
                format!("nothing is known of {product} before {oldest}; that far goes only by hand")
            }
            Self::UnknownMinor { newest, product, .. } => format!(
                "choose {product} {newest} or older, or use a newer talos-operator that knows the release"
            ),
            Self::NoPath { constraint, running, furthest } => {
                let needs = match constraint {
                    Constraint::Pair { kubernetes, needs: Some(line), .. } => Some(format!(
                        "Kubernetes {} needs Talos {line} or newer",
                        kubernetes.minor()
                    )),
                    _ => None,
                };
                let reach = (furthest != running).then(|| furthest_words(furthest));
                match (needs, reach) {
                    (Some(needs), Some(reach)) => format!("{needs}; {reach}"),
                    (Some(only), None) | (None, Some(only)) => only,
                    (None, None) => "not one supported step leads towards it; \
                         bring what runs into support by hand"
                        .to_owned(),
                }
            }
            Self::NodeUnknown { .. } | Self::KubernetesUnknown { .. } => {
                "mend the connection and plan again; nothing is disrupted unseen".to_owned()
            }
            Self::ControlPlaneDown { .. } => "bring it back first".to_owned(),
            Self::EtcdUnsafe { .. } => "mend etcd first".to_owned(),
            Self::Outage { control_planes: 1 } => {
                "accept the outage with --accept-outage, or add control planes".to_owned()
            }
            Self::Outage { .. } => {
                "accept the outage with --accept-outage, or add a third control plane".to_owned()
            }
            Self::NoRoom { .. } => "bring them back first, or raise the limit".to_owned(),
            Self::ExtensionsLost { .. } => {
                "name the node's schematic, or say --drop-extensions if they may go".to_owned()
            }
            Self::NoInstaller { .. } => "name the installer image".to_owned(),
        }
    }
}

impl Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadPolicy { problem } => f.write_str(problem),
            Self::NoTarget => f.write_str("there is no target"),
            Self::NoControlPlane => f.write_str("the cluster shows no control plane"),
            Self::Downgrade { product, from, to } => {
                write!(f, "{product} {to} is older than {from}, which runs")
            }
            Self::NoWayBack { product, from, to } => {
                write!(f, "{product} {to} is no way back: it is newer than {from}, which runs")
            }
            Self::KubernetesRollback { from, to } => {
                write!(f, "Kubernetes does not go back from {from} to {to}: that is another minor")
            }
            Self::UnknownMinor { product, version, oldest, newest } => write!(
                f,
                "{product} {version} is unknown to the support matrix, which goes from {oldest} to {newest}"
            ),
            Self::NoPath { constraint, running: _, furthest: _ } => {
                write!(f, "no supported path leads there: {constraint}")
            }
            Self::NodeUnknown { node, why } => write!(f, "{node} cannot be seen: {why}"),
            Self::KubernetesUnknown { why } => {
                write!(f, "the Kubernetes version cannot be seen: {why}")
            }
            Self::ControlPlaneDown { node } => write!(f, "control plane {node} is not ready"),
            Self::EtcdUnsafe { why } => write!(f, "etcd is not fit to lose a member: {why}"),
            Self::Outage { control_planes: 1 } => f.write_str(
                "the only control plane is to be disrupted: the Kubernetes API is away meanwhile",
            ),
            Self::Outage { control_planes } => write!(
                f,
                "{control_planes} control planes cannot lose one and keep etcd's quorum: \
                 the Kubernetes API is away while each reboots"
            ),
            Self::NoRoom { pool, limit, down } => {
                if let Some(pool) = pool {
                    write!(f, "pool {pool}: ")?;
                }
                let names: Vec<_> = down.iter().map(ToString::to_string).collect();
                write!(f, "{} down already, and at most {limit} may be", names.join(", "))
            }
            Self::ExtensionsLost { node, installer, extensions } => {
                write!(f, "{node} would lose {}: {installer} lacks them", extensions.join(", "))
            }
            Self::NoInstaller { node, why } => write!(f, "no installer for {node}: {why}"),
        }
    }
}

/// What to look at before going ahead.
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
    /// A line that was not out when this program was built.
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
    /// The API is away while a control plane reboots, with consent.
    Outage {
        /// How many control planes there are.
        control_planes: usize,
    },
    /// An even number of control planes bears no more failures than one less.
    EvenControlPlanes {
        /// How many there are.
        control_planes: usize,
    },
    /// A worker is down; it counts against the limit and goes last.
    NodeDown {
        /// Which.
        node: NodeName,
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
}

impl Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SkipsMinor { from, to } => write!(
                f,
                "Talos goes from {from} to {to} at once; its makers test adjacent minors only"
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
            Self::Outage { control_planes } => write!(
                f,
                "the Kubernetes API is away while a control plane is disrupted (there {} {control_planes})",
                if *control_planes == 1 { "is" } else { "are" }
            ),
            Self::EvenControlPlanes { control_planes } => write!(
                f,
                "{control_planes} control planes bear no more failures than {}",
                control_planes.saturating_sub(1)
            ),
            Self::NodeDown { node } => {
                write!(f, "{node} is down; it counts against the limit and goes last")
            }
            Self::ExtensionsDropped { node, extensions } => {
                write!(f, "{node} loses {}, as asked for", extensions.join(", "))
            }
            Self::SchematicDiffers { node, configured, running } => write!(
                f,
                "{node} runs schematic {}, its machine config names {configured}; what runs is kept",
                short(running)
            ),
            Self::MirrorUnchecked { installer } => {
                write!(f, "{installer} lies on a mirror: make sure it is there before you begin")
            }
            Self::PatchUnknown { product, version } => write!(
                f,
                "no patch of {product} {} is known; the path passes through {version}",
                version.minor()
            ),
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
}

impl Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyThere { product, version } => {
                write!(f, "{product} is at {version} already")
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
                write!(f, "{node} runs {version} already and is left alone in hop {hop}")
            }
        }
    }
}

/// Everything the planner has to say.
#[must_use = "a report holds the reasons that a person needs"]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Why there is no plan; empty if there is one.
    pub refusals: Vec<Refusal>,
    /// What to look at first.
    pub warnings: Vec<Warning>,
    /// What is good to know.
    pub notes: Vec<Note>,
}

impl Report {
    /// Adds a refusal unless it was made already.
    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        if !self.refusals.contains(&refusal) {
            self.refusals.push(refusal);
        }
    }

    /// Adds a warning unless it was given already.
    pub(crate) fn warn(&mut self, warning: Warning) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Adds a note unless it was made already.
    pub(crate) fn note(&mut self, note: Note) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

fn furthest_words(furthest: &Versions) -> String {
    let words: Vec<String> = [
        furthest.talos.as_ref().map(|version| format!("Talos {version}")),
        furthest.kubernetes.as_ref().map(|version| format!("Kubernetes {version}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    format!("the furthest reachable is {}", words.join(" with "))
}

/// Enough of a schematic for people to tell it from another.
fn short(schematic: &str) -> &str {
    schematic.get(..12).unwrap_or(schematic)
}
