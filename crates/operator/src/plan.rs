//! Plans on what was observed, and says why not.

use upgrade_core::catalogue::Catalogue;
use upgrade_core::intent::{Intent, Preference};
use upgrade_core::matrix::Matrix;
use upgrade_core::observation::Observation;
use upgrade_core::plan::Plan;
use upgrade_core::policy::Policy;
use upgrade_core::product::Product;
use upgrade_core::version::Version;
use upgrade_planner::report::{Refusal, Report, Warning};
use upgrade_planner::{Earlier, Request};
use vitistack_api::annotation;

use crate::keys;
use crate::versions_observed::if_foreign;

/// How many reasons a refusal names.
const REASONS: usize = 3;

/// What is wanted, and under which rules.
#[derive(Clone, Copy)]
pub struct PlanRequest<'a> {
    /// What is upgraded.
    pub product: Product,
    /// To what.
    pub target: &'a Version,
    /// Whether it is a way back.
    pub rollback: bool,
    /// How.
    pub policy: &'a Policy,
    /// What Talos supports.
    pub matrix: &'a Matrix,
    /// What was released.
    pub catalogue: &'a Catalogue,
    /// What the runs before mean for it.
    pub earlier: Earlier<'a>,
}

/// Plans, or says why not, and what to do about it.
pub fn plan(seen: &Observation, request: &PlanRequest<'_>) -> Result<(Plan, Vec<Warning>), String> {
    let PlanRequest { product, target, rollback, policy, matrix, catalogue, earlier } = *request;
    let mut intent = Intent { rollback, prefer: Preference::TalosFirst, ..Intent::default() };
    match product {
        Product::Talos => intent.talos = Some(target.clone()),
        Product::Kubernetes => intent.kubernetes = Some(target.clone()),
    }
    let Observation { snapshot, workloads, manifests } = seen;
    let request =
        Request { snapshot, intent: &intent, policy, matrix, catalogue, workloads, manifests };
    let prepared = upgrade_planner::prepare(&request, earlier);
    if let Some(fatal) = prepared.fatal().filter(|_| prepared.report.refusals.is_empty()) {
        return Err(format!("the plan did not pass its check: {}", fatal.text));
    }
    match prepared.plan {
        None => Err(refused(&prepared.report)),
        Some(plan) if plan.is_empty() => {
            Err(format!("{product} {target} runs on every node already; there is nothing to do"))
        }
        Some(plan) => Ok((plan, prepared.report.warnings)),
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

/// What to do about a refusal, in the words of this door.
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
