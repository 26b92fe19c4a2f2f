//! From an observation and an intent to a plan.
//!
//! Checks everything before it refuses, so that a user sees all reasons at once. The lanes
//! themselves are built in `lanes`.

use upgrade_core::catalogue::Catalogue;
use upgrade_core::intent::Intent;
use upgrade_core::manifests::Manifests;
use upgrade_core::matrix::Matrix;
use upgrade_core::plan::{Change, PLAN_FORMAT, Plan, Versions};
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::{Fact, Node, NodeName, Role, Snapshot, Stage};
use upgrade_core::version::Version;
use upgrade_core::workload::Workloads;

use crate::drain;
use crate::etcd;
use crate::hops::{self, Leg};
use crate::installer::lacks_wanted;
use crate::lanes::Lanes;
use crate::prune;
use crate::report::{Constraint, Note, Product, Refusal, Report, Warning};
use crate::targets::{self, Start};

/// All that a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What was observed.
    pub snapshot: &'a Snapshot,
    /// What is wanted.
    pub intent: &'a Intent,
    /// How it is wanted.
    pub policy: &'a Policy,
    /// What is supported.
    pub matrix: &'a Matrix,
    /// What was released.
    pub catalogue: &'a Catalogue,
    /// What runs on the nodes, for simulating their drains; offline planning
    /// leaves it out ([`Fact::Unasked`]).
    pub workloads: &'a Fact<Workloads>,
    /// What left Talos's manifests; offline planning leaves it out, too.
    pub manifests: &'a Fact<Manifests>,
    /// Whether the process that will drive the plan has something that upgrades or replaces
    /// nodes from outside.
    pub external_upgrader: bool,
}

/// A plan and its report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The plan; empty if there is nothing to do.
    pub plan: Plan,
    /// Warnings and notes.
    pub report: Report,
}

/// Makes a plan, or says every reason why there is none.
pub fn plan(request: &Request<'_>) -> Result<Planned, Report> {
    let Request { snapshot, intent, policy, matrix, catalogue, workloads, manifests, .. } =
        *request;
    let mut report = Report::default();
    if intent.external && !request.external_upgrader {
        report.refuse(Refusal::NoExternalUpgrader);
    }
    for problem in policy.problems() {
        report.refuse(Refusal::BadPolicy { problem: problem.to_string() });
    }
    let own = intent.nodes.values().any(|own| own.talos.is_some());
    if intent.talos.is_none() && intent.kubernetes.is_none() && !own {
        report.refuse(Refusal::NoTarget);
    }
    unknowns(snapshot, intent.rollback, &mut report);
    invisible(snapshot, policy, intent.rollback, &mut report);
    targets::contradictions(snapshot, intent, &mut report);
    let start = Start::of(snapshot, intent);
    let Start { running, .. } = &start;
    let legs = hops::find(&start, intent, matrix, catalogue, &mut report);
    if legs.is_none() {
        in_the_way(snapshot, intent, &start, &mut report);
    }
    let mut legs = legs.unwrap_or_default();
    if report.refusals.is_empty() {
        let others = other_content(snapshot, intent, &start, &legs);
        if !others.is_empty() {
            report
                .notes
                .retain(|note| !matches!(note, Note::AlreadyThere { product: Product::Talos, .. }));
        }
        legs.splice(0..0, others);
        targets::consequences(snapshot, intent, &legs, matrix, &mut report);
    }
    if !legs.is_empty() {
        control_planes_fit(snapshot, intent, policy, &legs, &mut report);
        not_ready(snapshot, &mut report);
    }
    if !report.refusals.is_empty() {
        return Err(report);
    }
    let mut lanes = Lanes::new(request);
    let last = u32::try_from(legs.len()).unwrap_or(u32::MAX);
    let hops = legs.iter().zip(1..);
    let hops = hops.filter_map(|(leg, number)| lanes.hop(number, leg, number < last)).collect();
    lanes.tell(&mut report);
    if !report.refusals.is_empty() {
        return Err(report);
    }
    let plan = Plan {
        format: PLAN_FORMAT,
        cluster: snapshot.cluster.clone(),
        parent: None,
        rollback: intent.rollback,
        from: running.clone(),
        to: end(&start, intent, &legs),
        policy: policy.clone(),
        prune: Vec::new(),
        nodes: targets::of_nodes(snapshot, intent, &legs),
        hops,
    };
    let prune = prune::choose(&plan, manifests, &mut report);
    let plan = Plan { prune, ..plan };
    drain::simulate(&plan, snapshot, workloads, &mut report);
    Ok(Planned { plan, report })
}

/// What runs afterwards: the cluster's own target where nodes move to it, whatever single
/// nodes move to.
fn end(start: &Start, intent: &Intent, legs: &[Leg]) -> Versions {
    let mut to = legs.last().map_or_else(|| start.running.clone(), |leg| leg.after.clone());
    let wanted = intent.talos.as_ref();
    let goes = |wanted: &&_| start.groups.iter().any(|group| group.target == **wanted);
    if let Some(wanted) = wanted.filter(goes).filter(|_| start.groups.len() > 1) {
        to.talos = Some(wanted.clone());
    }
    to
}

/// The legs for nodes that run the wanted version and lack the wanted content:
/// other extensions alone take an installation and a reboot too.
fn other_content(snapshot: &Snapshot, intent: &Intent, start: &Start, legs: &[Leg]) -> Vec<Leg> {
    let lacking = |version: &Version| {
        snapshot.nodes.iter().any(|(name, node)| {
            let wants = intent.talos_of(name) == Some(version);
            let facts = node.talos.known().filter(|facts| wants && facts.version == *version);
            facts.is_some_and(|facts| lacks_wanted(facts, intent.installer_of(name)))
        })
    };
    let moves = |version: &Version| {
        legs.iter().any(|leg| matches!(&leg.change, Change::Talos { to, .. } if to == version))
    };
    let targets = start.groups.iter().map(|group| &group.target);
    targets
        .filter(|version| !moves(version) && lacking(version))
        .map(|version| Leg {
            change: Change::Talos { from: version.clone(), to: version.clone() },
            after: Versions { talos: Some(version.clone()), ..start.running.clone() },
            targets: [version.clone()].into(),
        })
        .collect()
}

/// Names the nodes that block every path, if they are nodes that stay.
fn in_the_way(snapshot: &Snapshot, intent: &Intent, start: &Start, report: &mut Report) {
    let versions: Vec<Version> = report
        .refusals
        .iter()
        .filter_map(|refusal| match refusal {
            Refusal::NoPath { constraint: Constraint::Pair { talos, .. }, .. } => Some(talos),
            _ => None,
        })
        .filter(|talos| start.left.contains(*talos))
        .cloned()
        .collect();
    for talos in versions {
        let stays = |name: &NodeName| intent.talos_of(name).is_none();
        let runs = |node: &Node| node.talos.known().is_some_and(|facts| facts.version == talos);
        let nodes = snapshot.nodes.iter().filter(|(name, node)| stays(name) && runs(node));
        let nodes = nodes.map(|(name, _)| name.clone()).collect();
        report.warn(Warning::StaysBehind { nodes, talos });
    }
}

/// Whatever could not be observed stops the plan (rule 10). A rollback needs the machines
/// only: that Kubernetes does not answer may be what it repairs (rule 12).
fn unknowns(snapshot: &Snapshot, rollback: bool, report: &mut Report) {
    let away = away(snapshot).filter(|_| !rollback);
    if let Some(why) = &away {
        report.refuse(Refusal::KubernetesAway { why: why.clone() });
    }
    for (name, node) in &snapshot.nodes {
        let kubernetes = node.kubernetes.why_unknown().filter(|_| !rollback && away.is_none());
        let facts = [node.talos.why_unknown(), kubernetes];
        for why in facts.into_iter().flatten() {
            report.refusals.push(Refusal::NodeUnknown { node: name.clone(), why: why.to_owned() });
        }
        if let Some(why) = node.images.why_unknown() {
            let why = format!("its Kubernetes images: {why}");
            report.refusals.push(Refusal::NodeUnknown { node: name.clone(), why });
        }
    }
    if let Some(why) = snapshot.kubernetes.why_unknown().filter(|_| !rollback) {
        report.refuse(Refusal::KubernetesUnknown { why: why.to_owned() });
    }
    if snapshot.nodes_with(Role::ControlPlane).next().is_none() {
        report.refuse(Refusal::NoControlPlane);
    }
}

/// Why Kubernetes lists no node at all: that is one reason, and not one for each machine.
fn away(snapshot: &Snapshot) -> Option<String> {
    let mut reasons = snapshot.nodes.values().map(|node| node.kubernetes.why_unknown());
    let first = reasons.next()??;
    (snapshot.nodes.len() > 1 && reasons.all(|why| why == Some(first))).then(|| first.to_owned())
}

/// A node of Kubernetes without a known machine would be left out: kubelets could fall
/// too far behind, and the run would be done without it (rules 10 and 13). A rollback
/// leaves out what it cannot observe, and warns (rule 12).
fn invisible(snapshot: &Snapshot, policy: &Policy, rollback: bool, report: &mut Report) {
    for (node, why) in snapshot.unknown_nodes(&policy.foreign_nodes) {
        let (node, why) = (node.clone(), why.to_owned());
        if rollback {
            report.warn(Warning::NoMachine { node, why });
        } else {
            report.refuse(Refusal::NoMachine { node, why });
        }
    }
    let unmatched = snapshot.unmatched.keys();
    let foreign: Vec<_> =
        unmatched.filter(|name| policy.foreign_nodes.contains(*name)).cloned().collect();
    if !foreign.is_empty() {
        report.warn(Warning::Foreign { nodes: foreign });
    }
}

/// Machines that run and do not meet all of their conditions: they are upgraded, and are
/// back when they are as ready as now.
fn not_ready(snapshot: &Snapshot, report: &mut Report) {
    for (name, node) in &snapshot.nodes {
        let facts = node.talos.known().filter(|facts| facts.stage == Stage::Running);
        if let Some(facts) = facts.filter(|facts| !facts.unmet.is_empty()) {
            let unmet = facts.unmet.clone();
            report.warnings.push(Warning::NotReady { node: name.clone(), unmet });
        }
    }
}

/// Control planes and etcd must be fit before a plan is worth making (rule 1).
fn control_planes_fit(
    snapshot: &Snapshot,
    intent: &Intent,
    policy: &Policy,
    legs: &[Leg],
    report: &mut Report,
) {
    let control_planes = snapshot.nodes_with(Role::ControlPlane).count();
    let reboots = legs.iter().any(|leg| {
        let mut names = snapshot.nodes_with(Role::ControlPlane).map(|(name, _)| name);
        names.any(|name| targets::takes_part(intent, leg, name))
    });
    let restarts = legs.iter().any(|leg| matches!(leg.change, Change::Kubernetes { .. }));
    // One API server less is an outage only if there is no other; one etcd
    // member less, if the rest are no majority.
    let outage =
        (control_planes == 1 && restarts) || (reboots && !etcd::survives_one_loss(control_planes));
    if outage && control_planes > 0 {
        if policy.accept_outage {
            report.warn(Warning::Outage { control_planes });
        } else {
            report.refuse(Refusal::Outage { control_planes });
        }
    }
    if control_planes > 2 && control_planes.is_multiple_of(2) {
        report.warn(Warning::EvenControlPlanes { control_planes });
    }
    // A rollback starts from a cluster that is not healthy: `decide` still keeps quorum,
    // but the plan is not refused for it (rule 12).
    if intent.rollback {
        return;
    }
    for (name, node) in snapshot.nodes_with(Role::ControlPlane) {
        let seen = node.talos.why_unknown().is_none() && node.kubernetes.why_unknown().is_none();
        if let Some(why) = node.why_down().filter(|_| seen) {
            report.refuse(Refusal::ControlPlaneDown { node: name.clone(), why });
        }
    }
    for why in etcd::problems(snapshot, None, false) {
        report.refuse(Refusal::EtcdUnsafe { why });
    }
}
