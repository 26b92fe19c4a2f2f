//! What happens, as it happens: one type with many sinks (progress lanes, JSON
//! lines, Kubernetes Events, metrics, dashboard).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::journal::Outcome;
use crate::plan::{PlanHash, Versions};
use crate::reason::{HaltReason, WaitReason};
use crate::step::StepId;

/// Whether an event may be dropped when there are too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// Progress within a step; the next one replaces it.
    Low,
    /// A transition; never dropped.
    High,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum EventKind {
    /// A run began, or was taken over.
    RunBegan {
        /// What runs now.
        from: Versions,
        /// What will run.
        to: Versions,
        /// How many steps there are in all.
        steps: usize,
    },
    /// A step began.
    StepStarted {
        /// Which.
        step: StepId,
        /// From 1.
        attempt: u32,
    },
    /// A step says how it is getting on.
    StepProgress {
        /// Which.
        step: StepId,
        /// In its own words.
        message: String,
    },
    /// A step ended.
    StepFinished {
        /// Which.
        step: StepId,
        /// The attempt that ended.
        attempt: u32,
        /// How.
        #[serde(flatten)]
        outcome: Outcome,
    },
    /// The run waits.
    Waiting {
        /// For what.
        why: WaitReason,
        /// Until when at the latest (rule 11).
        until: Timestamp,
    },
    /// The run stopped until a person acts.
    Halted {
        /// Why.
        why: HaltReason,
    },
    /// The run was paused.
    Paused {
        /// By whom.
        by: String,
    },
    /// The run goes on.
    Resumed {
        /// By whom.
        by: String,
    },
    /// Everything planned is done.
    Completed,
    /// An event of a newer version of this program.
    #[serde(other)]
    Unknown,
}

impl EventKind {
    /// Whether it may be dropped.
    pub const fn priority(&self) -> Priority {
        match self {
            Self::StepProgress { .. } => Priority::Low,
            _ => Priority::High,
        }
    }
}

/// An event with its time and place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub at: Timestamp,
    /// In which cluster.
    pub cluster: String,
    /// Under which plan.
    pub plan: PlanHash,
    /// What.
    #[serde(flatten)]
    pub kind: EventKind,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_programs_event_is_still_read() {
        let line = r#"{"at":"2026-11-15T20:00:00Z","cluster":"prod","plan":"ab","event":"teleported","to":"mars"}"#;
        let event: Event = serde_json::from_str(line).unwrap();
        assert_eq!(event.kind, EventKind::Unknown);
        assert_eq!(event.kind.priority(), Priority::High);
    }

    #[test]
    fn events_are_one_flat_json_object() {
        let event = Event {
            at: "2026-11-15T20:00:00Z".parse().unwrap(),
            cluster: "prod".to_owned(),
            plan: serde_json::from_str("\"ab\"").unwrap(),
            kind: EventKind::StepFinished {
                step: "1/cp-1/drain".parse().unwrap(),
                attempt: 1,
                outcome: Outcome::Skipped { why: "nothing to evict".to_owned() },
            },
        };
        let json = serde_json::to_string(&event).unwrap();
        assert_eq!(
            json,
            r#"{"at":"2026-11-15T20:00:00Z","cluster":"prod","plan":"ab","event":"step-finished","step":"1/cp-1/drain","attempt":1,"outcome":"skipped","why":"nothing to evict"}"#
        );
        assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), event);
    }
}
