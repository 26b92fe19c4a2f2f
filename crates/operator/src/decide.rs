//! What to tell about a cluster, and what to do with it: a pure function of
//! what the user wrote, what was seen, and where the run stands.
//!
//! The rules of the door, in the order in which they are looked at:
//!
//! 1. `do-not-reconcile`: nothing is written; a run under way is paused.
//! 2. `talos-reset-upgrade-state`: a run under way reaches a safe state, then
//!    targets and bookkeeping are wiped and the annotation with them.
//! 3. A run under way goes on while its target stands; a target that was taken
//!    away or changed lets what is in flight finish and cancels it (rule 12).
//! 4. A run that failed keeps its cluster `failed` until its target is taken
//!    away or changed: nobody retries behind a person's back (rule 5).
//! 5. Otherwise the Talos target comes first, then the Kubernetes one, which is
//!    `blocked` while Talos is not done.

mod rest;
pub mod target;
#[cfg(test)]
mod tests;
mod verdict;
mod words;

use upgrade_core::product::Product;
use upgrade_core::version::Version;
use vitistack_api::annotation;
use vitistack_api::run::RunPhase;
use vitistack_api::status::{Phase, Reason, Status};

use crate::names;
use rest::{at_rest, resting};

pub use verdict::{Act, Facts, RunView, Verdict, Words, Write};

/// Decides.
pub fn decide(facts: &Facts<'_>) -> Verdict {
    let run = facts.run;
    let active = run.filter(|run| run.is_under_way());
    if facts.wish.hands_off {
        let by = annotation::DO_NOT_RECONCILE[0].to_owned();
        let act = if active.is_some() { Act::Pause { by } } else { Act::Rest };
        return Verdict { write: None, act };
    }
    if let Some(run) = active {
        return under_way(facts, run);
    }
    if facts.wish.reset {
        return reset(facts);
    }
    match run {
        // Told once; afterwards the target, if it comes back, is simply there.
        Some(run)
            if run.phase == RunPhase::Completed
                && facts.said(run.product) == Some(Status::InProgress) =>
        {
            return completed(facts, run);
        }
        Some(run) if run.phase == RunPhase::Halted => {
            if run.is_wanted(facts.wish) && !run.let_go {
                return failed(facts, run);
            }
            return Verdict { write: None, act: Act::Close };
        }
        _ => {}
    }
    at_rest(facts)
}

/// A run is under way.
fn under_way(facts: &Facts<'_>, run: &RunView) -> Verdict {
    let wish = facts.wish;
    let (act, reason, message) = if wish.reset || !run.is_wanted(wish) {
        (Act::Cancel, Reason::InProgress, words::stopping(run))
    } else if let Some(by) = &wish.pause {
        (Act::Pause { by: by.clone() }, Reason::Paused, words::paused(run, by))
    } else {
        (Act::Drive, Reason::InProgress, words::in_progress(run))
    };
    let own = Words {
        status: Status::InProgress,
        reason,
        message,
        progress: Some(run.progress()),
        // What runs while it changes is told at the end, when it is verified.
        versions: None,
    };
    let other = match run.product {
        Product::Talos => Product::Kubernetes,
        Product::Kubernetes => Product::Talos,
    };
    let other_words = if wish.target(other).is_some() {
        words::waits_for(other, run.product)
    } else {
        resting(facts, other)
    };
    let phase = match run.product {
        Product::Talos => Phase::UpgradingTalos,
        Product::Kubernetes => Phase::UpgradingKubernetes,
    };
    Verdict { write: Some(write(run.product, own, other_words, Some(phase))), act }
}

/// Wipes what was remembered. The run, if one failed, is closed first.
fn reset(facts: &Facts<'_>) -> Verdict {
    if facts.run.is_some_and(|run| run.phase == RunPhase::Halted) {
        return Verdict { write: None, act: Act::Close };
    }
    let idle = |product| Words {
        progress: None,
        ..words::idle(product, facts.sight(), facts.seen, facts.releases)
    };
    let write = Write {
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
    Verdict { write: Some(write), act: Act::Rest }
}

/// A run came to its end, and nobody was told yet.
fn completed(facts: &Facts<'_>, run: &RunView) -> Verdict {
    let mut own = words::completed(run);
    own.versions = Some((run.to.clone(), None));
    let other = match run.product {
        Product::Talos => Product::Kubernetes,
        Product::Kubernetes => Product::Talos,
    };
    let other_words = if facts.wish.target(other).is_some() {
        words::next_in_line(other)
    } else {
        Words { versions: None, ..resting(facts, other) }
    };
    // The other target is decided on after a fresh look.
    let mut write = write(run.product, own, other_words, Some(Phase::Ready));
    if run.is_wanted(facts.wish) {
        write.remove.push(names::target(run.product));
        if run.rollback {
            write.remove.push(annotation::ROLLBACK);
        }
    }
    Verdict { write: Some(write), act: Act::Look }
}

/// A run failed, and its target still stands.
fn failed(facts: &Facts<'_>, run: &RunView) -> Verdict {
    let own = Words {
        status: Status::Failed,
        reason: Reason::Failed,
        message: words::failed(run),
        progress: (run.total > 0).then(|| run.progress()),
        versions: versions(facts, run.product),
    };
    let other_words = match run.product {
        Product::Talos if facts.wish.kubernetes.is_some() => words::waits_for_failed_talos(run),
        Product::Talos => resting(facts, Product::Kubernetes),
        // A failed Kubernetes upgrade does not stand in the way of mending it
        // with another Talos, but nothing begins while it is not settled.
        Product::Kubernetes if facts.wish.talos.is_some() => {
            words::waits_for_failed_kubernetes(run)
        }
        Product::Kubernetes => resting(facts, Product::Talos),
    };
    let write = write(run.product, own, other_words, our_phase(facts, Phase::UpgradeFailed));
    Verdict { write: Some(write), act: Act::Rest }
}
fn versions(facts: &Facts<'_>, product: Product) -> Option<(Version, Option<Version>)> {
    let seen = facts.sight()?;
    let available = target::step(product, seen, facts.releases);
    Some((seen.of_product(product).lowest.clone(), available))
}

/// The phase, unless the platform is doing something else with the cluster. A
/// cluster without any status gets one once it was seen.
fn our_phase(facts: &Facts<'_>, phase: Phase) -> Option<Phase> {
    if facts.phase.is_empty() {
        return (phase != Phase::Ready || facts.sight().is_some()).then_some(phase);
    }
    Phase::parse(facts.phase).map(|_| phase)
}

fn write(product: Product, own: Words, other: Words, phase: Option<Phase>) -> Write {
    let (talos, kubernetes) = match product {
        Product::Talos => (own, other),
        Product::Kubernetes => (other, own),
    };
    Write { talos, kubernetes, phase, remove: Vec::new() }
}
