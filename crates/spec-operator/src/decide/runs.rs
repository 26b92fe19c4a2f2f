//! A run under way, and a run that is over.

use spec_api::condition::Reason;
use spec_api::state::ControlPlaneState;
use upgrade_api::run::RunPhase;
use upgrade_core::guard;
use upgrade_core::mutant::Mutant;
use upgrade_core::product::{Product, VersionRange};

use super::conditions::Outcome;
use super::facts::{Decision, Job, NextAction, Process, Run};
use super::show::Situation;
use super::view::View;
use crate::advice;

/// A run is under way.
pub(super) fn in_progress(view: &View<'_>, run: &Run) -> Decision {
    let facts = view.facts;
    let wanted = run.is_wanted(&view.asked);
    if !wanted {
        let text = format!(
            "Stopping the {} upgrade to {}: it is not wanted any more",
            run.product, run.to
        );
        let situation = Situation::upgrading(run, text);
        return view.decision(&situation, command(view, run, NextAction::Cancel));
    }
    if let Some(by) = &facts.steering.pause {
        let next = command(view, run, NextAction::Pause { by: by.clone() });
        return view.decision(&Situation::paused(run, by), next);
    }
    if facts.process.drives(run.product) {
        let situation = Situation::upgrading(run, told(run));
        return view.decision(&situation, NextAction::Drive);
    }
    by_job(view, run)
}

/// The command for a run of this process. The process of a Job reads the same objects and commands
/// its own run; the operator does so only where no Job runs.
pub(super) fn command(view: &View<'_>, run: &Run, command: NextAction) -> NextAction {
    let Process::Operator { .. } = view.facts.process else { return command };
    let foreign = !view.facts.process.drives(run.product);
    match view.facts.job {
        Job::Running | Job::Foreign { ended: false } if foreign => NextAction::WaitForJob,
        Job::Ended | Job::NotStarted { .. } if foreign => NextAction::EndJob,
        _ => command,
    }
}

/// A run that a Job drives, as the operator sees it.
fn by_job(view: &View<'_>, run: &Run) -> Decision {
    let (text, next) = match view.facts.job {
        Job::Absent => (told(run), NextAction::EnsureJob { to: run.to.clone() }),
        Job::Running => (told(run), NextAction::WaitForJob),
        Job::NotStarted { why, overdue } => {
            let why = why.as_deref().unwrap_or("its pod does not run yet");
            let text = format!("The Job of the upgrade has not started: {why}");
            if *overdue {
                (text.clone(), NextAction::Halt { why: text })
            } else {
                (text, NextAction::WaitForJob)
            }
        }
        Job::Ended => {
            // A process that ends a run says so in it: this one did not come that far.
            let text = "The Job of the upgrade ended before the upgrade did".to_owned();
            (text.clone(), NextAction::Halt { why: text })
        }
        Job::Foreign { ended: true } => (told(run), NextAction::EndJob),
        Job::Foreign { ended: false } => {
            let text = "The Job of another operator upgrades Kubernetes; it is waited for";
            (text.to_owned(), NextAction::WaitForJob)
        }
    };
    view.decision(&Situation::upgrading(run, text), next)
}

fn told(run: &Run) -> String {
    let doing = if run.rollback { "Rolling back" } else { "Upgrading" };
    let Run { product, to, message, .. } = run;
    let message = if message.is_empty() { "it has not started yet" } else { message };
    format!("{doing} {product} to {to} ({}): {message}", run.progress())
}

/// No run is under way, and something of the last one is left: its Job, its outcome, or its
/// failure. `None` if nothing is.
pub(super) fn over(view: &View<'_>) -> Option<Decision> {
    let facts = view.facts;
    let shown = facts.objects.control_plane.status.as_ref();
    let shown = shown.and_then(|status| ControlPlaneState::parse(&status.state));
    let Some(run) = facts.run else { return leftover_job(view) };
    match run.phase {
        RunPhase::Completed if run.product == Product::Kubernetes => {
            let open =
                shown == Some(ControlPlaneState::UpgradingKubernetes) || job_to_end(view).is_some();
            match shown {
                _ if open => judged(view, run),
                // It was judged before, and stays failed while it is not there.
                Some(ControlPlaneState::KubernetesUpgradeFailed) => judged_again(view, run),
                _ => leftover_job(view),
            }
        }
        RunPhase::Halted => {
            // Rule 5: retried by its user only.
            if !guard!(Mutant::FailedRetried, run.is_settled(&view.asked)) {
                return Some(Decision { update: None, next: NextAction::Close });
            }
            Some(failed(view, run, &run.message))
        }
        RunPhase::Completed
        | RunPhase::Cancelled
        | RunPhase::Pending
        | RunPhase::Running
        | RunPhase::Paused => leftover_job(view),
    }
}

/// A run of Kubernetes says that it is completed: a new observation says whether it is.
fn judged(view: &View<'_>, run: &Run) -> Option<Decision> {
    let looking = || Situation::upgrading(run, format!("Verifying Kubernetes {}", run.to));
    let observed = match view.facts.observed {
        None => return Some(view.decision(&looking(), NextAction::Observe)),
        // It is observed again; what came of the run is not known until then (rule 10).
        Some(Err(why)) => {
            let text = format!("Kubernetes {} cannot be verified: {why}", run.to);
            return Some(view.decision(&Situation::upgrading(run, text), NextAction::Idle));
        }
        Some(Ok(observed)) => &observed.kubernetes,
    };
    if let Some(why) = not_there(view, run, observed) {
        return Some(failed(view, run, &why));
    }
    // Without a Job nothing is left to do; what is shown of the end comes from the run.
    let next = job_to_end(view)?;
    let text = format!("Kubernetes {} runs", run.to);
    let situation = Situation::new(Reason::Waiting, text).kubernetes(Outcome::Succeeded);
    Some(view.decision(&situation, next))
}

/// The same, after its failure was shown.
fn judged_again(view: &View<'_>, run: &Run) -> Option<Decision> {
    let unchanged = |next| Some(Decision { update: None, next });
    match view.facts.observed {
        None => unchanged(NextAction::Observe),
        Some(Err(_)) => unchanged(NextAction::Idle),
        Some(Ok(observed)) => {
            not_there(view, run, &observed.kubernetes).map(|why| failed(view, run, &why))
        }
    }
}

/// Why a completed run has failed all the same; `None` if its version runs, or the user asked
/// for something else since, or for another try.
fn not_there(view: &View<'_>, run: &Run, observed: &VersionRange) -> Option<String> {
    let there = observed.lowest == run.to && observed.newest == run.to;
    if there || !run.is_settled(&view.asked) {
        return None;
    }
    let other = if observed.lowest == run.to { &observed.newest } else { &observed.lowest };
    Some(format!("the upgrade ended well, the cluster did not: Kubernetes {other} still runs"))
}

fn failed(view: &View<'_>, run: &Run, why: &str) -> Decision {
    let Run { product, to, .. } = run;
    let message =
        format!("The {product} upgrade to {to} failed: {why}; to try again {}", advice::again());
    let situation = Situation::failed(run, message);
    let next = job_to_end(view).unwrap_or(NextAction::Idle);
    view.decision(&situation, next)
}

/// A Job without a run under way: ours is deleted, another operator's is waited for.
fn leftover_job(view: &View<'_>) -> Option<Decision> {
    let next = job_to_end(view)?;
    if *view.facts.job == (Job::Foreign { ended: false }) {
        let text = "The Job of another operator upgrades Kubernetes; it is waited for".to_owned();
        let situation = Situation::new(Reason::Upgrading, text).kubernetes(Outcome::InProgress);
        return Some(view.decision(&situation, next));
    }
    Some(Decision { update: None, next })
}

/// What happens to the Job of a run that is not under way; `None` without a Job. One whose pod
/// runs is about to end by itself, or to create the run that it was made for by hand. The process
/// of a Job leaves it alone.
pub(super) fn job_to_end(view: &View<'_>) -> Option<NextAction> {
    match (view.facts.process, view.facts.job) {
        (Process::Job, _) | (_, Job::Absent) => None,
        (_, Job::Running | Job::Foreign { ended: false }) => Some(NextAction::WaitForJob),
        (_, Job::NotStarted { .. } | Job::Ended | Job::Foreign { ended: true }) => {
            Some(NextAction::EndJob)
        }
    }
}
