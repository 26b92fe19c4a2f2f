//! Errors of the controller, in words for people who write annotations: what is wrong, and
//! which annotation to change.

use upgrade_controller::front_end::{Start, StartError};
use upgrade_controller::observe::ObserveError;
use upgrade_controller::plan::PlanError;
use upgrade_controller::versions_observed::VersionsError;
use upgrade_core::intent::Intent;
use upgrade_core::product::Product;
use upgrade_core::version::Version;
use upgrade_planner::report::{Refusal, Report};
use vitistack_api::annotation;

use crate::keys;

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
        ObserveError::Versions(error @ VersionsError::NoMachine { .. }) => {
            format!("{error} ({})", if_foreign())
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
        StartError::Plan(PlanError::Refused(report)) => refused(report),
        StartError::Plan(PlanError::NothingToDo) => match target(&start.intent) {
            Some((product, version)) => {
                format!("{product} {version} runs on every node already; there is nothing to do")
            }
            None => error.to_string(),
        },
        other => other.to_string(),
    }
}

fn refused(report: &Report) -> String {
    let mut text: Vec<String> = report
        .refusals
        .iter()
        .take(REASONS)
        .map(|refusal| format!("{refusal} ({})", advice(refusal)))
        .collect();
    if let more @ 1.. = report.refusals.len().saturating_sub(REASONS) {
        text.push(format!("and {more} more reasons"));
    }
    text.join("; ")
}

/// What to do about a refusal, in annotations.
fn advice(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Outage { .. } => {
            format!("accept it with the annotation {}=true", keys::ACCEPT_OUTAGE)
        }
        Refusal::Downgrade { .. } => {
            format!("choose a newer target, or set {}=true to go back", annotation::ROLLBACK)
        }
        Refusal::NoMachine { .. } => if_foreign(),
        Refusal::NoWayBack { .. } => format!("remove the annotation {}", annotation::ROLLBACK),
        other => other.advice(),
    }
}

fn if_foreign() -> String {
    format!(
        "if it is a Talos node, check that apid answers at its address; if it is not, list it \
         in the annotation {}",
        keys::FOREIGN_NODES
    )
}

#[cfg(test)]
mod tests {
    use super::*;

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
