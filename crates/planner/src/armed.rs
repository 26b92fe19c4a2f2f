//! Nodes that an earlier run left armed: what a plan for them has to refuse.

use std::collections::{BTreeMap, BTreeSet};

use upgrade_core::journal::{Armed, Arming};
use upgrade_core::plan::{Plan, Target};
use upgrade_core::snapshot::{NodeName, Snapshot};
use upgrade_core::step::Action;

use crate::report::{Refusal, Report};

/// Refuses a plan that would run an installer on a node which is armed with
/// something else, or on which one failed (rule 5). What an earlier run armed with
/// the same image is fine: the installer is skipped. An installer that nobody heard
/// the end of is judged when its node is reached.
pub fn armed(
    plan: &Plan,
    snapshot: &Snapshot,
    armed: &BTreeMap<NodeName, Armed>,
    report: &mut Report,
) {
    let mut seen = BTreeSet::new();
    let lanes = plan.hops.iter().flat_map(|hop| hop.waves.iter().flat_map(|wave| &wave.lanes));
    for lane in lanes.filter(|lane| lane.steps.contains(&Action::Install)) {
        let (Some(node), Target::Talos(target)) = (&lane.node, &lane.target) else { continue };
        let Some(known) = armed.get(node).filter(|_| seen.insert(node)) else { continue };
        let boot = snapshot.nodes.get(node).and_then(|node| node.talos.known());
        let booted = |id: &String| boot.is_none_or(|facts| facts.boot_id != *id);
        if known.boot_id.as_ref().is_some_and(booted) {
            continue;
        }
        let failed = match known.state {
            Arming::Armed if known.image != target.installer => false,
            Arming::Failed | Arming::FailedArmed => true,
            Arming::Armed | Arming::Unheard => continue,
        };
        let (node, image) = (node.clone(), known.image.clone());
        report.refuse(Refusal::Armed { node, image, failed });
    }
}
