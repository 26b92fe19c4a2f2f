//! Values of annotations, phases and conditions. Each is a closed set; what is
//! not listed here is never written.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The value of a status annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// Nothing is asked for.
    Idle,
    /// A run is under way.
    InProgress,
    /// The target was reached.
    Completed,
    /// A run failed, or the target is not valid.
    Failed,
    /// The target is fine, and has to wait for something else.
    Blocked,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Idle, Self::InProgress, Self::Completed, Self::Failed, Self::Blocked];

    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::InProgress => "in-progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Blocked => "blocked",
        }
    }

    /// The status that a text stands for.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

/// `status.phase` of a `KubernetesCluster`, as far as upgrades set it. The
/// platform has others, for clusters that are being made or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// The cluster runs.
    Ready,
    /// Talos is being upgraded.
    UpgradingTalos,
    /// Kubernetes is being upgraded.
    UpgradingKubernetes,
    /// An upgrade failed; the annotations say how.
    UpgradeFailed,
}

impl Phase {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Ready, Self::UpgradingTalos, Self::UpgradingKubernetes, Self::UpgradeFailed];

    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::UpgradingTalos => "UpgradingTalos",
            Self::UpgradingKubernetes => "UpgradingKubernetes",
            Self::UpgradeFailed => "UpgradeFailed",
        }
    }

    /// The phase that a text stands for; `None` for those of the platform.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == text)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

/// The type of the condition about Talos.
pub const TALOS_UPGRADE: &str = "TalosUpgrade";
/// The type of the condition about Kubernetes.
pub const KUBERNETES_UPGRADE: &str = "KubernetesUpgrade";

/// The reason of one of the two conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Nothing is asked for.
    Idle,
    /// A run is under way. The only one whose status is `True`.
    InProgress,
    /// The user asked for a pause.
    Paused,
    /// The target was reached.
    Completed,
    /// A run failed.
    Failed,
    /// The target waits for something else.
    Blocked,
    /// The target is not valid.
    InvalidTarget,
}

impl Reason {
    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "Idle",
            Self::InProgress => "InProgress",
            Self::Paused => "Paused",
            Self::Completed => "Completed",
            Self::Failed => "Failed",
            Self::Blocked => "Blocked",
            Self::InvalidTarget => "InvalidTarget",
        }
    }

    /// The condition's status: `True` while an upgrade is under way.
    pub const fn status(self) -> &'static str {
        match self {
            Self::InProgress | Self::Paused => "True",
            Self::Idle | Self::Completed | Self::Failed | Self::Blocked | Self::InvalidTarget => {
                "False"
            }
        }
    }
}

/// One condition, of a cluster or of anything else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False`, or a word of the platform.
    pub status: String,
    /// One word.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// When the status changed, RFC 3339.
    pub last_transition_time: String,
}

/// The `status.state` that the schema demands in the first
/// status. Only what is known is said: when, and by whom.
pub fn empty_state(now: &str) -> Value {
    let none = json!({"capacity": "0", "used": "0", "percentage": 0});
    let resources = json!({"cpu": none, "memory": none, "gpu": none, "disk": none});
    json!({
        "created": now,
        "lastUpdated": now,
        "lastUpdatedBy": "talos-operator",
        "egressIP": "",
        "versions": [],
        "endpoints": [],
        "cluster": {
            "externalId": "",
            "price": {"monthly": 0, "yearly": 0},
            "resources": resources,
            "nodepools": [],
            "controlplane": {
                "status": "",
                "message": "",
                "scale": 0,
                "machineClass": "",
                "nodes": [],
                "resources": resources,
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for status in Status::ALL {
            assert_eq!(Status::parse(status.as_str()), Some(status));
        }
        for phase in Phase::ALL {
            assert_eq!(Phase::parse(phase.as_str()), Some(phase));
        }
        assert_eq!(Status::parse("Idle"), None);
        assert_eq!(Phase::parse("Provisioning"), None);
    }
}
