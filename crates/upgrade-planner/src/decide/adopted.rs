//! Cordons of an earlier run that this one replaces (rule 7): each is lifted once its node
//! serves, before anything else is disrupted, and the run is not over while one is left.

use upgrade_core::jiff::Timestamp;
use upgrade_core::journal::State;
use upgrade_core::plan::Plan;
use upgrade_core::reason::{HaltReason, WaitReason};
use upgrade_core::snapshot::{Node, NodeName, Snapshot};

use super::{Decision, Tried, after};

/// A cordon to lift.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lift {
    /// The node that has it.
    pub node: NodeName,
    /// It was lifted already and the answer was lost. This is only recorded: a cordon that is
    /// set from now on is not ours.
    pub is_gone: bool,
}

/// Those whose nodes serve, once for each observation.
pub(super) fn lifts(state: &State, tried: &Tried, snapshot: &Snapshot) -> Vec<Lift> {
    if tried.lifted_on == Some(snapshot.taken_at) {
        return Vec::new();
    }
    let seen = |node: &NodeName| snapshot.nodes.get(node).filter(|node| node.is_up());
    let lift = |node: &NodeName| {
        let is_gone =
            |it: &Node| it.kubernetes.known().is_some_and(|facts| !facts.has_our_cordon());
        Some(Lift { is_gone: is_gone(seen(node)?), node: node.clone() })
    };
    state.inherited_cordons().iter().filter_map(lift).collect()
}

/// Everything planned is done. The run is over when no node of the cluster has a cordon of an
/// earlier run, or when that took too long (rule 11).
pub(super) fn over(plan: &Plan, state: &State, snapshot: &Snapshot, now: Timestamp) -> Decision {
    // A node without a known machine has not left the cluster (rule 10): it may be booting.
    let is_there = |node: &&NodeName| {
        let unmatched = snapshot.unmatched.contains_key(*node);
        snapshot.nodes.contains_key(*node)
            || (unmatched && !plan.policy.foreign_nodes.contains(*node))
    };
    let Some(node) = state.inherited_cordons().iter().find(is_there) else {
        return Decision::Done;
    };
    let reason = WaitReason::CordonLeft { node: node.clone() };
    let since = state.waiting_since(&reason.key()).unwrap_or(now);
    let until = after(since, plan.policy.timeouts.gate);
    if now < until {
        return Decision::Wait { reason, until, gives_up: true, observe: true };
    }
    Decision::Halt {
        reason: HaltReason::WaitedTooLong { since, waiting_for: reason },
        finish: Vec::new(),
        armed: state.next_boots(),
        cordoned: cordoned(state),
        observe_until: None,
    }
}

/// Nodes with a cordon of ours, those of the earlier run last.
pub(super) fn cordoned(state: &State) -> Vec<NodeName> {
    state.our_cordons().chain(state.inherited_cordons()).cloned().collect()
}
