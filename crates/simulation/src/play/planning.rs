//! Plans what the user wants, as a door does: look, then plan.

use std::sync::{Arc, LazyLock};

use upgrade_core::catalogue::Catalogue;
use upgrade_core::matrix::Matrix;
use upgrade_core::plan::{Plan, Target};
use upgrade_core::snapshot::{Fact, NodeName, Snapshot};
use upgrade_core::workload::Workloads;
use upgrade_engine::io::Kubernetes as _;
use upgrade_engine::{observe, observe_manifests};
use upgrade_planner::check::Severity;
use upgrade_planner::rollback::{Way, WayBack};
use upgrade_planner::{Request, check, plan as make, rollback};

use super::Stage;
use crate::scenario::Want;
use crate::world::seat::Seat;

static KNOWN: LazyLock<(Matrix, Catalogue)> =
    LazyLock::new(|| (Matrix::builtin(), Catalogue::builtin()));

/// The plan for a want; `None` if there is none, now at least.
pub(super) async fn plan(stage: &Stage, seat: &Arc<Seat>, want: usize) -> Option<Plan> {
    let snapshot = observe(&**seat).await.ok()?;
    let policy = &stage.scenario.policy;
    let (matrix, catalogue) = &*KNOWN;
    let planned = match &stage.scenario.wants[want] {
        Want::Versions(intent) => {
            let workloads = workloads(seat).await;
            let manifests = observe_manifests(&**seat).await;
            let request = Request {
                snapshot: &snapshot,
                intent,
                policy,
                matrix,
                catalogue,
                workloads: &workloads,
                manifests: &manifests,
            };
            make(&request).ok()?
        }
        Want::Back(number) => {
            let node = nth(&snapshot, *number)?;
            let way = way(stage, &snapshot, &node)?;
            rollback(&WayBack { snapshot: &snapshot, node: &node, way, policy, matrix }).ok()?
        }
    };
    let findings = check(&planned.plan, &snapshot, matrix);
    let fatal = findings.iter().any(|finding| finding.severity == Severity::Fatal);
    // Another plan than any before, even if it is made of the same.
    let parent = stage.ledger.plans().last().map(|plan| plan.hash());
    (!fatal).then_some(Plan { parent, ..planned.plan })
}

fn nth(snapshot: &Snapshot, number: usize) -> Option<NodeName> {
    snapshot.nodes.keys().nth(number).cloned()
}

/// What a node ran before, as the plans so far remember it.
fn way(stage: &Stage, snapshot: &Snapshot, node: &NodeName) -> Option<Way> {
    let running = &snapshot.nodes.get(node)?.talos.known()?.version;
    let plans = stage.ledger.plans();
    let lanes = plans.iter().rev().flat_map(|plan| plan.hops.iter().rev()).flat_map(|hop| {
        let lanes = hop.waves.iter().flat_map(|wave| &wave.lanes);
        lanes.map(move |lane| (hop, lane))
    });
    let mut lanes =
        lanes.filter(|(hop, lane)| hop.change.to() == running && lane.node.as_ref() == Some(node));
    lanes.find_map(|(_, lane)| match &lane.target {
        Target::Talos(target) if target.from != *running => {
            Some(Way::Slot { version: target.from.clone(), schematic: target.schematic.clone() })
        }
        _ => None,
    })
}

async fn workloads(seat: &Arc<Seat>) -> Fact<Workloads> {
    let all = async {
        Ok(Workloads {
            pods: seat.pods(None).await?,
            budgets: seat.budgets().await?,
            capacity: seat.capacity().await?,
        })
    };
    all.await.map_or_else(
        |trouble: upgrade_engine::io::Trouble| Fact::Unknown(trouble.to_string()),
        Fact::Known,
    )
}
