//! What to look at before going ahead, and what is good to know.

use std::fmt::{self, Display};

use serde::Serialize;
use upgrade_core::image::ImageRef;
use upgrade_core::snapshot::NodeName;
use upgrade_core::version::Version;

use super::{Constraint, Product};

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

/// Enough of a schematic for people to tell it from another.
fn short(schematic: &str) -> &str {
    schematic.get(..12).unwrap_or(schematic)
}
