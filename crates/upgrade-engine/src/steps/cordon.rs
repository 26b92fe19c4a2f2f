//! Cordons a node, and lifts the cordon again. One that somebody else set is
//! not ours to lift (rule 7).

use upgrade_core::mutant::{self, Mutant};
use upgrade_core::reason::{Failure, FailureKind};

use super::wait::{Look, Wait};
use super::{Done, Step};
use crate::io::{Happened, Io, Kubernetes as _};
use crate::observe::limited;

/// Cordons the node.
pub(crate) async fn run<I: Io>(step: &Step<I>) -> Result<Done, Failure> {
    if step.best_effort && step.evidence.is_none() {
        // A way back does not wait for Kubernetes (rule 12); a cordon of which
        // nobody knows whose it is could never be lifted (rule 7).
        return Ok(Done::Skipped("nobody can tell whether it is cordoned already".to_owned()));
    }
    if step.found_cordoned {
        return Ok(Done::Skipped("somebody cordoned it before; that stays".to_owned()));
    }
    let node = step.node()?;
    step.tenants.remember(step, node).await;
    set(step, true).await
}

/// Lifts our cordon.
pub(crate) async fn lift<I: Io>(step: &Step<I>) -> Result<Done, Failure> {
    if mutant::is(Mutant::CordonForgotten) {
        return Ok(Done::Did);
    }
    if step.found_cordoned && !mutant::is(Mutant::FoundCordonLifted) {
        return Ok(Done::Skipped("the cordon is not ours to lift".to_owned()));
    }
    let done = set(step, false).await?;
    step.tenants.settle(step, step.node()?).await;
    Ok(done)
}

/// Saying it twice changes nothing, so nothing has to be looked for first.
async fn set<I: Io>(step: &Step<I>, unschedulable: bool) -> Result<Done, Failure> {
    let node = step.node()?;
    let kubernetes = step.io.kubernetes();
    step.permitted()?;
    if let Err(trouble) = kubernetes.set_unschedulable(node, unschedulable).await {
        // If only the answer was lost, the node shows it. Who does not ask takes a
        // cordon that somebody else sets later for ours (rule 7).
        let shows = trouble.happened == Happened::Maybe
            && limited(&*step.io, step.kubernetes_facts())
                .await
                .is_ok_and(|facts| facts.unschedulable == unschedulable);
        return if shows { Ok(Done::Did) } else { Err(trouble.failure) };
    }
    let what = if unschedulable { "cordoned" } else { "uncordoned" };
    let wait = Wait::new(FailureKind::Deadline, format!("{node} was not {what}"));
    wait.on(kubernetes.changes())
        .look(step, || async {
            Ok(match step.kubernetes_facts().await {
                Ok(facts) if facts.unschedulable == unschedulable => Look::Found(Done::Did),
                Ok(_) => Look::NotYet(format!("{node} is not {what} yet")),
                Err(trouble) => Look::NotYet(trouble.to_string()),
            })
        })
        .await
}
