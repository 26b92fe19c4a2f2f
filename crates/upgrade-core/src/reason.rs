//! Why a run waits, halts, or saw a step fail: typed, so that each front end words it for
//! its own users.

use std::fmt::{self, Display};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::advice::{Advice, Fix};
use crate::journal::Effect;
use crate::plan::PlanHash;
use crate::secret::scrub;
use crate::snapshot::NodeName;
use crate::step::StepId;
use crate::text;
use crate::version::Version;

/// What kind of failure a step met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The other side could not be reached, or its answer could not be understood.
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
    /// The node accepted a request, and nothing happened.
    Lost,
    /// Something is not as planned: version, schematic, extensions, image.
    Mismatch,
    /// The deadline passed (rule 11).
    Deadline,
    /// The other side refused.
    Refused,
}

impl FailureKind {
    /// Whether the same call may succeed later without anyone's help.
    pub const fn may_pass(self) -> bool {
        matches!(self, Self::Unavailable | Self::Pull)
    }

    /// What helps, where the failure itself does not know better.
    fn advice(self) -> Advice {
        match self {
            Self::Unavailable => Advice::retry_after(Fix::NodeUnreachable),
            Self::Pull => Advice::retry_after(Fix::Image),
            Self::Installer => Advice::retry_after(Fix::Installer(None)),
            Self::Drain => Advice::retry_after(Fix::Drain),
            Self::NeverReturned => Advice::retry_after(Fix::NodeGone),
            Self::BootBack => Advice::retry_after(Fix::BootFallback),
            Self::Lost => Advice::Retry,
            Self::Mismatch => Advice::plan_after(Fix::NotAsPlanned),
            Self::Deadline => Advice::retry_after(Fix::Overdue),
            Self::Refused => Advice::retry_after(Fix::Refused),
        }
    }
}

/// A failed step: what kind, and what exactly. The text is scrubbed of secrets
/// on the way in (rule 14).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind.
    pub kind: FailureKind,
    /// What happened, without advice.
    text: String,
    /// What a failed install left behind, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    effect: Option<Effect>,
    /// What helps, where that does not follow from the kind. Boxed: failures travel as
    /// errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    advice: Option<Box<Advice>>,
}

impl Failure {
    /// A failure with its explanation.
    pub fn new(kind: FailureKind, text: &str) -> Self {
        Self { kind, text: scrub(text).into_owned(), effect: None, advice: None }
    }

    /// The same failure, of an install that left this behind.
    #[must_use]
    pub fn leaving(self, effect: Effect) -> Self {
        Self { effect: Some(effect), ..self }
    }

    /// The same failure, with what helps.
    #[must_use]
    pub fn advise(self, advice: Advice) -> Self {
        Self { advice: Some(Box::new(advice)), ..self }
    }

    /// What the user can do next.
    pub fn advice(&self) -> Advice {
        self.advice.as_deref().cloned().unwrap_or_else(|| self.kind.advice())
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
    /// Steps are in progress.
    Running {
        /// Some of them.
        steps: Vec<StepId>,
        /// How many in all.
        count: usize,
    },
    /// Something was disrupted since the last observation (rule 2).
    StaleObservation {
        /// The observation must be newer than this.
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
    /// What a decision needs to know about a node is unknown (rule 10).
    NodeUnknown {
        /// Which.
        node: NodeName,
        /// What is missing.
        why: String,
    },
    /// A cordon that an earlier run of ours set has not been lifted yet (rule 7).
    CordonLeft {
        /// The node that has it.
        node: NodeName,
    },
    /// As many workers are unavailable as the policy allows (rule 6).
    NoRoom {
        /// The pool with its own limit, if it is one.
        pool: Option<String>,
        /// The limit.
        limit: usize,
        /// Some of those that are unavailable.
        away: Vec<NodeName>,
        /// How many are unavailable.
        count: usize,
    },
    /// Outside the maintenance windows, or in a freeze.
    Window {
        /// Which.
        why: String,
    },
    /// The user paused the run (rule 12).
    Paused {
        /// Who.
        by: String,
    },
    /// A failed step is retried after a pause.
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
                write!(f, "in progress: {}", text::some(steps, *count))
            }
            Self::StaleObservation { newer_than } => {
                write!(
                    f,
                    "refreshing the cluster's state; the last observation predates {newer_than}"
                )
            }
            Self::EtcdUnsafe { node, why } => write!(f, "{node} cannot be disrupted: {why}"),
            Self::ControlPlaneDown { node, down, why } => {
                write!(f, "{node} cannot be disrupted while control plane {down} is down")?;
                why.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
            }
            Self::NodeUnknown { node, why } => write!(f, "the state of {node} is unknown: {why}"),
            Self::CordonLeft { node } => {
                write!(f, "{node} still has the cordon of an earlier run; ")?;
                f.write_str("it is lifted once the node is ready and the API server answers")
            }
            Self::NoRoom { pool, limit, away, count } => {
                if let Some(pool) = pool {
                    write!(f, "pool {pool}: ")?;
                }
                let are = if *count == 1 { "is" } else { "are" };
                let nodes = text::some(away, *count);
                write!(f, "{nodes} {are} unavailable, and at most {limit} may be")
            }
            Self::Window { why } => f.write_str(why),
            Self::Paused { by } => write!(f, "paused by {by}"),
            Self::Backoff { step, attempt } => {
                write!(f, "{step} failed on attempt {attempt} and is retried shortly")
            }
        }
    }
}

/// Why a run stopped until a user acts.
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
    /// What the user can do next.
    pub fn advice(&self) -> Advice {
        match self {
            Self::StepFailed { failure, .. } => failure.advice(),
            Self::Overdue { .. } => Advice::retry_after(Fix::Overdue),
            Self::WaitedTooLong { .. } => Advice::retry_after(Fix::Gate),
            Self::Drift { .. } => Advice::plan_after(Fix::ChangedOutside),
            Self::NoSnapshot { .. } => Advice::plan_after(Fix::TakeSnapshot),
            Self::OtherPlan { .. } => Advice::RetryJournal,
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
                write!(f, "timed out; waiting since {since} for: {waiting_for}")
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
    fn a_failure_of_an_older_journal_is_read() {
        let failure: Failure = serde_json::from_str(r#"{"kind": "drain", "text": "x"}"#).unwrap();
        assert_eq!(failure.advice(), Advice::retry_after(Fix::Drain));
        assert_eq!(serde_json::to_string(&failure).unwrap(), r#"{"kind":"drain","text":"x"}"#);
    }

    #[test]
    fn a_failure_may_know_better_than_its_kind() {
        let advice = Advice::plan_after(Fix::AwaitInstaller);
        let failure = Failure::new(FailureKind::Refused, "an installer runs").advise(advice);
        let json = serde_json::to_string(&failure).unwrap();
        assert_eq!(serde_json::from_str::<Failure>(&json).unwrap(), failure);
        assert_eq!(failure.advice(), Advice::plan_after(Fix::AwaitInstaller));
        assert_ne!(failure.advice(), FailureKind::Refused.advice());
    }

    #[test]
    fn only_what_may_pass_by_itself_is_retried() {
        // Rule 5: a node that booted back is never among them.
        assert!(!FailureKind::BootBack.may_pass());
        assert!(!FailureKind::Installer.may_pass());
        assert!(FailureKind::Unavailable.may_pass());
    }
}
