//! Kubernetes nodes that are not Talos machines.

use serde::{Deserialize, Serialize};
use talos_sim::kubernetes::Kubernetes;
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::NodeName;
use upgrade_core::version::Version;

use crate::world::{START, time};
use kube_sim::random::Random;

/// Its name and its address, where no Talos machine answers.
pub(crate) const EDGE: &str = "edge-1";
pub(crate) const EDGE_ADDRESS: &str = "10.9.0.1";

/// Whether there is a foreign node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Foreign {
    /// There is none.
    #[default]
    None,
    /// The user lists it as foreign.
    Listed,
    /// The user does not list it: it is unknown, so no plan is made (rule 10).
    Unlisted,
}

impl Foreign {
    /// Its name in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "no foreign node",
            Self::Listed => "foreign node, listed",
            Self::Unlisted => "foreign node, not listed",
        }
    }

    pub(super) fn draw(random: &mut Random) -> Self {
        match random.below(100) {
            0..6 => Self::Listed,
            6..8 => Self::Unlisted,
            _ => Self::None,
        }
    }

    /// Adds it to the user's list.
    pub(super) fn name_in(self, policy: &mut Policy) {
        if self == Self::Listed {
            policy.foreign_nodes.insert(NodeName(EDGE.to_owned()));
        }
    }

    /// Registers its kubelet.
    pub(crate) fn register(self, kubernetes: &mut Kubernetes, version: &Version) {
        if self != Self::None {
            kubernetes.join_foreign(time(START), EDGE, EDGE_ADDRESS, version);
        }
    }
}
