//! The journal: memory for what cannot be observed.
//!
//! Entries are appended and synced before an act and after it, so that a process
//! killed at any instant is followed by one that knows what may have happened
//! (rule 8). [`State`] is the fold of all entries of one plan.

mod armed;
mod state;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::plan::PlanHash;
use crate::readiness::UnmetCondition;
use crate::reason::{Failure, HaltReason};
use crate::snapshot::{NodeName, TalosFacts};
use crate::step::StepId;

pub use armed::{Armed, Arming, Effect};
pub use state::{FoldError, Phase, State, StepState};

/// What was true right before an act, for telling later whether it happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// The boot ID before a reboot.
    BootId(String),
    /// Whether the node was cordoned before we came (rule 7).
    WasCordoned(bool),
    /// The boot ID before a reboot of a machine that was not ready, and why it was not.
    NotReady {
        /// The boot ID.
        boot_id: String,
        /// The conditions that were unmet.
        unmet: Vec<UnmetCondition>,
    },
    /// The conditions that were unmet before a change without a reboot.
    Unmet(Vec<UnmetCondition>),
}

impl Evidence {
    /// What was true of a machine before its reboot.
    pub fn before_boot(facts: TalosFacts) -> Self {
        let TalosFacts { boot_id, unmet, .. } = facts;
        if unmet.is_empty() { Self::BootId(boot_id) } else { Self::NotReady { boot_id, unmet } }
    }

    /// The boot ID, where it was noted.
    pub fn boot_id(&self) -> Option<&str> {
        match self {
            Self::BootId(boot_id) | Self::NotReady { boot_id, .. } => Some(boot_id),
            Self::WasCordoned(_) | Self::Unmet(_) => None,
        }
    }

    /// The conditions that were unmet; none in journals of before they were noted.
    pub fn unmet(&self) -> &[UnmetCondition] {
        match self {
            Self::NotReady { unmet, .. } | Self::Unmet(unmet) => unmet,
            Self::BootId(_) | Self::WasCordoned(_) => &[],
        }
    }
}

/// What a finished step leaves behind that cannot be observed later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Proof {
    /// A verified etcd snapshot (rule 3).
    EtcdSnapshot {
        /// Where it is: a path, or a URL. Named in journals as when it was always a file.
        #[serde(rename = "file")]
        location: String,
        /// Its SHA-256.
        sha256: String,
        /// Its size.
        bytes: u64,
    },
    /// An installer's end was not heard, and the boot loader does not tell: the
    /// node counts as armed until its next boot shows whether it is (rule 5).
    Unheard,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// It did its work.
    Done {
        /// What to remember of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proof: Option<Proof>,
    },
    /// There was nothing to do.
    Skipped {
        /// Why.
        why: String,
    },
    /// It failed.
    Failed {
        /// How.
        failure: Failure,
    },
}

/// One thing worth remembering.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub enum Record {
    /// A process took the run over. What was started before and has no end is
    /// in doubt from here on.
    Began,
    /// What a run that this one replaces left behind: cordons are ours to lift
    /// (rule 7), armed nodes are not to be installed on (rule 5).
    Inherited {
        /// On which nodes.
        cordons: BTreeSet<NodeName>,
        /// Which nodes are armed, or may be.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        armed: BTreeMap<NodeName, Armed>,
    },
    /// One of them is lifted: its node is schedulable again.
    Lifted {
        /// Which node.
        node: NodeName,
    },
    /// A step is about to act.
    Started {
        /// Which.
        step: StepId,
        /// From 1.
        attempt: u32,
        /// What was true before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence: Option<Evidence>,
    },
    /// A step ended.
    Finished {
        /// Which.
        step: StepId,
        /// The attempt that ended.
        attempt: u32,
        /// How.
        #[serde(flatten)]
        outcome: Outcome,
    },
    /// The run began to wait for something that has a deadline.
    Waiting {
        /// The [`key`](crate::reason::WaitReason::key) of what is waited for.
        key: String,
    },
    /// A person asked for a pause (rule 12).
    Paused {
        /// Who.
        by: String,
    },
    /// A user resumed the run after a pause or a halt.
    Resumed {
        /// Who.
        by: String,
    },
    /// The run stopped until a person acts.
    Halted {
        /// Why. Named apart from the field that tags a reason's own kind.
        why: HaltReason,
    },
    /// Everything planned is done.
    Completed,
}

/// A record with its time and its plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When it was written.
    pub at: Timestamp,
    /// The plan it belongs to (rule 9).
    pub plan: PlanHash,
    /// The process that wrote it.
    pub runner: String,
    /// What happened.
    #[serde(flatten)]
    pub record: Record,
}
