//! No run: what becomes of the targets, and what is told meanwhile.

use upgrade_core::product::Product;
use upgrade_core::version::Version;
use vitistack_api::status::{Phase, Reason, Status};

use super::target::{self, Checked};
use super::verdict::{Act, Facts, RunView, Verdict, Words};
use super::{our_phase, words, write};
use crate::names;

/// No run: the targets are looked at.
pub(super) fn at_rest(facts: &Facts<'_>) -> Verdict {
    let wish = facts.wish;
    let wanted = wish.wants();
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

/// Of a product that nothing is done with.
pub(super) fn resting(facts: &Facts<'_>, product: Product) -> Words {
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
