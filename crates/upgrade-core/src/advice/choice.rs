//! Which target would do.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

use super::examples::with_examples;
use crate::plan::Versions;
use crate::product::Product;
use crate::snapshot::NodeName;
use crate::text;
use crate::version::{Minor, Version};

/// How many nodes are named; the rest is a number.
const NAMED: usize = 20;

with_examples! {
    /// Which target would do.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Choice {
        /// Any: there is none.
        Any => Self::Any,
        /// One above what runs.
        Newer => Self::Newer,
        /// A version of this line or an older one.
        AtMost {
            /// Of what.
            product: Product,
            /// The newest line.
            minor: Minor,
        } => Self::AtMost { product: Product::Talos, minor: Minor::new(1, 14) },
        /// A version of this line.
        Within {
            /// Of what.
            product: Product,
            /// The line.
            minor: Minor,
        } => Self::Within { product: Product::Kubernetes, minor: Minor::new(1, 34) },
        /// This version before the one that was asked for.
        First {
            /// Of what.
            product: Product,
            /// Which version.
            version: Version,
        } => Self::First { product: Product::Talos, version: Version::new(1, 13, 9) },
        /// A Kubernetes that needs a newer Talos line.
        NeedsTalos {
            /// The line of Kubernetes that was asked for.
            kubernetes: Minor,
            /// The first line of Talos that runs it.
            talos: Minor,
        } => Self::NeedsTalos { kubernetes: Minor::new(1, 37), talos: Minor::new(1, 14) },
        /// As far as supported steps lead.
        Furthest(Versions) => Self::Furthest(Versions {
            talos: Some(Version::new(1, 13, 9)),
            kubernetes: Some(Version::new(1, 34, 2)),
        }),
        /// For this node, this version or a newer one.
        OfNode {
            /// Which node.
            node: NodeName,
            /// What it runs.
            running: Version,
        } => Self::OfNode { node: "cp-1".into(), running: Version::new(1, 13, 9) },
        /// An image of this version.
        Tag(Version) => Self::Tag(Version::new(1, 13, 9)),
        /// One of these nodes.
        Nodes(Vec<NodeName>) => Self::Nodes(vec!["cp-1".into()]),
        /// Talos, and not Kubernetes.
        TalosAlone => Self::TalosAlone,
        /// A Kubernetes that the kubelet of a held node works with.
        ForKubelet => Self::ForKubelet,
        /// An older one for the other control planes.
        OlderForOthers => Self::OlderForOthers,
    }
}

impl Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("name a Talos target, a Kubernetes target, or both"),
            Self::Newer => f.write_str("choose a newer target"),
            Self::AtMost { product, minor } => write!(f, "choose {product} {minor} or older"),
            Self::Within { product, minor } => write!(f, "stay within {product} {minor}"),
            Self::First { product, version } => write!(f, "upgrade to {product} {version} first"),
            Self::NeedsTalos { kubernetes, talos } => {
                write!(
                    f,
                    "upgrade Talos to {talos} or newer first, which Kubernetes {kubernetes} needs"
                )
            }
            Self::Furthest(Versions { talos, kubernetes }) => {
                f.write_str("go only as far as ")?;
                match (talos, kubernetes) {
                    (Some(talos), Some(kubernetes)) => {
                        write!(f, "Talos {talos} with Kubernetes {kubernetes}")
                    }
                    (Some(talos), None) => write!(f, "Talos {talos}"),
                    (None, Some(kubernetes)) => write!(f, "Kubernetes {kubernetes}"),
                    (None, None) => f.write_str("what runs now"),
                }
            }
            Self::OfNode { node, running } => write!(
                f,
                "give {node} Talos {running} or a newer one; an older one takes a rollback of \
                 the node"
            ),
            Self::Tag(version) => write!(f, "remove the tag, or write {}", version.tag()),
            Self::Nodes(nodes) => write!(f, "the nodes are {}", text::first(nodes, NAMED)),
            Self::TalosAlone => f.write_str("upgrade Talos alone"),
            Self::ForKubelet => f.write_str("choose a Kubernetes version that suits its kubelet"),
            Self::OlderForOthers => f.write_str("choose an older target for the others"),
        }
    }
}
