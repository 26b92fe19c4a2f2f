//! Simulates the drains of a plan before a node is drained.
//!
//! It warns and never refuses: budgets change, autoscalers add nodes, and node
//! affinity and volumes' zones are ignored. What it says about budgets and
//! the policy is certain as long as nothing changes; free capacity is an estimate.

use std::collections::{BTreeMap, BTreeSet};

use upgrade_core::plan::{Change, Hop, Plan};
use upgrade_core::snapshot::{Fact, NodeName, Snapshot};
use upgrade_core::step::Action;
use upgrade_core::workload::{Pod, PodName, Resources, Workloads};

use super::{EMPTY_DIR, Fate, NO_CONTROLLER, fate};
use crate::report::{Pods, Report, Warning};

/// Warns about whatever will be in the way of the plan's drains.
pub(crate) fn simulate(
    plan: &Plan,
    snapshot: &Snapshot,
    workloads: &Fact<Workloads>,
    report: &mut Report,
) {
    // Every operating system hop drains the same nodes in the same waves, so
    // the first tells what there is to tell.
    let Some(hop) = plan.hops.iter().find(|hop| matches!(hop.change, Change::Talos { .. })) else {
        return;
    };
    let waves = drained(hop);
    if waves.is_empty() {
        return;
    }
    let workloads = match workloads {
        Fact::Known(workloads) => workloads,
        Fact::Unknown(why) => return report.warn(Warning::DrainUnchecked { why: why.clone() }),
        Fact::Unasked => return,
    };
    let mut on: BTreeMap<&NodeName, Vec<&Pod>> = BTreeMap::new();
    for pod in &workloads.pods {
        if let Some(node) = &pod.node {
            on.entry(node).or_default().push(pod);
        }
    }
    let drained: Vec<&NodeName> = waves.iter().flatten().copied().collect();
    let pods_of = |node: &NodeName| on.get(node).map_or(&[][..], Vec::as_slice);
    at_stake(plan, &drained, pods_of, report);
    let leaving: Vec<&Pod> = drained
        .iter()
        .flat_map(|node| pods_of(node))
        .copied()
        .filter(|pod| fate(pod, &plan.policy.drain) == Fate::Evicted)
        .collect();
    budgets(workloads, &leaving, report);
    Room::new(snapshot, workloads).walk(&waves, &leaving, report);
}

/// The nodes that are drained, wave by wave.
fn drained(hop: &Hop) -> Vec<Vec<&NodeName>> {
    let waves = hop.waves.iter().map(|wave| {
        let lanes = wave.lanes.iter().filter(|lane| lane.has(Action::Drain));
        lanes.filter_map(|lane| lane.node.as_ref()).collect::<Vec<_>>()
    });
    waves.filter(|nodes| !nodes.is_empty()).collect()
}

/// Pods that lose something, by the policy's choice.
fn at_stake<'a>(
    plan: &Plan,
    drained: &[&NodeName],
    pods_of: impl Fn(&NodeName) -> &'a [&'a Pod],
    report: &mut Report,
) {
    for node in drained {
        let mut halting: BTreeMap<&str, Vec<PodName>> = BTreeMap::new();
        let mut lost = Vec::new();
        for pod in pods_of(node) {
            match fate(pod, &plan.policy.drain) {
                Fate::Halts(stake) => halting.entry(stake).or_default().push(pod.name.clone()),
                Fate::Evicted if pod.controller.is_none() => lost.push(pod.name.clone()),
                Fate::Evicted | Fate::Going | Fate::Stays(_) => {}
            }
        }
        for stake in [NO_CONTROLLER, EMPTY_DIR] {
            if let Some(pods) = halting.remove(stake) {
                let (node, stake) = ((*node).clone(), stake.to_owned());
                report.warn(Warning::DrainHalts { node, stake, pods: Pods::new(pods) });
            }
        }
        if !lost.is_empty() {
            report.warn(Warning::PodsLost { node: (*node).clone(), pods: Pods::new(lost) });
        }
    }
}

/// Budgets that block pods which have to leave.
fn budgets(workloads: &Workloads, leaving: &[&Pod], report: &mut Report) {
    let mut counted: BTreeMap<usize, Vec<PodName>> = BTreeMap::new();
    let mut several: BTreeMap<Vec<String>, Vec<PodName>> = BTreeMap::new();
    let mut by_namespace: BTreeMap<&str, Vec<(usize, _)>> = BTreeMap::new();
    for (index, budget) in workloads.budgets.iter().enumerate() {
        by_namespace.entry(&budget.namespace).or_default().push((index, budget));
    }
    for pod in leaving {
        let near = by_namespace.get(pod.name.namespace.as_str()).map_or(&[][..], Vec::as_slice);
        let own: Vec<_> = near.iter().filter(|(_, budget)| budget.selects(pod)).collect();
        for (index, _) in &own {
            counted.entry(*index).or_default().push(pod.name.clone());
        }
        if own.len() > 1 {
            let names = own.iter().map(|(_, budget)| budget.to_string()).collect();
            several.entry(names).or_default().push(pod.name.clone());
        }
    }
    for (index, pods) in counted {
        let budget = &workloads.budgets[index];
        let (pods, wants) = (Pods::new(pods), budget.desired_healthy);
        if budget.never_allows() {
            let (budget, of) = (budget.to_string(), budget.expected_pods);
            report.warn(Warning::BudgetNeverAllows { budget, wants, of, pods });
        } else if budget.disruptions_allowed <= 0 {
            let (budget, healthy) = (budget.to_string(), budget.current_healthy);
            report.warn(Warning::BudgetAllowsNone { budget, wants, healthy, pods });
        }
    }
    for (budgets, pods) in several {
        report.warn(Warning::SeveralBudgets { budgets, pods: Pods::new(pods) });
    }
}

/// What is free on the nodes that take pods.
struct Room<'a> {
    workloads: &'a Workloads,
    nodes: Vec<(&'a NodeName, Resources)>,
}

impl<'a> Room<'a> {
    fn new(snapshot: &Snapshot, workloads: &'a Workloads) -> Self {
        let mut taken: BTreeMap<&NodeName, Resources> = BTreeMap::new();
        for pod in workloads.pods.iter().filter(|pod| !pod.is_finished()) {
            if let Some(node) = &pod.node {
                let taken = taken.entry(node).or_default();
                *taken = add(*taken, pod.requests);
            }
        }
        let open = |name: &NodeName| {
            let node = snapshot.nodes.get(name).and_then(|node| node.kubernetes.known());
            node.is_some_and(|node| node.ready && !node.unschedulable)
        };
        let nodes = workloads.capacity.iter().filter(|(name, _)| open(name));
        let nodes = nodes
            .map(|(name, capacity)| {
                let taken = taken.get(name).copied().unwrap_or_default();
                (name, left(capacity.allocatable, taken))
            })
            .collect();
        Self { workloads, nodes }
    }

    /// Drains wave after wave in thought. Pods are thought back where they were
    /// after each: a controller may put them anywhere.
    fn walk(&self, waves: &[Vec<&NodeName>], leaving: &[&Pod], report: &mut Report) {
        let mut of: BTreeMap<&NodeName, Vec<&Pod>> = BTreeMap::new();
        for pod in leaving {
            if let Some(node) = &pod.node {
                of.entry(node).or_default().push(pod);
            }
        }
        for wave in waves {
            let away: BTreeSet<&NodeName> = wave.iter().copied().collect();
            let mut free: Vec<_> =
                self.nodes.iter().filter(|(name, _)| !away.contains(name)).copied().collect();
            let mut lacking = Vec::new();
            for node in wave {
                let mut pods = of.get(node).cloned().unwrap_or_default();
                // Large ones first: they are the hardest to place.
                pods.sort_by_key(|pod| {
                    let Resources { cpu_millis, memory_bytes, .. } = pod.requests;
                    std::cmp::Reverse((memory_bytes, cpu_millis))
                });
                let mut nowhere = Vec::new();
                for pod in pods {
                    match self.place(pod, &mut free) {
                        Placed::Somewhere => {}
                        Placed::NoRoom => lacking.push(pod.name.clone()),
                        Placed::Nowhere => nowhere.push(pod.name.clone()),
                    }
                }
                if !nowhere.is_empty() {
                    let (node, pods) = ((*node).clone(), Pods::new(nowhere));
                    report.warn(Warning::NowhereToGo { node, pods });
                }
            }
            if !lacking.is_empty() {
                let nodes = wave.iter().map(|node| (*node).clone()).collect();
                report.warn(Warning::CapacityLacks { nodes, pods: Pods::new(lacking) });
            }
        }
    }

    fn place(&self, pod: &Pod, free: &mut [(&NodeName, Resources)]) -> Placed {
        let mut allowed = false;
        for (name, room) in free {
            if !pod.may_run_on(&self.workloads.capacity[*name]) {
                continue;
            }
            allowed = true;
            if fits(pod.requests, *room) {
                *room = left(*room, pod.requests);
                return Placed::Somewhere;
            }
        }
        if allowed { Placed::NoRoom } else { Placed::Nowhere }
    }
}

enum Placed {
    Somewhere,
    NoRoom,
    Nowhere,
}

fn add(a: Resources, b: Resources) -> Resources {
    Resources {
        cpu_millis: a.cpu_millis.saturating_add(b.cpu_millis),
        memory_bytes: a.memory_bytes.saturating_add(b.memory_bytes),
        pods: a.pods.saturating_add(b.pods),
    }
}

fn left(of: Resources, taken: Resources) -> Resources {
    Resources {
        cpu_millis: of.cpu_millis.saturating_sub(taken.cpu_millis),
        memory_bytes: of.memory_bytes.saturating_sub(taken.memory_bytes),
        pods: of.pods.saturating_sub(taken.pods),
    }
}

fn fits(pod: Resources, room: Resources) -> bool {
    pod.cpu_millis <= room.cpu_millis
        && pod.memory_bytes <= room.memory_bytes
        && pod.pods <= room.pods
}
