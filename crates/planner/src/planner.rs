//! From an observation and an intent to a plan.
//!
//! Looks at everything before it refuses, so that a person sees all reasons at
//! once. The lanes themselves are laid in `lanes`.

use upgrade_core::catalogue::Catalogue;
use upgrade_core::intent::Intent;
use upgrade_core::manifests::Manifests;
use upgrade_core::matrix::Matrix;
use upgrade_core::plan::{Change, PLAN_FORMAT, Plan, Versions};
use upgrade_core::policy::Policy;
use upgrade_core::product::{PerProduct, VersionRange};
use upgrade_core::snapshot::{Fact, Role, Snapshot, Stage};
use upgrade_core::workload::Workloads;

use crate::drain;
use crate::etcd;
use crate::hops::{self, Leg};
use crate::installer::lacks_wanted;
use crate::lanes::Lanes;
use crate::prune;
use crate::report::{Note, Product, Refusal, Report, Warning};

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
}

/// A plan and what there is to say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The plan; empty if there is nothing to do.
    pub plan: Plan,
    /// Warnings and notes.
    pub report: Report,
}

/// Makes a plan, or says every reason why there is none.
pub fn plan(request: &Request<'_>) -> Result<Planned, Report> {
    let Request { snapshot, intent, policy, matrix, catalogue, workloads, manifests } = *request;
    let mut report = Report::default();
    for problem in policy.problems() {
        report.refuse(Refusal::BadPolicy { problem: problem.to_string() });
    }
    if intent.talos.is_none() && intent.kubernetes.is_none() {
        report.refuse(Refusal::NoTarget);
    }
    unknowns(snapshot, intent.rollback, &mut report);
    invisible(snapshot, policy, intent.rollback, &mut report);
    let behind = running(snapshot, false).kubernetes;
    let running = running(snapshot, intent.rollback);
    let legs = hops::find(&running, behind.as_ref(), intent, matrix, catalogue, &mut report);
    let mut legs = legs.unwrap_or_default();
    if report.refusals.is_empty()
        && let Some(leg) = other_content(snapshot, intent, &running, &legs)
    {
        report
            .notes
            .retain(|note| !matches!(note, Note::AlreadyThere { product: Product::Talos, .. }));
        legs.insert(0, leg);
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
    let to = legs.last().map_or_else(|| running.clone(), |leg| leg.after.clone());
    let plan = Plan {
        format: PLAN_FORMAT,
        cluster: snapshot.cluster.clone(),
        parent: None,
        rollback: intent.rollback,
        from: running,
        to,
        policy: policy.clone(),
        prune: Vec::new(),
        hops,
    };
    let prune = prune::choose(&plan, manifests, &mut report);
    let plan = Plan { prune, ..plan };
    drain::simulate(&plan, snapshot, workloads, &mut report);
    Ok(Planned { plan, report })
}

/// The leg for nodes that run the wanted version and lack the wanted content:
/// other extensions alone take an installation and a reboot too.
fn other_content(
    snapshot: &Snapshot,
    intent: &Intent,
    running: &Versions,
    legs: &[Leg],
) -> Option<Leg> {
    let version = intent.talos.as_ref().filter(|wanted| running.talos.as_ref() == Some(wanted))?;
    let moves = legs.iter().any(|leg| matches!(leg.change, Change::Talos { .. }));
    let mut nodes = snapshot.nodes.values().filter_map(|node| node.talos.known());
    let lacking = nodes.any(|facts| facts.version == *version && lacks_wanted(facts, intent));
    (lacking && !moves).then(|| Leg {
        change: Change::Talos { from: version.clone(), to: version.clone() },
        after: running.clone(),
    })
}

/// Whatever could not be seen stops the plan (rule 10). A way back needs the
/// machines only: that Kubernetes does not answer may be what it mends (rule 12).
fn unknowns(snapshot: &Snapshot, rollback: bool, report: &mut Report) {
    let away = away(snapshot).filter(|_| !rollback);
    if let Some(why) = &away {
        report.refuse(Refusal::KubernetesAway { why: why.clone() });
    }
    for (name, node) in &snapshot.nodes {
        let kubernetes = node.kubernetes.trouble().filter(|_| !rollback && away.is_none());
        let facts = [node.talos.trouble(), kubernetes];
        for why in facts.into_iter().flatten() {
            report.refusals.push(Refusal::NodeUnknown { node: name.clone(), why: why.to_owned() });
        }
        if let Some(why) = node.images.trouble() {
            let why = format!("its Kubernetes images: {why}");
            report.refusals.push(Refusal::NodeUnknown { node: name.clone(), why });
        }
    }
    if let Some(why) = snapshot.kubernetes.trouble().filter(|_| !rollback) {
        report.refuse(Refusal::KubernetesUnknown { why: why.to_owned() });
    }
    if snapshot.nodes_with(Role::ControlPlane).next().is_none() {
        report.refuse(Refusal::NoControlPlane);
    }
}

/// Why Kubernetes tells of no node at all: that is one reason, and none of the machines'.
fn away(snapshot: &Snapshot) -> Option<String> {
    let mut reasons = snapshot.nodes.values().map(|node| node.kubernetes.trouble());
    let first = reasons.next()??;
    (snapshot.nodes.len() > 1 && reasons.all(|why| why == Some(first))).then(|| first.to_owned())
}

/// A node of Kubernetes without a known machine would be left out: kubelets could fall
/// too far behind, and the run would be done without it (rules 10 and 13). A way back
/// leaves out what it cannot see, and says so (rule 12).
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

/// The version of each product: a cluster is as old as its oldest part. On the
/// way back it is as new as its newest, or the nodes that went ahead would be
/// forgotten.
fn running(snapshot: &Snapshot, rollback: bool) -> Versions {
    let PerProduct { talos, kubernetes } = snapshot.versions();
    let end = |range: VersionRange| if rollback { range.newest } else { range.lowest };
    Versions { talos: talos.map(end), kubernetes: kubernetes.map(end) }
}

/// Machines that run and do not meet all of their conditions: they are upgraded all the
/// same, and are back when they are as ready as now.
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
    let reboots = legs.iter().any(|leg| matches!(leg.change, Change::Talos { .. }));
    // One API server less is an outage only if there is no other; one etcd
    // member less, if the rest are no majority.
    let outage = control_planes == 1 || (reboots && !etcd::survives_one_loss(control_planes));
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
    // A way back starts from a cluster that is not well: `decide` still keeps
    // quorum, but the plan is not refused for it (rule 12).
    if intent.rollback {
        return;
    }
    for (name, node) in snapshot.nodes_with(Role::ControlPlane) {
        let seen = node.talos.trouble().is_none() && node.kubernetes.trouble().is_none();
        if let Some(why) = node.why_down().filter(|_| seen) {
            report.refuse(Refusal::ControlPlaneDown { node: name.clone(), why });
        }
    }
    for why in etcd::problems(snapshot, None, false) {
        report.refuse(Refusal::EtcdUnsafe { why });
    }
}
