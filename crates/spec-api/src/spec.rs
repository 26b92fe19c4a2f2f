//! The parts that the specs of control planes and workers share.
//!
//! Patches and documents of machine configurations, registries and the like are in the schema
//! and not in these types: upgrades do not need them, and they may contain secrets.

use serde::{Deserialize, Serialize};

use crate::int_or_string::IntOrString;
use crate::reference::{ObjectReference, is_false};
use crate::words::words;

words! {
    /// What machines are.
    pub enum Mode {
        /// Pods of the hub; Talos refuses upgrades there.
        Container = "container",
        /// Machines with addresses, virtual ones included. The only mode that is upgraded.
        Metal = "metal",
        /// Reserved.
        Cloud = "cloud",
    }
}

/// The machines of the mode `metal`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MetalSpec {
    /// What they have in common.
    pub machine_spec: MachineSettings,
    /// Each of them.
    pub machines: Vec<MachineEntry>,
}

/// What is said about all machines of a parent, or about the one of a `TalosMachine`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MachineSettings {
    /// The installer image; `None` keeps what the node has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Whether there is no discovery, so that the listed machines are the cluster.
    #[serde(skip_serializing_if = "is_false")]
    pub air_gap: bool,
}

/// A machine in the list of its parent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MachineEntry {
    /// An address. The schema wants either this or [`machine_ref`](Self::machine_ref), and
    /// accepts numbers above 255.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// An object that has the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_ref: Option<ObjectReference>,
    /// The Talos version of this machine, if it is not the parent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The installer image of this machine, if it is not that of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

/// How many machines may be away at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RolloutStrategy {
    /// The only strategy there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
}

/// The limit of a rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RollingUpdate {
    /// A number or a percentage, unchecked: the schema accepts any text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
}

impl RolloutStrategy {
    /// `rollingUpdate.maxUnavailable`.
    pub fn max_unavailable(&self) -> Option<&IntOrString> {
        self.rolling_update.as_ref()?.max_unavailable.as_ref()
    }
}

/// A version that was written; an empty one is none.
pub(crate) fn written(version: Option<&String>) -> Option<&str> {
    version.map(String::as_str).filter(|version| !version.is_empty())
}
