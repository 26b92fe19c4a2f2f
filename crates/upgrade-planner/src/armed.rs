//! Nodes that an earlier run left armed: what a plan for them has to refuse.

use std::collections::{BTreeMap, BTreeSet};

use upgrade_core::journal::{Armed, Arming};
use upgrade_core::plan::{Plan, Target};
use upgrade_core::snapshot::{NodeName, Snapshot};
use upgrade_core::step::Action;

use crate::report::{Refusal, Report};

/// Refuses a plan that would run an installer on a node which is armed with
/// something else, or on which one failed (rule 5), and a rollback by the other slot
/// on a node that is armed. What an earlier run armed with the same image is fine: the
/// installer is skipped. An installer whose end is not known is judged when its
/// node is reached.
pub fn armed(
    plan: &Plan,
    snapshot: &Snapshot,
    armed: &BTreeMap<NodeName, Armed>,
    report: &mut Report,
) {
    let mut seen = BTreeSet::new();
    for (_, lane) in plan.lanes() {
        let (Some(node), Target::Talos(target)) = (&lane.node, &lane.target) else { continue };
        if lane.has(Action::Rollback) {
            report.refusals.extend(no_slot(node, snapshot, armed));
        }
        // What replaces a node hides that it was armed, whatever with.
        let replaced = lane.has(Action::ExternalUpgrade);
        if !(replaced || lane.has(Action::Install)) || !seen.insert(node) {
            continue;
        }
        let Some(known) = in_this_boot(node, snapshot, armed) else { continue };
        let failed = match known.state {
            Arming::Armed if replaced || known.image != target.installer => false,
            Arming::Failed | Arming::FailedArmed => true,
            Arming::Unheard if replaced => false,
            Arming::Armed | Arming::Unheard => continue,
        };
        let (node, image) = (node.clone(), known.image.clone());
        report.refuse(Refusal::Armed { node, image, failed });
    }
}

/// Why a node cannot be rolled back by its other slot: it is armed, and the slot holds
/// what runs.
pub fn no_slot(
    node: &NodeName,
    snapshot: &Snapshot,
    armed: &BTreeMap<NodeName, Armed>,
) -> Option<Refusal> {
    let known = in_this_boot(node, snapshot, armed).filter(|known| known.state.is_certain())?;
    let running = snapshot.nodes.get(node)?.talos.known()?.version.clone();
    Some(Refusal::RollbackArmed { node: node.clone(), image: known.image.clone(), running })
}

/// What is remembered of a node that has not booted since.
fn in_this_boot<'a>(
    node: &NodeName,
    snapshot: &Snapshot,
    armed: &'a BTreeMap<NodeName, Armed>,
) -> Option<&'a Armed> {
    let known = armed.get(node)?;
    let boot = snapshot.nodes.get(node).and_then(|node| node.talos.known());
    let booted = |id: &String| boot.is_none_or(|facts| facts.boot_id != *id);
    (!known.boot_id.as_ref().is_some_and(booted)).then_some(known)
}
