//! Conditions that stay unmet although the machine works.

use serde::{Deserialize, Serialize};

use super::World;
use super::api::NodeIndex;
use super::fault::{Fault, FaultKind};

/// A condition of the machine status that a fault keeps unmet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// There is no default route, as in an air gap.
    Network,
    /// There is no time server.
    Time,
    /// The service of an extension is unhealthy.
    Services,
}

impl Condition {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Network, Self::Time, Self::Services];

    /// The name in Talos.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Time => "time",
            Self::Services => "services",
        }
    }
}

impl World {
    /// Whether a fault keeps a condition of a node unmet.
    pub(super) fn is_kept_unmet(&self, node: NodeIndex, condition: Condition) -> bool {
        let lasting = self.fault(node, FaultKind::UnmetCondition);
        lasting == Some(&Fault::UnmetCondition { condition })
            || self.nodes[node.0].unmet_since_boot == Some(condition)
    }

    /// A boot activates the fault that waits for it.
    pub(super) fn unmet_from_boot(&mut self, node: NodeIndex) {
        if let Some(Fault::UnmetAfterBoot { condition }) =
            self.fault(node, FaultKind::UnmetAfterBoot)
        {
            self.nodes[node.0].unmet_since_boot = Some(*condition);
        }
    }
}
