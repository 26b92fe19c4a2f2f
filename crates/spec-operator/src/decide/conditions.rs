//! Conditions, and what follows from each reason.

use spec_api::condition::{ConditionType, Reason};

use super::facts::Run;

/// A condition to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownCondition {
    /// Its type.
    pub kind: ConditionType,
    /// Whether it holds; `None` removes it.
    pub holds: Option<bool>,
    /// Why.
    pub reason: Reason,
    /// The same in a sentence.
    pub message: String,
}

/// What came of the last upgrade of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    InProgress,
    Succeeded,
    Failed,
}

/// `Ready`, `Reconciling` and `Stalled`.
pub(super) fn kstatus(reason: Reason, message: &str) -> Vec<ShownCondition> {
    let (reconciling, stalled) = match reason {
        Reason::Upgrading | Reason::Waiting | Reason::Unreachable | Reason::Deleting => {
            (true, false)
        }
        // Nothing more happens without the user.
        Reason::Refused
        | Reason::Failed
        | Reason::Conflict
        | Reason::NotProvisioned
        | Reason::UnsupportedMode
        | Reason::Adopted => (false, true),
        // Neither under way nor broken: a pause, and the end.
        _ => (false, false),
    };
    let condition =
        |kind, holds| ShownCondition { kind, holds, reason, message: message.to_owned() };
    vec![
        condition(ConditionType::Ready, Some(reason == Reason::Reconciled)),
        condition(ConditionType::Reconciling, reconciling.then_some(true)),
        condition(ConditionType::Stalled, stalled.then_some(true)),
    ]
}

/// Whether a run is under way, and how far it is.
pub(super) fn progressing(run: Option<&Run>, message: &str) -> ShownCondition {
    ShownCondition {
        kind: ConditionType::Progressing,
        holds: run.map(|_| true),
        reason: Reason::Upgrading,
        message: message.to_owned(),
    }
}

/// Of the three, exactly one is true.
pub(super) fn outcomes(outcome: Outcome, message: &str) -> [ShownCondition; 3] {
    let condition = |kind, own: Outcome, reason| ShownCondition {
        kind,
        holds: Some(own == outcome),
        reason,
        message: message.to_owned(),
    };
    let reason = match outcome {
        Outcome::InProgress => Reason::UpgradeInProgress,
        Outcome::Succeeded => Reason::UpgradeSucceeded,
        Outcome::Failed => Reason::UpgradeFailed,
    };
    [
        condition(ConditionType::KubernetesUpgradeInProgress, Outcome::InProgress, reason),
        condition(ConditionType::KubernetesUpgradeSucceeded, Outcome::Succeeded, reason),
        condition(ConditionType::KubernetesUpgradeFailed, Outcome::Failed, reason),
    ]
}
