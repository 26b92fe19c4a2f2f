//! From an observation and an intent to a plan.

use upgrade_core::catalogue::Catalogue;
use upgrade_core::intent::Intent;
use upgrade_core::matrix::Matrix;
use upgrade_core::plan::Plan;
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::Snapshot;

use crate::report::Report;

/// All that a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What was observed.
    pub snapshot: &'a Snapshot,
    /// What is wanted.
    pub intent: &'a Intent,
    /// How it is wanted.
    pub policy: &'a Policy,
    /// What is supported.
    pub matrix: &'a Matrix,
    /// What was released.
    pub catalogue: &'a Catalogue,
}

/// A plan and what there is to say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The plan; empty if there is nothing to do.
    pub plan: Plan,
    /// Warnings and notes.
    pub report: Report,
}

/// Makes a plan, or says every reason why there is none.
pub fn plan(_request: &Request<'_>) -> Result<Planned, Report> {
    Err(Report::default())
}
