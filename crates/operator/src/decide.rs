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

pub mod target;
#[cfg(test)]
mod tests;
mod words;

use upgrade_core::version::Version;
use vitistack_api::annotation;
use vitistack_api::run::{Product, RunPhase};
use vitistack_api::status::{Phase, Reason, Status};

use crate::names;
use crate::seen::Seen;
use crate::wish::Wish;
use target::{Checked, Releases};

/// The newest run of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunView {
    /// What it upgrades.
    pub product: Product,
    /// To what.
    pub to: Version,
    /// Whether it is a way back.
    pub rollback: bool,
    /// Where it stands.
    pub phase: RunPhase,
    /// The same in a sentence.
    pub message: String,
    /// Nodes done.
    pub done: usize,
    /// Nodes in all.
    pub total: usize,
    /// Its target was taken away since it ended, if only for a moment.
    pub let_go: bool,
}

impl RunView {
    /// Whether something is done, or will be without another word of the user.
    fn is_under_way(&self) -> bool {
        matches!(self.phase, RunPhase::Pending | RunPhase::Running | RunPhase::Paused)
    }

    fn is_wanted(&self, wish: &Wish) -> bool {
        wish.means(self.product, &self.to) && wish.rollback == self.rollback
    }

    fn progress(&self) -> String {
        format!("{}/{}", self.done, self.total)
    }
}

/// All that a decision is made from.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// What the user wrote.
    pub wish: &'a Wish,
    /// What the object says of Talos now.
    pub talos_said: Option<Status>,
    /// What the object says of Kubernetes now.
    pub kubernetes_said: Option<Status>,
    /// `status.phase`, empty if there is none.
    pub phase: &'a str,
    /// What was seen; `None` before the first look, an error if it failed.
    pub seen: Option<Result<&'a Seen, &'a str>>,
    /// The newest run.
    pub run: Option<&'a RunView>,
    /// What is known of releases.
    pub releases: Releases<'a>,
}

impl<'a> Facts<'a> {
    fn said(&self, product: Product) -> Option<Status> {
        match product {
            Product::Talos => self.talos_said,
            Product::Kubernetes => self.kubernetes_said,
        }
    }

    fn sight(&self) -> Option<&'a Seen> {
        self.seen.and_then(Result::ok)
    }
}

/// What is told of one product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// The status annotation.
    pub status: Status,
    /// The reason of the condition.
    pub reason: Reason,
    /// The message of both.
    pub message: String,
    /// The progress annotation; `None` takes it away.
    pub progress: Option<String>,
    /// What runs and what could be had; `None` leaves both as they are.
    pub versions: Option<(Version, Option<Version>)>,
}

/// What to write into the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Of Talos.
    pub talos: Words,
    /// Of Kubernetes.
    pub kubernetes: Words,
    /// The phase; `None` leaves it, and the conditions, to the platform.
    pub phase: Option<Phase>,
    /// Annotations of the user that are done with.
    pub remove: Vec<&'static str>,
}

impl Write {
    /// What is told of a product.
    pub const fn of(&self, product: Product) -> &Words {
        match product {
            Product::Talos => &self.talos,
            Product::Kubernetes => &self.kubernetes,
        }
    }
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing until something changes.
    Rest,
    /// Look at the cluster, then decide again.
    Look,
    /// Plan, and begin a run.
    Begin {
        /// Of what.
        product: Product,
        /// To what.
        target: Version,
    },
    /// Go on with the run.
    Drive,
    /// Let the run reach a safe state and stay there.
    Pause {
        /// Who wants it.
        by: String,
    },
    /// Let the run reach a safe state, then end it.
    Cancel,
    /// The run is past; decide again without it.
    Close,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What to write; `None` leaves the object alone.
    pub write: Option<Write>,
    /// What to do afterwards.
    pub act: Act,
}

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

/// No run: the targets are looked at.
fn at_rest(facts: &Facts<'_>) -> Verdict {
    let wish = facts.wish;
    let wanted = wish.talos.is_some() || wish.kubernetes.is_some();
    let seen = match facts.seen {
        None => return Verdict { write: None, act: Act::Look },
        Some(Err(why)) => return unseen(facts, why, wanted),
        Some(Ok(seen)) => seen,
    };
    let mut talos = resting(facts, Product::Talos);
    let mut kubernetes = resting(facts, Product::Kubernetes);
    let mut act = Act::Rest;
    let mut talos_is_done = true;
    if let Some(text) = wish.target(Product::Talos) {
        match target::check(Product::Talos, text, wish.rollback, seen, facts.releases) {
            Checked::There(version) => words::already(&mut talos, Product::Talos, &version, seen),
            Checked::Valid(version) => {
                talos_is_done = false;
                act = begin(facts, Product::Talos, version, &mut talos);
            }
            Checked::Bad(why) | Checked::Blocked(why) => {
                talos_is_done = false;
                words::bad(&mut talos, why);
            }
        }
    }
    if let Some(text) = wish.target(Product::Kubernetes) {
        match target::check(Product::Kubernetes, text, wish.rollback, seen, facts.releases) {
            Checked::There(version) => {
                words::already(&mut kubernetes, Product::Kubernetes, &version, seen);
            }
            Checked::Bad(why) => words::bad(&mut kubernetes, why),
            _ if !talos_is_done => {
                let waits = words::waits_for(Product::Kubernetes, Product::Talos);
                kubernetes = Words { versions: kubernetes.versions, ..waits };
            }
            Checked::Blocked(why) => words::blocked(&mut kubernetes, why),
            Checked::Valid(version) => {
                act = begin(facts, Product::Kubernetes, version, &mut kubernetes);
            }
        }
    }
    let failed = [&talos, &kubernetes].iter().any(|words| words.status == Status::Failed);
    let phase = if failed { Phase::UpgradeFailed } else { Phase::Ready };
    let phase = our_phase(facts, phase);
    let write = write(Product::Talos, talos, kubernetes, phase);
    Verdict { write: Some(write), act }
}

/// A valid target: begins, unless the user or the platform says to wait.
fn begin(facts: &Facts<'_>, product: Product, target: Version, told: &mut Words) -> Act {
    if let Some(by) = &facts.wish.pause {
        words::held(told, product, &target, by);
        return Act::Rest;
    }
    if !facts.phase.is_empty() && Phase::parse(facts.phase).is_none() {
        words::held_by_phase(told, product, &target, facts.phase);
        return Act::Rest;
    }
    words::preparing(told, product, &target);
    Act::Begin { product, target }
}

/// The cluster could not be seen (rule 10). What was said of it stays, except
/// that a target gets an answer: trying is what finds out whether it is gone
/// for long, and ends in a failure that says so.
fn unseen(facts: &Facts<'_>, why: &str, wanted: bool) -> Verdict {
    let tell = |product| words::unseen(facts.said(product), why);
    let write = write(
        Product::Talos,
        tell(Product::Talos),
        tell(Product::Kubernetes),
        Phase::parse(facts.phase),
    );
    let first = names::PRODUCTS.into_iter().find_map(|product| {
        let target = facts.wish.target(product)?.parse().ok()?;
        Some(Act::Begin { product, target })
    });
    let act = first.filter(|_| wanted && facts.wish.pause.is_none()).unwrap_or(Act::Rest);
    Verdict { write: Some(write), act }
}

fn resting(facts: &Facts<'_>, product: Product) -> Words {
    let idle = words::idle(product, facts.sight(), facts.seen, facts.releases);
    match (facts.said(product), facts.sight()) {
        // It stays told for whoever waits for it, while it is still true.
        (Some(Status::Completed), None) => {
            let run = facts.run.filter(|run| run.product == product && run.total > 0);
            let progress = run.map(RunView::progress);
            Words { status: Status::Completed, reason: Reason::Completed, progress, ..idle }
        }
        (Some(Status::Completed), Some(seen)) => {
            let spread = seen.of_product(product);
            if spread.lowest != spread.newest || facts.wish.target(product).is_some() {
                return idle;
            }
            let message = words::runs_everywhere(product, &spread.lowest, seen.nodes);
            let progress = Some(format!("{0}/{0}", seen.nodes));
            let (status, reason) = (Status::Completed, Reason::Completed);
            Words { status, reason, message, progress, ..idle }
        }
        _ => idle,
    }
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
