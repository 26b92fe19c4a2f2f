//! From observation and intent to an answer that can be shown.

use std::collections::BTreeMap;

use upgrade_core::intent::Intent;
use upgrade_core::journal::Armed;
use upgrade_core::observation::Observation;
use upgrade_core::plan::{Plan, PlanHash};
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::NodeName;
use upgrade_planner::{Earlier, Prepared, Request, estimate};

use crate::error::CommandError;
use crate::release_data::ReleaseData;
use crate::render::{Answer, Outcome};
use crate::session::Session;

/// What earlier runs mean for a new plan.
#[derive(Clone, Debug, Default)]
pub struct Past {
    /// The plan that is replaced.
    pub parent: Option<PlanHash>,
    /// Nodes that were left armed, or may have been (rule 5).
    pub armed: BTreeMap<NodeName, Armed>,
}

impl Past {
    /// Reads the stored runs; `replace` says whether the last plan is replaced.
    pub fn of(session: &Session, replace: bool) -> Result<Self, CommandError> {
        let last = if replace { session.config.runs.last()? } else { None };
        let parent = last.map(|last| last.plan.hash());
        Ok(Self { parent, armed: session.config.left()?.armed })
    }

    /// For the planner.
    pub const fn earlier(&self) -> Earlier<'_> {
        Earlier { parent: self.parent.as_ref(), armed: &self.armed }
    }
}

/// Plans. `next` names the command that runs the plan.
pub fn answer(
    seen: &Observation,
    intent: &Intent,
    policy: &Policy,
    data: &ReleaseData,
    past: &Past,
    next: impl FnOnce(&Plan) -> Option<String>,
) -> Answer {
    let Observation { snapshot, workloads, manifests } = seen;
    let request = Request {
        snapshot,
        intent,
        policy,
        matrix: &data.matrix,
        catalogue: &data.catalogue,
        workloads,
        manifests,
        external_upgrader: false,
    };
    let prepared = upgrade_planner::prepare(&request, past.earlier());
    let core_dns = manifests.known().is_none_or(|manifests| manifests.core_dns);
    Answer { core_dns, ..of(prepared, next) }
}

/// A prepared plan as an answer.
pub fn of(prepared: Prepared, next: impl FnOnce(&Plan) -> Option<String>) -> Answer {
    let Prepared { plan, report, findings } = prepared;
    let outcome = match plan {
        None => Outcome::Refused,
        Some(plan) if plan.is_empty() => Outcome::NothingToDo,
        Some(plan) => Outcome::Planned {
            hash: plan.hash(),
            estimate: estimate(&plan),
            next: next(&plan),
            plan: Box::new(plan),
        },
    };
    Answer { outcome, report, findings, core_dns: true }
}
