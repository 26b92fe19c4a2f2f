//! From what was seen and what is wanted to an answer that can be shown.

use std::collections::BTreeMap;

use upgrade_core::intent::Intent;
use upgrade_core::journal::Armed;
use upgrade_core::plan::{Plan, PlanHash};
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::{NodeName, Snapshot};
use upgrade_planner::check::Severity;
use upgrade_planner::report::Report;
use upgrade_planner::{Request, estimate};

use crate::data::ReleaseData;
use crate::render::{Answer, Outcome};
use crate::session::Seen;

/// Plans, and looks at the plan a second time. `parent` is the plan that is
/// replaced; `next` names the command that would carry the new one out.
pub fn answer(
    seen: &Seen,
    intent: &Intent,
    policy: &Policy,
    data: &ReleaseData,
    parent: Option<PlanHash>,
    next: impl FnOnce(&Plan) -> Option<String>,
) -> Answer {
    let Seen { snapshot, workloads, manifests } = seen;
    let planned = upgrade_planner::plan(&Request {
        snapshot,
        intent,
        policy,
        matrix: &data.matrix,
        catalogue: &data.catalogue,
        workloads,
        manifests,
    });
    match planned {
        Err(report) => Answer::refused(report),
        Ok(planned) => {
            let plan = Plan { parent, ..planned.plan };
            let core_dns = manifests.known().is_none_or(|manifests| manifests.core_dns);
            Answer { core_dns, ..checked(plan, planned.report, snapshot, data, next) }
        }
    }
}

/// The answer, refused where it would install on what an earlier run left armed
/// (rule 5).
pub fn unless_armed(
    mut answer: Answer,
    snapshot: &Snapshot,
    armed: &BTreeMap<NodeName, Armed>,
) -> Answer {
    if let Outcome::Planned { plan, .. } = &answer.outcome {
        upgrade_planner::armed(plan, snapshot, armed, &mut answer.report);
        if !answer.report.refusals.is_empty() {
            answer.outcome = Outcome::Refused;
        }
    }
    answer
}

/// The planner is careful, and read with other eyes all the same.
pub fn checked(
    plan: Plan,
    report: Report,
    snapshot: &Snapshot,
    data: &ReleaseData,
    next: impl FnOnce(&Plan) -> Option<String>,
) -> Answer {
    let findings = upgrade_planner::check(&plan, snapshot, &data.matrix);
    let broken = findings.iter().any(|finding| finding.severity == Severity::Fatal);
    let outcome = if broken {
        Outcome::Refused
    } else if plan.is_empty() {
        Outcome::NothingToDo
    } else {
        Outcome::Planned {
            hash: plan.hash(),
            estimate: estimate(&plan),
            next: next(&plan),
            plan: Box::new(plan),
        }
    };
    Answer { outcome, report, findings, core_dns: true }
}
