//! Cordons a node, and uncordons it again. A cordon that another user set is not ours to lift
//! (rule 7).

use upgrade_core::guard;
use upgrade_core::mutant::Mutant;
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::snapshot::KubernetesFacts;

use super::wait::{Probe, Wait};
use super::{Completion, Step};
use crate::io::{Applied, Io, Kubernetes as _};
use crate::observe::limited;

pub(crate) async fn run<I: Io>(step: &Step<I>) -> Result<Completion, Failure> {
    if step.best_effort && step.evidence.is_none() {
        // A rollback does not wait for Kubernetes (rule 12), and a cordon whose owner is not known
        // could never be lifted (rule 7).
        return Ok(Completion::Skipped("whether it is cordoned already is not known".to_owned()));
    }
    if step.found_cordoned {
        return Ok(Completion::Skipped(
            "it was cordoned before the upgrade, and stays so".to_owned(),
        ));
    }
    let node = step.node()?;
    if is_cordoned_by_others(step).await? {
        return Ok(Completion::Skipped(
            "another user has cordoned it meanwhile; it stays cordoned".to_owned(),
        ));
    }
    step.evicted_owners.remember(step, node).await;
    set(step, true).await
}

/// Lifts our cordon.
pub(crate) async fn lift<I: Io>(step: &Step<I>) -> Result<Completion, Failure> {
    if !guard!(Mutant::CordonForgotten) {
        return Ok(Completion::Done);
    }
    if guard!(Mutant::FoundCordonLifted, step.found_cordoned) {
        return Ok(Completion::Skipped("the cordon is not ours to lift".to_owned()));
    }
    if guard!(Mutant::FoundCordonLifted, is_cordoned_by_others(step).await?) {
        // Ours is gone: an earlier attempt lifted it and was interrupted, or another user lifted
        // it.
        step.evicted_owners.settle(step, step.node()?).await;
        return Ok(Completion::Skipped(
            "our cordon is gone; another user has cordoned it".to_owned(),
        ));
    }
    let done = set(step, false).await?;
    step.evicted_owners.settle(step, step.node()?).await;
    Ok(done)
}

/// Whether the node has a cordon without our mark (rule 7): set since an earlier attempt of this
/// step, which may have acted. Before the first attempt the journal knows whose cordon it is.
async fn is_cordoned_by_others<I: Io>(step: &Step<I>) -> Result<bool, Failure> {
    if !step.in_doubt {
        return Ok(false);
    }
    let facts = limited(&*step.io, step.kubernetes_facts()).await;
    facts.map(|facts| facts.is_cordoned_by_others()).map_err(|error| error.failure)
}

/// Cordons or uncordons the node. Doing it twice changes nothing.
async fn set<I: Io>(step: &Step<I>, unschedulable: bool) -> Result<Completion, Failure> {
    let node = step.node()?;
    let kubernetes = step.io.kubernetes();
    let shows = |facts: &KubernetesFacts| {
        if unschedulable { facts.unschedulable } else { !facts.has_our_cordon() }
    };
    step.permitted()?;
    if let Err(error) = kubernetes.set_unschedulable(node, unschedulable).await {
        // If only the answer was lost, the node shows the change.
        let done = error.applied == Applied::Unknown
            && limited(&*step.io, step.kubernetes_facts()).await.is_ok_and(|facts| shows(&facts));
        return if done { Ok(Completion::Done) } else { Err(error.failure) };
    }
    let what = if unschedulable { "cordoned" } else { "uncordoned" };
    let wait = Wait::new(FailureKind::Deadline, format!("{node} was not {what}"));
    wait.on(kubernetes.changes())
        .poll(step, || async {
            Ok(match step.kubernetes_facts().await {
                Ok(facts) if shows(&facts) => Probe::Found(Completion::Done),
                Ok(_) => Probe::NotYet(format!("{node} is not {what} yet")),
                Err(error) => Probe::NotYet(error.to_string()),
            })
        })
        .await
}
