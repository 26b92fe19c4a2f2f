//! No run: what the targets lead to, and the status meanwhile.

use upgrade_core::product::Product;
use upgrade_core::version::Version;
use vitistack_api::status::{Phase, Reason, Status};

use super::decision::{Decision, Facts, NextAction, RunView};
use super::target::{self, Target};
use super::{messages, our_phase, write};
use crate::keys;
use crate::status::ProductStatus;

/// No run: the targets are judged.
pub(super) fn without_run(facts: &Facts<'_>) -> Decision {
    let request = facts.request;
    let wanted = request.has_target();
    let seen = match facts.observed {
        None => return Decision { update: None, next: NextAction::Observe },
        Some(Err(why)) => return unseen(facts, why, wanted),
        Some(Ok(seen)) => seen,
    };
    let mut talos = at_rest(facts, Product::Talos);
    let mut kubernetes = at_rest(facts, Product::Kubernetes);
    let mut act = NextAction::Idle;
    let mut talos_is_done = true;
    if let Some(text) = request.target(Product::Talos) {
        match target::check(Product::Talos, text, request.steering.rollback, seen, facts.releases) {
            Ok(Target::There(version)) => {
                messages::already(&mut talos, Product::Talos, &version, seen);
            }
            Ok(Target::Valid(version)) => {
                talos_is_done = false;
                act = begin(facts, Product::Talos, version, &mut talos);
            }
            Err(rejected) => {
                talos_is_done = false;
                messages::bad(&mut talos, rejected.to_string());
            }
        }
    }
    if let Some(text) = request.target(Product::Kubernetes) {
        match target::check(
            Product::Kubernetes,
            text,
            request.steering.rollback,
            seen,
            facts.releases,
        ) {
            Ok(Target::There(version)) => {
                messages::already(&mut kubernetes, Product::Kubernetes, &version, seen);
            }
            Err(rejected) if !rejected.waits() => {
                messages::bad(&mut kubernetes, rejected.to_string());
            }
            _ if !talos_is_done => {
                let waits = messages::waits_for(Product::Kubernetes, Product::Talos);
                kubernetes = ProductStatus { versions: kubernetes.versions, ..waits };
            }
            Err(rejected) => messages::blocked(&mut kubernetes, rejected.to_string()),
            Ok(Target::Valid(version)) => {
                act = begin(facts, Product::Kubernetes, version, &mut kubernetes);
            }
        }
    }
    let failed = [&talos, &kubernetes].iter().any(|words| words.status == Status::Failed);
    let phase = if failed { Phase::UpgradeFailed } else { Phase::Ready };
    let phase = our_phase(facts, phase);
    let write = write(Product::Talos, talos, kubernetes, phase);
    Decision { update: Some(write), next: act }
}

/// A valid target: begins, unless the user or the platform says to wait.
fn begin(
    facts: &Facts<'_>,
    product: Product,
    target: Version,
    report: &mut ProductStatus,
) -> NextAction {
    if let Some(by) = &facts.request.steering.pause {
        messages::held(report, product, &target, by);
        return NextAction::Idle;
    }
    if !facts.phase.is_empty() && Phase::parse(facts.phase).is_none() {
        messages::held_by_phase(report, product, &target, facts.phase);
        return NextAction::Idle;
    }
    messages::preparing(report, product, &target);
    NextAction::Begin { product, target }
}

/// The cluster could not be seen (rule 10). What was said of it stays, except
/// that a target gets an answer: trying is what finds out whether it is gone
/// for long, and ends in a failure that says so.
fn unseen(facts: &Facts<'_>, why: &str, wanted: bool) -> Decision {
    let tell = |product| messages::unseen(facts.reported(product), why);
    let write = write(
        Product::Talos,
        tell(Product::Talos),
        tell(Product::Kubernetes),
        Phase::parse(facts.phase),
    );
    let first = keys::PRODUCTS.into_iter().find_map(|product| {
        let target = facts.request.target(product)?.parse().ok()?;
        Some(NextAction::Begin { product, target })
    });
    let act = first
        .filter(|_| wanted && facts.request.steering.pause.is_none())
        .unwrap_or(NextAction::Idle);
    Decision { update: Some(write), next: act }
}

/// Of a product that nothing is done with.
pub(super) fn at_rest(facts: &Facts<'_>, product: Product) -> ProductStatus {
    let idle = messages::idle(product, facts.versions(), facts.observed, facts.releases);
    match (facts.reported(product), facts.versions()) {
        // Users may wait for it: it stays while it is true.
        (Some(Status::Completed), None) => {
            let run = facts.run.filter(|run| run.product == product && run.total > 0);
            let progress = run.map(RunView::progress);
            ProductStatus { status: Status::Completed, reason: Reason::Completed, progress, ..idle }
        }
        (Some(Status::Completed), Some(seen)) => {
            let spread = seen.of_product(product);
            if spread.lowest != spread.newest || facts.request.target(product).is_some() {
                return idle;
            }
            let message = messages::runs_everywhere(product, &spread.lowest, seen.nodes);
            let progress = Some(format!("{0}/{0}", seen.nodes));
            let (status, reason) = (Status::Completed, Reason::Completed);
            ProductStatus { status, reason, message, progress, ..idle }
        }
        _ => idle,
    }
}
