//! What is shown of a unit, and what happens next: a pure function of the objects, what was
//! observed of the cluster, the newest run and its Job.
//!
//! The rules of this front end, in order:
//!
//! 1. A control plane that is being deleted: a run under way reaches a safe state and ends, the
//!    Job goes, then the finalizer. No machine is reset.
//! 2. `reconcile-mode: disable`, or `dryrun`: a run under way is paused. Nothing is begun; a dry
//!    run tells what would be.
//! 3. Two units with a common machine: a run under way is paused, and nothing is begun (rule 9).
//! 4. A run continues while the user asks for the same; once that changed, the nodes in flight
//!    finish and it is cancelled (rule 12). Kubernetes is driven by a Job unless the operator may
//!    make none.
//! 5. A run that is over is judged by the run and by a new observation, never by the Job alone;
//!    then the Job is deleted, whatever came of it.
//! 6. A failed run keeps its unit failed until the user asks for something else or for another
//!    try (rule 5).
//! 7. What cannot be observed, or is contradictory, starts nothing (rule 10).
//! 8. Versions that the user did not write since the objects were adopted do not count.
//! 9. A version that is older than what runs needs the annotation `rollback`, unless an unfinished
//!    run came from it (rules 12 and 13).
//! 10. Otherwise the first stretch of the path begins, of one product.

mod conditions;
mod facts;
mod idle;
mod runs;
mod settle;
mod show;
#[cfg(test)]
mod tests;
mod view;

use spec_api::ReconcileMode;
use spec_api::condition::Reason;

pub use conditions::ShownCondition;
pub use facts::{Begin, Decision, Facts, Job, NextAction, NodeStage, Process, Run};
pub use settle::until_settled;
pub use show::{Shown, Update};

use show::Situation;
use view::View;

/// Decides.
pub fn decide(facts: &Facts<'_>) -> Decision {
    let view = View::of(facts);
    if facts.objects.control_plane.metadata.deletion_timestamp.is_some() {
        return leaving(&view);
    }
    match facts.unit.mode {
        ReconcileMode::Disable => return hands_off(&view),
        ReconcileMode::DryRun if view.active().is_some() => return hands_off(&view),
        ReconcileMode::DryRun | ReconcileMode::Reconcile | ReconcileMode::Import => {}
    }
    if let Some(problem) = facts.conflicts.first() {
        let by = problem.to_string();
        let situation = Situation::new(Reason::Conflict, by.clone());
        let pause = |run| runs::command(&view, run, NextAction::Pause { by });
        let next = view.active().map_or(NextAction::Idle, pause);
        return view.decision(&situation, next);
    }
    if let Some(run) = view.active() {
        return runs::in_progress(&view, run);
    }
    if let Some(decision) = runs::over(&view) {
        return decision;
    }
    idle::idle(&view)
}

/// The control plane is being deleted.
fn leaving(view: &View<'_>) -> Decision {
    let (message, next) = if let Some(run) = view.active() {
        let message = format!("The {} upgrade to {} is being stopped", run.product, run.to);
        (message, runs::command(view, run, NextAction::Cancel))
    } else {
        let message = "The object is being deleted; no machine is reset".to_owned();
        (message, runs::job_to_end(view).unwrap_or(NextAction::Release))
    };
    view.decision(&Situation::new(Reason::Deleting, message), next)
}

/// The user keeps the operator away. A run that goes on must not look as if it did not.
fn hands_off(view: &View<'_>) -> Decision {
    let Some(run) = view.active() else {
        return Decision { update: None, next: NextAction::Idle };
    };
    let by = format!("annotation {}", spec_api::RECONCILE_MODE);
    let next = runs::command(view, run, NextAction::Pause { by: by.clone() });
    view.decision(&Situation::paused(run, &by), next)
}
