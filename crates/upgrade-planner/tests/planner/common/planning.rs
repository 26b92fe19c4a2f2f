//! Plans for those clusters, and how they look. The mutants take this file too.

use std::fmt::Write as _;

use upgrade_core::catalogue::Catalogue;
use upgrade_core::intent::Intent;
use upgrade_core::matrix::Matrix;
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::{Fact, Snapshot};
use upgrade_planner::report::Report;
use upgrade_planner::{Planned, Request, plan};

pub(crate) fn plan_for(
    snapshot: &Snapshot,
    intent: &Intent,
    policy: &Policy,
) -> Result<Planned, Report> {
    let (matrix, catalogue) = (Matrix::builtin(), Catalogue::builtin());
    let (matrix, catalogue) = (&matrix, &catalogue);
    let (workloads, manifests) = (&Fact::Unasked, &Fact::Unasked);
    plan(&Request {
        snapshot,
        intent,
        policy,
        matrix,
        catalogue,
        workloads,
        manifests,
        external_upgrader: intent.external,
    })
}

/// A plan as people would sketch it: a line a hop and a line a wave.
pub(crate) fn sketch(planned: &Planned) -> String {
    let mut text = String::new();
    for hop in &planned.plan.hops {
        let (from, to) = (hop.change.from(), hop.change.to());
        let _ = writeln!(text, "{} {from} -> {to}", hop.change.product());
        for wave in &hop.waves {
            let lanes: Vec<String> = wave
                .lanes
                .iter()
                .map(|lane| {
                    let node = lane.node.as_ref().map_or("*", |node| node.0.as_str());
                    let steps: Vec<_> = lane.steps.iter().map(ToString::to_string).collect();
                    format!("{node}[{}]", steps.join(" "))
                })
                .collect();
            let _ = writeln!(text, "  {:?}: {}", wave.group, lanes.join(", "));
        }
    }
    text
}
