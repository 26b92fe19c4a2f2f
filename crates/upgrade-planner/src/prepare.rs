//! Plan and check, the same for every front end: a plan that may be run, or all reasons
//! why there is none.

use std::collections::{BTreeMap, BTreeSet};

use upgrade_core::jiff::SignedDuration;
use upgrade_core::journal::Armed;
use upgrade_core::matrix::Matrix;
use upgrade_core::observation::Observation;
use upgrade_core::plan::{Plan, PlanHash};
use upgrade_core::snapshot::{NodeName, Snapshot};

use crate::check::{Finding, Severity, check};
use crate::planner::{Planned, Request, plan};
use crate::report::Report;
use crate::rollback::{RollbackRequest, rollback};

/// What an earlier run of the cluster means for a new plan.
#[derive(Clone, Copy, Debug)]
pub struct Earlier<'a> {
    /// The plan that is replaced, where one is (rule 9).
    pub parent: Option<&'a PlanHash>,
    /// Nodes that it left armed, or may have (rule 5).
    pub armed: &'a BTreeMap<NodeName, Armed>,
}

/// The result of planning.
#[must_use = "a report holds the reasons that a user needs"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// A plan that passed its check; empty if there is nothing to do. `None` if it was
    /// refused: the report's refusals and the fatal findings say why.
    pub plan: Option<Plan>,
    /// Refusals, warnings and notes.
    pub report: Report,
    /// What the check found.
    pub findings: Vec<Finding>,
}

impl Prepared {
    const fn refused(report: Report) -> Self {
        Self { plan: None, report, findings: Vec::new() }
    }

    /// The finding that stopped a plan which the planner made: a bug of this program.
    pub fn fatal(&self) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.severity == Severity::Fatal)
    }
}

/// How often a cluster is observed before what is missing counts as unknown. A connection
/// that broke is no reason to refuse a plan.
const OBSERVATIONS: u32 = 5;

/// How often, if the machines could not be listed or the Kubernetes API does not answer: each
/// of those calls was repeated already.
const OBSERVATIONS_UNANSWERED: u32 = 2;

/// The time between two observations.
const PAUSE: SignedDuration = SignedDuration::from_secs(1);

/// After how long to observe the cluster again, since another observation may show what is
/// missing; `None` if this one is what a plan is made from. `observed` is `None` where the
/// machines could not be listed, `foreign` are nodes that the user says have no machine, and
/// `observations` counts them so far.
pub fn observe_again(
    observed: Option<&Observation>,
    foreign: &BTreeSet<NodeName>,
    observations: u32,
) -> Option<SignedDuration> {
    let enough = match observed {
        Some(observed) if !observed.has_gaps(foreign) => 1,
        Some(observed) if !observed.lacks_api() => OBSERVATIONS,
        _ => OBSERVATIONS_UNANSWERED,
    };
    (observations < enough).then_some(PAUSE)
}

/// Plans what is wanted, and checks the plan.
pub fn prepare(request: &Request<'_>, earlier: Earlier<'_>) -> Prepared {
    checked(plan(request), request.snapshot, request.matrix, earlier)
}

/// The same for the rollback of one node.
pub fn prepare_rollback(request: &RollbackRequest<'_>, earlier: Earlier<'_>) -> Prepared {
    checked(rollback(request), request.snapshot, request.matrix, earlier)
}

fn checked(
    planned: Result<Planned, Report>,
    snapshot: &Snapshot,
    matrix: &Matrix,
    earlier: Earlier<'_>,
) -> Prepared {
    let Planned { plan, mut report } = match planned {
        Ok(planned) => planned,
        Err(report) => return Prepared::refused(report),
    };
    let plan = Plan { parent: earlier.parent.cloned(), ..plan };
    crate::armed(&plan, snapshot, earlier.armed, &mut report);
    // The planner is careful; its plan is checked independently.
    let findings = check(&plan, snapshot, matrix);
    let prepared = Prepared { plan: None, report, findings };
    let runs = prepared.report.refusals.is_empty() && prepared.fatal().is_none();
    Prepared { plan: runs.then_some(plan), ..prepared }
}
