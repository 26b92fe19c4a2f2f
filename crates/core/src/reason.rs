//! Why a run waits, stops, or saw a step fail: typed, so that every door tells
//! it in its own way and no door has to guess.

use std::fmt::{self, Display};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::journal::Effect;
use crate::plan::PlanHash;
use crate::secret::scrub;
use crate::snapshot::NodeName;
use crate::step::StepId;
use crate::version::Version;

/// What kind of failure a step met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The other side could not be reached or answered nonsense.
    Unavailable,
    /// An image could not be pulled.
    Pull,
    /// The installer ended with a non-zero exit code.
    Installer,
    /// Pods were left at the drain deadline.
    Drain,
    /// The node did not come back.
    NeverReturned,
    /// The node came back on its old version (rule 5).
    BootBack,
    /// The node was asked for something, and nothing came of it.
    Lost,
    /// Something is not as planned: version, schematic, extensions, image.
    Mismatch,
    /// The deadline passed (rule 11).
    Deadline,
    /// The other side said no.
    Refused,
}

impl FailureKind {
    /// Whether the same call may succeed later without anybody's help.
    pub const fn may_pass(self) -> bool {
        matches!(self, Self::Unavailable | Self::Pull)
    }

    /// What a person should do about it.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Unavailable => "check the network path to the node, then resume",
            Self::Pull => "check that the image exists and that the node reaches its registry",
            Self::Installer => {
                "read the installer's last lines and correct the cause; before you resume, see \
                 under `armed` what the node boots next"
            }
            Self::Drain => "make room for the pods named, or relax their budget, then resume",
            Self::NeverReturned => "look at the node's console; it may need a power cycle",
            Self::BootBack => {
                "find out why the new version did not boot before trying again; \
                 the old one runs and nothing was overwritten"
            }
            Self::Lost => "resume: the node is looked at first, and then asked again",
            Self::Mismatch => "compare what runs with what the plan expected, then plan again",
            Self::Deadline => "find out what it was still doing, then resume",
            Self::Refused => "read the refusal, mend its cause, then resume",
        }
    }
}

/// A failed step: what kind, and what exactly. The text is scrubbed of secrets
/// on the way in (rule 14).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind.
    pub kind: FailureKind,
    /// The words.
    text: String,
    /// What a failed install left behind, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    effect: Option<Effect>,
}

impl Failure {
    /// A failure with its explanation.
    pub fn new(kind: FailureKind, text: &str) -> Self {
        Self { kind, text: scrub(text).into_owned(), effect: None }
    }

    /// The same failure, of an install that left this behind.
    #[must_use]
    pub fn leaving(self, effect: Effect) -> Self {
        Self { effect: Some(effect), ..self }
    }

    /// What a failed install left behind, where that is known.
    pub const fn effect(&self) -> Option<Effect> {
        self.effect
    }

    /// The explanation.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Why nothing new is started right now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum WaitReason {
    /// Steps are under way.
    Running {
        /// Some of them.
        steps: Vec<StepId>,
        /// How many in all.
        count: usize,
    },
    /// Something was disrupted since the last look (rule 2).
    StaleObservation {
        /// The look must be newer than this.
        newer_than: Timestamp,
    },
    /// etcd would lose its quorum, or cannot be shown to keep it (rule 1).
    EtcdUnsafe {
        /// The control plane that waits.
        node: NodeName,
        /// What is wrong.
        why: String,
    },
    /// Another control plane is not serving (rule 1).
    ControlPlaneDown {
        /// The control plane that waits.
        node: NodeName,
        /// The one that is down.
        down: NodeName,
        /// Why it counts as down.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// A node cannot be seen well enough (rule 10).
    NodeUnknown {
        /// Which.
        node: NodeName,
        /// What is missing.
        why: String,
    },
    /// A cordon that an earlier run of ours set is still there (rule 7).
    CordonLeft {
        /// The node that has it.
        node: NodeName,
    },
    /// As many workers are away as the policy allows (rule 6).
    NoRoom {
        /// The pool with its own limit, if it is one.
        pool: Option<String>,
        /// The limit.
        limit: usize,
        /// Some of those who are away.
        away: Vec<NodeName>,
        /// How many are away.
        count: usize,
    },
    /// Outside the maintenance windows, or in a freeze.
    Window {
        /// Which.
        why: String,
    },
    /// A person paused the run (rule 12).
    Paused {
        /// Who.
        by: String,
    },
    /// A failed step is about to be tried again.
    Backoff {
        /// Which.
        step: StepId,
        /// The attempt that failed.
        attempt: u32,
    },
}

impl WaitReason {
    /// A short name that stays the same while the same thing is waited for.
    pub fn key(&self) -> String {
        match self {
            Self::Running { .. } => "running".to_owned(),
            Self::StaleObservation { .. } => "stale-observation".to_owned(),
            Self::EtcdUnsafe { node, .. } => format!("etcd-unsafe/{node}"),
            Self::ControlPlaneDown { node, .. } => format!("control-plane-down/{node}"),
            Self::NodeUnknown { node, .. } => format!("node-unknown/{node}"),
            Self::CordonLeft { node } => format!("cordon-left/{node}"),
            Self::NoRoom { pool, .. } => {
                format!("no-room/{}", pool.as_deref().unwrap_or("*"))
            }
            Self::Window { .. } => "window".to_owned(),
            Self::Paused { .. } => "paused".to_owned(),
            Self::Backoff { step, .. } => format!("backoff/{step}"),
        }
    }
}

impl Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running { steps, count } => {
                write!(f, "under way: {}", list(steps))?;
                match count - steps.len() {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
            Self::StaleObservation { newer_than } => {
                write!(f, "looking at the cluster again; the last look is older than {newer_than}")
            }
            Self::EtcdUnsafe { node, why } => write!(f, "{node} must not be disrupted: {why}"),
            Self::ControlPlaneDown { node, down, why } => {
                write!(f, "{node} must not be disrupted while control plane {down} is down")?;
                why.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
            }
            Self::NodeUnknown { node, why } => write!(f, "cannot see {node} well enough: {why}"),
            Self::CordonLeft { node } => {
                write!(f, "{node} still has the cordon of an earlier run of ours; ")?;
                f.write_str("it is lifted once the node serves and the API server answers")
            }
            Self::NoRoom { pool, limit, away, count } => {
                if let Some(pool) = pool {
                    write!(f, "pool {pool}: ")?;
                }
                f.write_str(&list(away))?;
                match count - away.len() {
                    0 if *count == 1 => f.write_str(" is")?,
                    0 => f.write_str(" are")?,
                    more => write!(f, " and {more} more are")?,
                }
                write!(f, " away, and at most {limit} may be")
            }
            Self::Window { why } => f.write_str(why),
            Self::Paused { by } => write!(f, "paused by {by}"),
            Self::Backoff { step, attempt } => {
                write!(f, "{step} failed on attempt {attempt} and is tried again shortly")
            }
        }
    }
}

/// Why a run stopped for good, until a person acts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum HaltReason {
    /// A step failed for good.
    StepFailed {
        /// Which.
        step: StepId,
        /// On which attempt.
        attempt: u32,
        /// How.
        failure: Failure,
    },
    /// A step neither ended nor failed in its time (rule 11).
    Overdue {
        /// Which.
        step: StepId,
        /// Its limit.
        limit: SignedDuration,
    },
    /// A gate stayed closed for too long (rule 11).
    WaitedTooLong {
        /// Since when.
        since: Timestamp,
        /// For what.
        waiting_for: WaitReason,
    },
    /// A node runs something that the plan does not expect (rule 10).
    Drift {
        /// Which.
        node: NodeName,
        /// What the plan expected.
        expected: Version,
        /// What runs.
        found: Version,
    },
    /// A control plane was to be disrupted without a verified snapshot (rule 3).
    NoSnapshot {
        /// In which hop.
        hop: u32,
    },
    /// The journal belongs to another plan (rule 9).
    OtherPlan {
        /// The plan at hand.
        expected: PlanHash,
        /// The one in the journal.
        found: PlanHash,
    },
}

impl HaltReason {
    /// What a person should do about it.
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::StepFailed { failure, .. } => failure.kind.advice(),
            Self::Overdue { .. } => FailureKind::Deadline.advice(),
            Self::WaitedTooLong { .. } => "mend what it waited for, then resume",
            Self::Drift { .. } => "somebody else changed the node; plan again",
            Self::NoSnapshot { .. } => "take an etcd snapshot and plan again",
            Self::OtherPlan { .. } => "resume with the plan that the journal names, or plan again",
        }
    }
}

impl Display for HaltReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StepFailed { step, attempt, failure } => {
                write!(f, "{step} failed")?;
                if *attempt > 1 {
                    write!(f, " on attempt {attempt}")?;
                }
                write!(f, ": {failure}")
            }
            Self::Overdue { step, limit } => write!(f, "{step} did not end within {limit:#}"),
            Self::WaitedTooLong { since, waiting_for } => {
                write!(f, "waited since {since}, in vain: {waiting_for}")
            }
            Self::Drift { node, expected, found } => {
                write!(f, "{node} runs {found}, where the plan expects {expected}")
            }
            Self::NoSnapshot { hop } => {
                write!(f, "hop {hop} has no verified etcd snapshot to fall back on")
            }
            Self::OtherPlan { expected, found } => {
                let (expected, found) = (expected.short(), found.short());
                write!(f, "the journal belongs to plan {found}, not to {expected}")
            }
        }
    }
}

fn list<T: Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_never_carry_secrets() {
        // Rule 14.
        let failure = Failure::new(FailureKind::Refused, "config rejected: token: abc123");
        assert_eq!(failure.to_string(), "config rejected: token: [redacted]");
        let json = serde_json::to_string(&failure).unwrap();
        assert!(!json.contains("abc123"));
    }

    #[test]
    fn only_what_may_pass_by_itself_is_retried() {
        // Rule 5: a node that booted back is never among them.
        assert!(!FailureKind::BootBack.may_pass());
        assert!(!FailureKind::Installer.may_pass());
        assert!(FailureKind::Unavailable.may_pass());
    }
}
