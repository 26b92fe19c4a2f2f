//! The messages of the status. Those of the specification are kept to the letter.

use upgrade_controller::front_end::Releases;
use upgrade_core::product::Product;
use upgrade_core::version::Version;
use vitistack_api::annotation;
use vitistack_api::status::{Reason, Status};

use super::RunView;
use super::target::step;
use crate::status::ProductStatus;
use upgrade_controller::versions_observed::ObservedVersions;

const fn plain(status: Status, reason: Reason, message: String) -> ProductStatus {
    ProductStatus { status, reason, message, progress: None, versions: None }
}

fn nodes(count: usize) -> String {
    if count == 1 { "the node".to_owned() } else { format!("all {count} nodes") }
}

pub(super) fn runs_everywhere(product: Product, version: &Version, count: usize) -> String {
    format!("{product} {version} runs on {}", nodes(count))
}

/// Nothing is asked for.
pub(super) fn idle(
    product: Product,
    versions: Option<&ObservedVersions>,
    seen: Option<Result<&ObservedVersions, &str>>,
    releases: Releases<'_>,
) -> ProductStatus {
    let Some(versions_now) = versions else {
        let message = match seen {
            Some(Err(why)) => format!("The cluster cannot be observed: {why}"),
            _ => "The cluster has not been observed yet".to_owned(),
        };
        return plain(Status::Idle, Reason::Idle, message);
    };
    let spread = versions_now.of_product(product);
    let available = step(product, versions_now, releases);
    let message = match &available {
        Some(version) => format!("Upgrade available: {} → {version}", spread.lowest),
        None => format!("{product} {} is the newest available version", spread.lowest),
    };
    let versions = Some((spread.lowest.clone(), available));
    ProductStatus { versions, ..plain(Status::Idle, Reason::Idle, message) }
}

/// The cluster could not be seen; a completed upgrade stays one.
pub(super) fn unseen(said: Option<Status>, why: &str) -> ProductStatus {
    let message = format!("The cluster cannot be observed: {why}");
    match said {
        Some(Status::Completed) => plain(Status::Completed, Reason::Completed, message),
        _ => plain(Status::Idle, Reason::Idle, message),
    }
}

pub(super) fn in_progress(run: &RunView) -> String {
    if run.message.is_empty() {
        return format!(
            "Upgrading {} to {} ({} nodes completed)",
            run.product,
            run.to,
            run.progress()
        );
    }
    format!("{} ({} nodes completed)", run.message, run.progress())
}

pub(super) fn paused(run: &RunView, by: &str) -> String {
    format!(
        "Paused by {by} at {} nodes; remove the annotation {} to resume",
        run.progress(),
        annotation::PAUSE
    )
}

pub(super) fn stopping(run: &RunView) -> String {
    format!(
        "Stopping the {} upgrade to {}: what is in flight finishes, nothing new begins ({} nodes completed)",
        run.product,
        run.to,
        run.progress()
    )
}

pub(super) fn completed(run: &RunView) -> ProductStatus {
    let message = runs_everywhere(run.product, &run.to, run.total);
    ProductStatus {
        progress: Some(run.progress()),
        ..plain(Status::Completed, Reason::Completed, message)
    }
}

pub(super) fn failed(run: &RunView) -> String {
    format!("{} upgrade failed: {}", run.product, run.message)
}

/// One product waits for the other. Only Kubernetes has a status word for it.
pub(super) fn waits_for(product: Product, other: Product) -> ProductStatus {
    let message = format!("Waiting for {other} upgrade to complete");
    match product {
        Product::Kubernetes => plain(Status::Blocked, Reason::Blocked, message),
        Product::Talos => plain(Status::Idle, Reason::Blocked, message),
    }
}

pub(super) fn next_in_line(product: Product) -> ProductStatus {
    let message = format!("{product} target queued");
    match product {
        Product::Kubernetes => plain(Status::Blocked, Reason::Blocked, message),
        Product::Talos => plain(Status::Idle, Reason::Blocked, message),
    }
}

pub(super) fn waits_for_failed_talos(run: &RunView) -> ProductStatus {
    let message = format!(
        "The Talos upgrade to {} failed; retry it, or remove {} to give it up",
        run.to,
        annotation::TALOS_TARGET
    );
    plain(Status::Blocked, Reason::Blocked, message)
}

pub(super) fn waits_for_failed_kubernetes(run: &RunView) -> ProductStatus {
    let message = format!(
        "The Kubernetes upgrade to {} failed; retry it, or remove {} to give it up",
        run.to,
        annotation::KUBERNETES_TARGET
    );
    plain(Status::Idle, Reason::Blocked, message)
}

/// The target runs already.
pub(super) fn already(
    report: &mut ProductStatus,
    product: Product,
    version: &Version,
    seen: &ObservedVersions,
) {
    report.status = Status::Completed;
    report.reason = Reason::Completed;
    let next = report.versions.as_ref().and_then(|(_, available)| available.as_ref());
    let next = next.map_or_else(
        || "no newer version is available".to_owned(),
        |version| format!("the next valid target is {version}"),
    );
    report.message = format!("{}; {next}", runs_everywhere(product, version, seen.nodes));
}

pub(super) fn bad(report: &mut ProductStatus, why: String) {
    report.status = Status::Failed;
    report.reason = Reason::InvalidTarget;
    report.message = why;
}

pub(super) fn blocked(report: &mut ProductStatus, why: String) {
    report.status = Status::Blocked;
    report.reason = Reason::Blocked;
    report.message = why;
}

/// A pause was there before the target.
pub(super) fn held(report: &mut ProductStatus, product: Product, target: &Version, by: &str) {
    report.status = Status::Idle;
    report.reason = Reason::Blocked;
    report.message = format!(
        "The {product} upgrade to {target} is held by {by}; remove the annotation {} to begin it",
        annotation::PAUSE
    );
}

pub(super) fn held_by_phase(
    report: &mut ProductStatus,
    product: Product,
    target: &Version,
    phase: &str,
) {
    report.status = Status::Idle;
    report.reason = Reason::Blocked;
    report.message = format!(
        "The {product} upgrade to {target} begins when the cluster is Ready; it is {phase}"
    );
}

pub(super) fn preparing(report: &mut ProductStatus, product: Product, target: &Version) {
    report.status = Status::Idle;
    report.reason = Reason::Idle;
    report.message = format!("Planning the {product} upgrade to {target}");
}
