//! The steps, one file each. A step looks whether its work is done already,
//! does it, waits until it shows, and verifies it. It never decides what comes
//! next, and it never waits past its deadline (rule 11).

use std::sync::Arc;

use jiff::Timestamp;
use upgrade_core::jiff;
use upgrade_core::journal::{Evidence, Outcome};
use upgrade_core::plan::{Hop, Lane, Plan};
use upgrade_core::step::StepId;

use crate::io::{Io, Machine, Tell};

/// All that a step may know.
pub(crate) struct Step<I> {
    /// The outside.
    pub(crate) io: Arc<I>,
    /// The plan.
    pub(crate) plan: Arc<Plan>,
    /// Which step.
    pub(crate) id: StepId,
    /// An earlier attempt may have acted (rule 8).
    pub(crate) look_first: bool,
    /// What was true before its first attempt.
    pub(crate) evidence: Option<Evidence>,
    /// Whether the node was cordoned by somebody else before we came (rule 7).
    pub(crate) found_cordoned: bool,
    /// Every machine of the cluster at the last observation.
    pub(crate) machines: Arc<[Machine]>,
    /// When the step has to have ended.
    pub(crate) deadline: Timestamp,
    /// Where it says how far it is.
    pub(crate) tell: Arc<dyn Tell>,
}

impl<I: Io> Step<I> {
    /// The hop it belongs to.
    pub(crate) fn hop(&self) -> &Hop {
        let hop = self.plan.hops.iter().find(|hop| hop.number == self.id.hop);
        hop.expect("a step of the plan has its hop there")
    }

    /// The lane it belongs to.
    pub(crate) fn lane(&self) -> &Lane {
        let lanes = self.hop().waves.iter().flat_map(|wave| &wave.lanes);
        let mut lanes = lanes.filter(|lane| lane.node == self.id.node);
        let lane = lanes.find(|lane| lane.steps.contains(&self.id.action));
        lane.expect("a step of the plan has its lane there")
    }

    /// Runs it to its end.
    pub(crate) async fn run(self) -> Outcome {
        todo!()
    }
}
