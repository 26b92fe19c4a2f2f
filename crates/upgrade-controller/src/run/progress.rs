//! Where a run stands, for people: the fold of its journal as nodes and words.

use std::collections::{BTreeMap, BTreeSet};

use upgrade_api::run::NodeProgress;
use upgrade_core::journal::State;
use upgrade_core::plan::Plan;
use upgrade_core::reason::{FailureKind, HaltReason, WaitReason};
use upgrade_core::snapshot::{NodeName, Role, Snapshot};
use upgrade_core::step::StepId;
use upgrade_core::text;
use upgrade_view::{RunView, Stage};

/// How many nodes an object lists; those that matter come first. It bounds the
/// object of a run over thousands of nodes.
const LISTED: usize = 250;

/// How many nodes a sentence names.
const NAMED: usize = 3;

const PENDING: &str = "pending";
const UNDER_WAY: &str = "in-progress";
const DONE: &str = "done";
const FAILED: &str = "failed";

/// Where a run stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunProgress {
    /// The nodes, at most `LISTED` of them.
    pub nodes: Vec<NodeProgress>,
    /// Nodes done.
    pub done: usize,
    /// Nodes in all.
    pub total: usize,
    /// What is done right now.
    pub message: String,
}

impl RunProgress {
    /// As in `2/5`.
    pub fn progress(&self) -> String {
        format!("{}/{}", self.done, self.total)
    }
}

/// Every node of a cluster with its role, before anything is done to it.
pub fn roles(snapshot: &Snapshot) -> BTreeMap<NodeName, Role> {
    snapshot.nodes.iter().map(|(name, node)| (name.clone(), node.role)).collect()
}

/// The progress of a run. Nodes that the plan does not change count as done, and so do those
/// that an object was too small to list.
pub(super) fn progress(
    plan: &Plan,
    state: &State,
    what: &str,
    roles: &BTreeMap<NodeName, Role>,
    unlisted: usize,
) -> RunProgress {
    let view = RunView::new(plan, state).nodes();
    let changes: BTreeMap<&NodeName, upgrade_view::NodeProgress<'_>> =
        view.iter().filter_map(|node| Some((node.node?, node.changes()?))).collect();
    let everyone: BTreeSet<&NodeName> = roles.keys().chain(changes.keys().copied()).collect();
    let cordoned: BTreeSet<&NodeName> = state.our_cordons().collect();
    let mut nodes: Vec<NodeProgress> = everyone
        .iter()
        .map(|name| {
            let change = changes.get(*name);
            let (word, step) = change.map_or((DONE, String::new()), words);
            let failed = change.and_then(upgrade_view::NodeProgress::failed);
            NodeProgress {
                name: name.0.clone(),
                role: roles.get(*name).map_or("", |role| role_word(*role)).to_owned(),
                state: word.to_owned(),
                step,
                failure: failed.map(|(_, failure)| kind_word(failure.kind)).unwrap_or_default(),
                armed: state.armed().contains_key(*name),
                cordoned: cordoned.contains(*name),
            }
        })
        .collect();
    let done = nodes.iter().filter(|node| node.state == DONE).count() + unlisted;
    let total = nodes.len() + unlisted;
    let moving: Vec<&str> = nodes
        .iter()
        .filter(|node| node.state == UNDER_WAY)
        .map(|node| node.name.as_str())
        .collect();
    let message = match moving.as_slice() {
        [] if done < total => format!("Preparing the {what} upgrade"),
        [] => format!("Finishing the {what} upgrade"),
        [one] => format!("Upgrading node {one}"),
        several => format!("Upgrading nodes {}", text::first(several, NAMED)),
    };
    let rank = |word: &str| [UNDER_WAY, FAILED, PENDING].iter().position(|it| *it == word);
    nodes.sort_by_key(|node| rank(&node.state).unwrap_or(usize::MAX));
    nodes.truncate(LISTED);
    RunProgress { nodes, done, total, message }
}

/// The state of a node, and its step. A failure is shown until it is retried, also while the
/// node is uncordoned.
fn words(node: &upgrade_view::NodeProgress<'_>) -> (&'static str, String) {
    if let Some((step, failure)) = node.failed() {
        return (FAILED, format!("{}: {failure}", step.action));
    }
    match node.stage() {
        Stage::Running { step, .. } | Stage::Interrupted { step } | Stage::Failed { step, .. } => {
            (UNDER_WAY, step.action.to_string())
        }
        Stage::Queued { done: 0, .. } => (PENDING, String::new()),
        Stage::Queued { .. } => (UNDER_WAY, String::new()),
        Stage::Done => (DONE, String::new()),
    }
}

/// The name of a kind of failure in the object: that of the journal.
fn kind_word(kind: FailureKind) -> String {
    let word = serde_json::to_value(kind).ok();
    word.as_ref().and_then(|word| word.as_str()).unwrap_or_default().to_owned()
}

/// The name of a role in the object.
pub(super) const fn role_word(role: Role) -> &'static str {
    match role {
        Role::ControlPlane => upgrade_api::label::CONTROL_PLANE,
        Role::Worker => upgrade_api::label::WORKER,
    }
}

/// Why a run halted, as a sentence that names the node, and the advice of the front end.
pub fn halted(reason: &HaltReason, advice: &str) -> String {
    let what = match reason {
        HaltReason::StepFailed {
            step: StepId { node: Some(node), action, .. }, failure, ..
        } => match failure.kind {
            FailureKind::NeverReturned => {
                format!("node {node} did not come back online: {failure}")
            }
            FailureKind::BootBack => {
                format!("node {node} came back on its old version: {failure}")
            }
            _ => format!("node {node}: {action} failed: {failure}"),
        },
        HaltReason::StepFailed { step: StepId { action, .. }, failure, .. } => {
            format!("{action} failed: {failure}")
        }
        HaltReason::Overdue { step: StepId { node: Some(node), action, .. }, limit } => {
            format!("node {node}: {action} did not end within {limit:#}")
        }
        other => other.to_string(),
    };
    format!("{what}. {}", sentence(advice))
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}", chars.as_str())
}

/// Why a run waits, where a person can do something about it or should know.
pub fn waiting(reason: &WaitReason) -> Option<String> {
    match reason {
        WaitReason::Running { .. }
        | WaitReason::StaleObservation { .. }
        | WaitReason::Paused { .. } => None,
        other => Some(format!("Waiting: {other}")),
    }
}
