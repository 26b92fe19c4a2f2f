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

/// What a step counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Bytes of a pull or a snapshot.
    Bytes,
    /// Pods that have to leave or to become ready.
    Pods,
    /// A unit of a newer version of this program.
    #[serde(other)]
    Other,
}

/// How far a step is. The newest replaces the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepProgress {
    /// For people; always there.
    pub message: String,
    /// How many are done, where the step counts something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<u64>,
    /// Of how many, once that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// What is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
}

impl StepProgress {
    /// Progress that counts nothing.
    pub fn text(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// Progress that counts, with an end that may not be known yet.
    pub fn counted(unit: Unit, done: u64, total: Option<u64>, message: impl Into<String>) -> Self {
        Self { message: message.into(), done: Some(done), total, unit: Some(unit) }
    }
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
    /// A step reports how far it is.
    StepProgress {
        /// Which.
        step: StepId,
        /// How far.
        #[serde(flatten)]
        progress: StepProgress,
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
    /// The run was resumed.
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
    fn progress_is_flat_and_keeps_its_message() {
        let read = |text: &str| serde_json::from_str::<EventKind>(text).unwrap();
        let event =
            |progress| EventKind::StepProgress { step: "1/cp-1/pull".parse().unwrap(), progress };
        let text = event(StepProgress::text("pulling"));
        let json = r#"{"event":"step-progress","step":"1/cp-1/pull","message":"pulling"}"#;
        assert_eq!(serde_json::to_string(&text).unwrap(), json);
        assert_eq!(read(json), text);
        let counted = event(StepProgress::counted(Unit::Bytes, 1, Some(3), "1 of 3 MB"));
        let json = r#"{"event":"step-progress","step":"1/cp-1/pull","message":"1 of 3 MB","done":1,"total":3,"unit":"bytes"}"#;
        assert_eq!(serde_json::to_string(&counted).unwrap(), json);
        assert_eq!(read(json), counted);
        assert_eq!(
            serde_json::from_str::<Unit>(r#""volumes""#).unwrap(),
            Unit::Other,
            "a newer program's unit"
        );
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
