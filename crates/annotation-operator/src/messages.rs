//! Errors of the controller, in words for people who write annotations: what is wrong, and
//! which annotation to change.

use upgrade_controller::front_end::{Start, StartError};
use upgrade_controller::observe::ObserveError;
use upgrade_controller::plan::PlanError;
use upgrade_controller::versions_observed::VersionsError;
use upgrade_core::advice::Advice;
use upgrade_core::intent::Intent;
use upgrade_core::product::Product;
use upgrade_core::version::Version;
use upgrade_planner::report::Report;

use crate::advice;

/// How many reasons a refusal names.
const REASONS: usize = 3;

/// The product and version that a run of this front end is to reach.
pub fn target(intent: &Intent) -> Option<(Product, &Version)> {
    let talos = intent.talos.as_ref().map(|version| (Product::Talos, version));
    talos.or(intent.kubernetes.as_ref().map(|version| (Product::Kubernetes, version)))
}

/// Why a cluster could not be observed.
pub fn observe_error(error: &ObserveError) -> String {
    match error {
        ObserveError::Versions(error @ VersionsError::NoMachine { node, .. }) => {
            // It needs no target: the product does not matter.
            let advice = advice::brief(&Advice::no_machine(node), Product::Talos);
            format!("{error} ({advice})")
        }
        other => other.to_string(),
    }
}

/// Why a run was refused before it started, and what to do about it.
pub fn refusal(start: &Start, error: &StartError) -> String {
    match error {
        StartError::Observe(error) => {
            format!("the cluster cannot be observed: {}", observe_error(error))
        }
        StartError::Plan(PlanError::Refused(report)) => {
            // Runs of this front end always have a target.
            refused(report, target(&start.intent).map_or(Product::Talos, |(product, _)| product))
        }
        StartError::Plan(PlanError::NothingToDo) => match target(&start.intent) {
            Some((product, version)) => {
                format!("{product} {version} runs on every node already; there is nothing to do")
            }
            None => error.to_string(),
        },
        other => other.to_string(),
    }
}

/// A refused run has failed: once the reasons are gone, the target has to be set again.
fn refused(report: &Report, product: Product) -> String {
    let mut text: Vec<String> = report
        .refusals
        .iter()
        .take(REASONS)
        .map(|refusal| format!("{refusal} ({})", advice::brief(&refusal.advice(), product)))
        .collect();
    if let more @ 1.. = report.refusals.len().saturating_sub(REASONS) {
        text.push(format!("and {more} more reasons"));
    }
    let again = advice::again(product);
    format!("{}; afterwards {again}, or change it", text.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;

    #[test]
    fn a_node_without_a_machine_can_be_marked_as_foreign() {
        // Rule 10.
        let error = VersionsError::NoMachine {
            node: "edge-1".into(),
            why: "discovery does not show it".to_owned(),
        };
        let text = observe_error(&error.into());
        assert!(text.contains("node edge-1: discovery does not show it"), "{text}");
        assert!(text.contains(keys::FOREIGN_NODES), "{text}");
    }
}
