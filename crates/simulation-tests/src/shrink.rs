//! Shrinks a failing scenario: removes troubles, nodes and targets one after the other, as long as
//! the same rule is broken.

use upgrade_core::intent::Intent;

use crate::runner::play;
use crate::scenario::{Foreign, Kit, Machines, Scenario, TroubleKind, Want};
use crate::template::Templates;

/// The smallest scenario found that breaks the same rule.
pub fn shrink(scenario: &Scenario, rule: u8, templates: &Templates) -> Scenario {
    let mut smallest = scenario.clone();
    let fails = |candidate: &Scenario| {
        let breaches = play(candidate, templates, false).breaches;
        breaches.iter().any(|breach| breach.rule == rule)
    };
    loop {
        let candidates = smaller(&smallest);
        match candidates.into_iter().find(|candidate| fails(candidate)) {
            Some(candidate) => smallest = candidate,
            None => return smallest,
        }
    }
}

/// All scenarios that are one step smaller.
fn smaller(of: &Scenario) -> Vec<Scenario> {
    let mut candidates = Vec::new();
    for index in 0..of.troubles.len() {
        let mut less = of.clone();
        less.troubles.remove(index);
        candidates.push(less);
    }
    if of.wants.len() > 1 {
        for index in 0..of.wants.len() {
            let mut less = of.clone();
            less.wants.remove(index);
            candidates.push(less);
        }
    }
    for (index, want) in of.wants.iter().enumerate() {
        if let Want::Versions(intent) = want
            && !intent.nodes.is_empty()
        {
            let mut less = of.clone();
            let intent = Intent { nodes: [].into(), ..intent.clone() };
            less.wants[index] = Want::Versions(intent);
            candidates.push(less);
        }
    }
    if of.workers > 0 {
        // The node numbers in troubles have to stay valid.
        let nodes = of.control_planes + of.workers - 1;
        let fits = of.troubles.iter().all(|trouble| match trouble.kind {
            TroubleKind::Fault { node, .. }
            | TroubleKind::Cordon { node, .. }
            | TroubleKind::Reboot { node }
            | TroubleKind::Upgraded { node }
            | TroubleKind::Leave { node } => node < nodes,
            _ => true,
        });
        if fits {
            candidates.push(Scenario { workers: of.workers - 1, ..of.clone() });
        }
    }
    if of.kit != Kit::Bare {
        candidates.push(Scenario { kit: Kit::Bare, ..of.clone() });
    }
    if of.flannel {
        candidates.push(Scenario { flannel: false, ..of.clone() });
    }
    if of.machines != Machines::default() {
        candidates.push(Scenario { machines: Machines::default(), ..of.clone() });
    }
    if of.foreign != Foreign::None {
        let mut less = Scenario { foreign: Foreign::None, ..of.clone() };
        less.policy.foreign_nodes.clear();
        candidates.push(less);
    }
    if of.extended {
        candidates.push(Scenario { extended: false, ..of.clone() });
    }
    if !of.policy.windows.is_empty() || !of.policy.freezes.is_empty() {
        let mut less = of.clone();
        less.policy.windows.clear();
        less.policy.freezes.clear();
        candidates.push(less);
    }
    candidates
}
