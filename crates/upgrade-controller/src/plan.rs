//! Plans on what was observed. A front end words the errors for its users.

use thiserror::Error;
use upgrade_core::catalogue::Catalogue;
use upgrade_core::intent::Intent;
use upgrade_core::matrix::Matrix;
use upgrade_core::observation::Observation;
use upgrade_core::plan::Plan;
use upgrade_core::policy::Policy;
use upgrade_planner::report::{Report, Warning};
use upgrade_planner::{Earlier, Request};

/// What is wanted, and under which rules.
#[derive(Clone, Copy)]
pub struct PlanRequest<'a> {
    /// What is wanted.
    pub intent: &'a Intent,
    /// How it may be done.
    pub policy: &'a Policy,
    /// Which versions support each other.
    pub matrix: &'a Matrix,
    /// The known releases.
    pub catalogue: &'a Catalogue,
    /// What earlier runs mean for it.
    pub earlier: Earlier<'a>,
}

/// Why there is no plan.
#[derive(Clone, Debug, Error)]
pub enum PlanError {
    /// The planner refused, with every reason.
    #[error("refused: {} reasons", .0.refusals.len())]
    Refused(Box<Report>),
    /// The plan did not pass its check: a bug of the planner.
    #[error("the plan did not pass its check: {0}")]
    Check(String),
    /// Every node is at its target.
    #[error("there is nothing to do")]
    NothingToDo,
}

/// Plans, or says why not.
pub fn plan(
    observation: &Observation,
    request: &PlanRequest<'_>,
) -> Result<(Plan, Vec<Warning>), PlanError> {
    let PlanRequest { intent, policy, matrix, catalogue, earlier } = *request;
    let Observation { snapshot, workloads, manifests } = observation;
    let request = Request {
        snapshot,
        intent,
        policy,
        matrix,
        catalogue,
        workloads,
        manifests,
        external_upgrader: false,
    };
    let prepared = upgrade_planner::prepare(&request, earlier);
    if let Some(fatal) = prepared.fatal().filter(|_| prepared.report.refusals.is_empty()) {
        return Err(PlanError::Check(fatal.text.clone()));
    }
    match prepared.plan {
        None => Err(PlanError::Refused(Box::new(prepared.report))),
        Some(plan) if plan.is_empty() => Err(PlanError::NothingToDo),
        Some(plan) => Ok((plan, prepared.report.warnings)),
    }
}
