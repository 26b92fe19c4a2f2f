//! Plans what the user wants, as a front end does: observe, plan, check.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use upgrade_core::catalogue::Catalogue;
use upgrade_core::matrix::Matrix;
use upgrade_core::observation::Observation;
use upgrade_core::plan::{Plan, Target};
use upgrade_core::snapshot::{NodeName, Snapshot};
use upgrade_engine::{observe, observe_whole};
use upgrade_planner::rollback::{RollbackRequest, Way};
use upgrade_planner::{Earlier, Request, prepare, prepare_rollback};

use super::ScenarioRunner;
use crate::scenario::Want;
use crate::world::process_io::ProcessIo;

static KNOWN: LazyLock<(Matrix, Catalogue)> =
    LazyLock::new(|| (Matrix::builtin(), Catalogue::builtin()));

/// The plan for a want; `None` if there is none, now at least.
pub(super) async fn plan(
    runner: &ScenarioRunner,
    io: &Arc<ProcessIo>,
    want: usize,
) -> Option<Plan> {
    let policy = &runner.scenario.policy;
    let (matrix, catalogue) = &*KNOWN;
    // Another plan than any before, even if it is made of the same.
    let parent = runner.store.plans().last().map(|plan| plan.hash());
    // Nothing is said of armed nodes: the engine has to keep rule 5 even if the planner
    // did not know of them.
    let earlier = Earlier { parent: parent.as_ref(), armed: &BTreeMap::new() };
    match &runner.scenario.wants[want] {
        Want::Versions(intent) => {
            let seen = observe_whole(&**io, &policy.foreign_nodes, &policy.workers.pool_label)
                .await
                .ok()?;
            let Observation { snapshot, workloads, manifests } = &seen;
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
            prepare(&request, earlier).plan
        }
        Want::Back(number) => {
            let snapshot = observe(&**io, &policy.workers.pool_label).await.ok()?;
            let node = nth(&snapshot, *number)?;
            let way = way(runner, &snapshot, &node)?;
            let request = RollbackRequest { snapshot: &snapshot, node: &node, way, policy, matrix };
            prepare_rollback(&request, earlier).plan
        }
    }
}

fn nth(snapshot: &Snapshot, number: usize) -> Option<NodeName> {
    snapshot.nodes.keys().nth(number).cloned()
}

/// What a node ran before, as the plans so far remember it.
fn way(runner: &ScenarioRunner, snapshot: &Snapshot, node: &NodeName) -> Option<Way> {
    let running = &snapshot.nodes.get(node)?.talos.known()?.version;
    let plans = runner.store.plans();
    let lanes = plans
        .iter()
        .rev()
        .flat_map(|plan| plan.hops.iter().rev())
        .flat_map(|hop| hop.lanes().map(move |lane| (hop, lane)));
    let mut lanes =
        lanes.filter(|(hop, lane)| hop.change.to() == running && lane.node.as_ref() == Some(node));
    lanes.find_map(|(_, lane)| match &lane.target {
        Target::Talos(target) if target.from != *running => {
            Some(Way::Slot { version: target.from.clone(), schematic: target.schematic.clone() })
        }
        _ => None,
    })
}
