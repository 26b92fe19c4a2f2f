//! The status of a cluster and the next action: a pure function of what the user wrote, the
//! observed versions, and the newest run.
//!
//! The rules of this front end, in order:
//!
//! 1. `do-not-reconcile`: nothing is written; a run under way is paused.
//! 2. `talos-reset-upgrade-state`: a run under way reaches a safe state, then
//!    targets and bookkeeping are wiped and the annotation with them.
//! 3. A run continues while its target stands; once its target is removed or changed, the
//!    node in flight finishes and the run is cancelled (rule 12).
//! 4. A failed run keeps its cluster `failed` until its target is removed or changed: no run
//!    is retried without the user's word (rule 5).
//! 5. Otherwise the Talos target comes first, then the Kubernetes one, which is
//!    `blocked` while Talos is not done.

mod decision;
mod idle;
mod messages;
pub mod target;
#[cfg(test)]
mod tests;

use upgrade_api::run::RunPhase;
use upgrade_core::guard;
use upgrade_core::mutant::Mutant;
use upgrade_core::product::Product;
use upgrade_core::version::Version;
use vitistack_api::annotation;
use vitistack_api::status::{Phase, Reason, Status};

use crate::keys;
use crate::status::{ProductStatus, StatusUpdate};
use idle::{at_rest, without_run};

pub use decision::{Decision, Facts, NextAction, RunView};

/// Decides.
pub fn decide(facts: &Facts<'_>) -> Decision {
    let run = facts.run;
    let active = run.filter(|run| run.is_active());
    if facts.request.do_not_reconcile {
        let by = annotation::DO_NOT_RECONCILE[0].to_owned();
        let act = if active.is_some() { NextAction::Pause { by } } else { NextAction::Idle };
        return Decision { update: None, next: act };
    }
    if let Some(run) = active {
        return in_progress(facts, run);
    }
    if facts.request.reset {
        return reset(facts);
    }
    match run {
        // Told once; afterwards the target, if it comes back, is simply there.
        Some(run)
            if run.phase == RunPhase::Completed
                && facts.reported(run.product) == Some(Status::InProgress) =>
        {
            return completed(facts, run);
        }
        Some(run) if run.phase == RunPhase::Halted => {
            // Rule 5: retried by its user only.
            if guard!(Mutant::FailedRetried, run.is_wanted(facts.request) && !run.target_removed) {
                return failed(facts, run);
            }
            return Decision { update: None, next: NextAction::Close };
        }
        _ => {}
    }
    without_run(facts)
}

/// A run is under way.
fn in_progress(facts: &Facts<'_>, run: &RunView) -> Decision {
    let request = facts.request;
    let (act, reason, message) = if request.reset || !run.is_wanted(request) {
        (NextAction::Cancel, Reason::InProgress, messages::stopping(run))
    } else if let Some(by) = &request.steering.pause {
        (NextAction::Pause { by: by.clone() }, Reason::Paused, messages::paused(run, by))
    } else {
        (NextAction::Drive, Reason::InProgress, messages::in_progress(run))
    };
    let own = ProductStatus {
        status: Status::InProgress,
        reason,
        message,
        progress: Some(run.progress()),
        // Versions that change meanwhile are shown at the end, once they are verified.
        versions: None,
    };
    let other = match run.product {
        Product::Talos => Product::Kubernetes,
        Product::Kubernetes => Product::Talos,
    };
    let other_status = if request.target(other).is_some() {
        messages::waits_for(other, run.product)
    } else {
        at_rest(facts, other)
    };
    let phase = match run.product {
        Product::Talos => Phase::UpgradingTalos,
        Product::Kubernetes => Phase::UpgradingKubernetes,
    };
    Decision { update: Some(write(run.product, own, other_status, Some(phase))), next: act }
}

/// Wipes what was remembered. The run, if one failed, is closed first.
fn reset(facts: &Facts<'_>) -> Decision {
    if facts.run.is_some_and(|run| run.phase == RunPhase::Halted) {
        return Decision { update: None, next: NextAction::Close };
    }
    let idle = |product| ProductStatus {
        progress: None,
        ..messages::idle(product, facts.versions(), facts.observed, facts.releases)
    };
    let write = StatusUpdate {
        talos: idle(Product::Talos),
        kubernetes: idle(Product::Kubernetes),
        phase: our_phase(facts, Phase::Ready),
        remove: vec![
            annotation::RESET,
            annotation::TALOS_TARGET,
            annotation::KUBERNETES_TARGET,
            annotation::ROLLBACK,
        ],
    };
    Decision { update: Some(write), next: NextAction::Idle }
}

/// A run completed, and its status was not written yet.
fn completed(facts: &Facts<'_>, run: &RunView) -> Decision {
    let mut own = messages::completed(run);
    own.versions = Some((run.to.clone(), None));
    let other = match run.product {
        Product::Talos => Product::Kubernetes,
        Product::Kubernetes => Product::Talos,
    };
    let other_status = if facts.request.target(other).is_some() {
        messages::next_in_line(other)
    } else {
        ProductStatus { versions: None, ..at_rest(facts, other) }
    };
    // The other target is decided on after a fresh look.
    let mut write = write(run.product, own, other_status, Some(Phase::Ready));
    if run.is_wanted(facts.request) {
        write.remove.push(keys::target(run.product));
        if run.rollback {
            write.remove.push(annotation::ROLLBACK);
        }
    }
    Decision { update: Some(write), next: NextAction::Observe }
}

/// A run failed, and its target still stands.
fn failed(facts: &Facts<'_>, run: &RunView) -> Decision {
    let own = ProductStatus {
        status: Status::Failed,
        reason: Reason::Failed,
        message: messages::failed(run),
        progress: (run.total > 0).then(|| run.progress()),
        versions: versions(facts, run.product),
    };
    let other_status = match run.product {
        Product::Talos if facts.request.kubernetes.is_some() => {
            messages::waits_for_failed_talos(run)
        }
        Product::Talos => at_rest(facts, Product::Kubernetes),
        // A failed Kubernetes upgrade may be fixed by another Talos, but nothing starts until
        // it is settled.
        Product::Kubernetes if facts.request.talos.is_some() => {
            messages::waits_for_failed_kubernetes(run)
        }
        Product::Kubernetes => at_rest(facts, Product::Talos),
    };
    let write = write(run.product, own, other_status, our_phase(facts, Phase::UpgradeFailed));
    Decision { update: Some(write), next: NextAction::Idle }
}
fn versions(facts: &Facts<'_>, product: Product) -> Option<(Version, Option<Version>)> {
    let seen = facts.versions()?;
    let available = target::step(product, seen, facts.releases);
    Some((seen.of_product(product).lowest.clone(), available))
}

/// The phase, unless the platform is doing something else with the cluster. A
/// cluster without any status gets one once it was seen.
fn our_phase(facts: &Facts<'_>, phase: Phase) -> Option<Phase> {
    if facts.phase.is_empty() {
        return (phase != Phase::Ready || facts.versions().is_some()).then_some(phase);
    }
    Phase::parse(facts.phase).map(|_| phase)
}

fn write(
    product: Product,
    own: ProductStatus,
    other: ProductStatus,
    phase: Option<Phase>,
) -> StatusUpdate {
    let (talos, kubernetes) = match product {
        Product::Talos => (own, other),
        Product::Kubernetes => (other, own),
    };
    StatusUpdate { talos, kubernetes, phase, remove: Vec::new() }
}
