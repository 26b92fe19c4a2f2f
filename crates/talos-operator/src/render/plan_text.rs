//! The plan for people: what changes, how, what to note, and the command that runs it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use upgrade_core::image::ImageRef;
use upgrade_core::plan::{Change, Hop, Plan, PlanHash, RebootMode, Target};
use upgrade_core::policy::RebootChoice;
use upgrade_core::product::Product;
use upgrade_core::snapshot::{Component, NodeName, Role, Snapshot};
use upgrade_core::version::Version;
use upgrade_planner::check::Finding;
use upgrade_planner::estimate::Estimate;
use upgrade_planner::report::{Note, Report, Warning};

use super::layout::{self, hang, remark};
use super::phases::phases;
use super::{Answer, BAD, CARE, FAINT, HEADING, INFO, Outcome, paint, time};
use crate::advice;

/// Columns before the text of a phase.
const PHASE_INDENT: usize = 20;

/// The advice for a plan that breaks a rule.
const FAULTY_PLAN: &str = "this is a bug in talos-operator; nothing was done, please report it";

/// The answer as text.
pub fn plan_text(answer: &Answer, snapshot: &Snapshot) -> String {
    let Answer { outcome, report, findings, core_dns } = answer;
    match outcome {
        Outcome::Planned { hash, plan, estimate, next } => {
            let mut out = headline(plan, hash, estimate, snapshot);
            out.push('\n');
            out.push_str(&components(plan, snapshot, *core_dns));
            out.push('\n');
            out.push_str(&hops(plan, estimate, snapshot));
            let remarks = warnings_and_notes(report, findings);
            if !remarks.is_empty() {
                out.push_str(&remarks);
                out.push('\n');
            }
            if let Some(next) = next {
                out.push_str(&what_next(next));
            }
            out
        }
        Outcome::NothingToDo => nothing_to_do(report),
        Outcome::Refused => {
            let mut out = String::new();
            for finding in findings {
                out.push_str(&remark(BAD, "refused", &finding.to_string()));
                out.push_str(&remark(FAINT, "  next", FAULTY_PLAN));
            }
            for refusal in &report.refusals {
                out.push_str(&remark(BAD, "refused", &refusal.to_string()));
                out.push_str(&remark(FAINT, "  next", &advice::text(&refusal.advice())));
            }
            // Notes are about a plan, and there is none.
            out + &warnings(report)
        }
    }
}

fn headline(plan: &Plan, hash: &PlanHash, estimate: &Estimate, snapshot: &Snapshot) -> String {
    let title = if plan.rollback { "Rollback plan" } else { "Upgrade plan" };
    let mut out = format!("{} {}\n\n", paint(HEADING, title), hash.short());
    let mut line = |key: &str, value: &str| {
        out.push_str(&hang(&format!("  {key:<12}"), 14, value));
    };
    let control_planes = snapshot.nodes_with(Role::ControlPlane).count();
    let workers = snapshot.nodes_with(Role::Worker).count();
    let workers = match workers {
        0 => "no workers".to_owned(),
        count => counted(count, "worker"),
    };
    line(
        "Cluster",
        &format!("{}, {} and {workers}", plan.cluster, counted(control_planes, "control plane")),
    );
    for (product, from, to) in [
        (Product::Talos, &plan.from.talos, &plan.to.talos),
        (Product::Kubernetes, &plan.from.kubernetes, &plan.to.kubernetes),
    ] {
        let key = &product.to_string();
        match (from, to) {
            (Some(from), Some(to)) if from != to => {
                line(key, &format!("{from} → {to}{}", some_nodes(plan, product, snapshot)));
            }
            (Some(from), _) => line(key, &format!("stays at {from}")),
            (None, _) => {}
        }
    }
    line(
        "Takes",
        &format!(
            "{}, about {}; {}",
            counted(plan.hops.len(), "hop"),
            time::span(estimate.total),
            reboots(plan, snapshot),
        ),
    );
    if let Some(cycled) = power_cycled(plan) {
        line("Power cycle", &cycled);
    }
    out
}

/// How many nodes take part, unless all do.
fn some_nodes(plan: &Plan, product: Product, snapshot: &Snapshot) -> String {
    if plan.nodes.is_empty() {
        return String::new();
    }
    let hops = plan.hops.iter().filter(|hop| hop.change.product() == product);
    let lanes = hops.flat_map(Hop::lanes);
    let nodes: BTreeSet<_> = lanes.filter_map(|lane| lane.node.as_ref()).collect();
    format!(", on {} of {}", nodes.len(), counted(snapshot.nodes.len(), "node"))
}

/// The nodes that reboot through their firmware.
fn power_cycled(plan: &Plan) -> Option<String> {
    let mut cycled = BTreeSet::new();
    let mut by_kexec = false;
    for (_, lane) in plan.lanes() {
        let (Some(node), Target::Talos(target)) = (&lane.node, &lane.target) else { continue };
        match target.reboot {
            RebootMode::Powercycle => drop(cycled.insert(node.0.as_str())),
            RebootMode::Default => by_kexec = true,
        }
    }
    if cycled.is_empty() {
        return None;
    }
    let names = cycled.into_iter().collect::<Vec<_>>().join(", ");
    let then = if plan.policy.reboot.mode == RebootChoice::PowercycleFirst && by_kexec {
        "; the others follow by kexec once these are verified"
    } else {
        ""
    };
    Some(format!("{names}{then}"))
}

/// How often nodes reboot.
fn reboots(plan: &Plan, snapshot: &Snapshot) -> String {
    let mut counts: BTreeMap<&NodeName, usize> =
        snapshot.nodes.keys().map(|node| (node, 0)).collect();
    for (_, lane) in plan.lanes() {
        if let (Some(node), Target::Talos(_)) = (&lane.node, &lane.target) {
            *counts.entry(node).or_default() += 1;
        }
    }
    let most = counts.values().copied().max().unwrap_or(0);
    let times = match most {
        0 => return "no reboots".to_owned(),
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    };
    match (counts.len(), counts.values().all(|count| *count == most)) {
        (1, _) => format!("the node reboots {times}"),
        (_, true) => format!("every node reboots {times}"),
        (_, false) => format!("nodes reboot {times} at most"),
    }
}

/// Component, current and target, as kubeadm shows them: those that run, and in
/// which versions.
fn components(plan: &Plan, snapshot: &Snapshot, core_dns: bool) -> String {
    let mut rows = Vec::new();
    let ends = ends(plan, snapshot);
    let mut row = |name: &str, nodes: usize, runs: &Running, to: &Option<Version>| {
        let Some(lowest) = runs.keys().next() else { return };
        let target = match to {
            _ if ends.get(name).is_some_and(|ends| ends.len() > 1) => listed(&ends[name]),
            Some(to) if to != lowest || runs.len() > 1 && moves(plan, name) => to.to_string(),
            _ => "stays".to_owned(),
        };
        rows.push(vec![name.to_owned(), nodes.to_string(), listed(runs), target]);
    };
    let nodes = || snapshot.nodes.values();
    let talos = nodes().filter_map(|node| Some(node.talos.known()?.version.clone()));
    row(TALOS, snapshot.nodes.len(), &counts(talos), &plan.to.talos);
    let images = |component| {
        let images = nodes().filter_map(move |node| node.images.known()?.get(&component));
        counts(images.filter_map(ImageRef::version))
    };
    for component in [
        Component::KubeApiserver,
        Component::KubeControllerManager,
        Component::KubeScheduler,
        Component::KubeProxy,
    ] {
        let runs = images(component);
        // Control planes render kube-proxy, and every node runs it.
        let nodes = match component {
            Component::KubeProxy => snapshot.nodes.len(),
            _ => runs.values().sum(),
        };
        row(component.name(), nodes, &runs, &plan.to.kubernetes);
    }
    let kubelets = nodes().filter_map(|node| Some(node.kubernetes.known()?.kubelet.clone()));
    row(Component::Kubelet.name(), snapshot.nodes.len(), &counts(kubelets), &plan.to.kubernetes);
    if core_dns && plan.hops.iter().any(|hop| matches!(hop.change, Change::Kubernetes { .. })) {
        // Its version is Talos's choice and travels in the manifests.
        rows.push(["CoreDNS", "-", "-", "as in Talos's manifests"].map(str::to_owned).to_vec());
    }
    layout::table(&["COMPONENT", "NODES", "CURRENT", "TARGET"], &rows, &[1])
}

/// Versions that run, and on how many nodes.
type Running = BTreeMap<Version, usize>;

const TALOS: &str = "Talos";

/// What each node ends on, where the plan does not treat all of them alike.
fn ends(plan: &Plan, snapshot: &Snapshot) -> BTreeMap<&'static str, Running> {
    if plan.nodes.is_empty() {
        return BTreeMap::new();
    }
    let kubelet = Component::Kubelet;
    let mut talos = BTreeMap::new();
    let mut kubelets = BTreeMap::new();
    for (name, node) in &snapshot.nodes {
        talos.extend(node.talos.known().map(|facts| (name, facts.version.clone())));
        kubelets.extend(node.kubernetes.known().map(|facts| (name, facts.kubelet.clone())));
    }
    for hop in &plan.hops {
        for lane in hop.lanes() {
            let Some(node) = &lane.node else { continue };
            match &lane.target {
                Target::Talos(_) => drop(talos.insert(node, hop.change.to().clone())),
                Target::Kubernetes { images, .. } if images.contains_key(&kubelet) => {
                    kubelets.insert(node, hop.change.to().clone());
                }
                _ => {}
            }
        }
    }
    let ends = [(TALOS, talos), (kubelet.name(), kubelets)];
    ends.into_iter().map(|(name, ends)| (name, counts(ends.into_values()))).collect()
}

fn counts(versions: impl Iterator<Item = Version>) -> Running {
    let mut counts = Running::new();
    for version in versions {
        *counts.entry(version).or_default() += 1;
    }
    counts
}

fn listed(runs: &Running) -> String {
    match runs.len() {
        1 => runs.keys().map(ToString::to_string).collect(),
        _ => {
            runs.iter().map(|(it, nodes)| format!("{it} ({nodes})")).collect::<Vec<_>>().join(", ")
        }
    }
}

/// Whether a hop moves the product that a component belongs to.
fn moves(plan: &Plan, component: &str) -> bool {
    plan.hops.iter().any(|hop| match hop.change {
        Change::Talos { .. } => component == TALOS,
        Change::Kubernetes { .. } => component != TALOS,
    })
}

/// What a hop changes.
fn moved(change: &Change) -> String {
    let (product, from, to) = (change.product(), change.from(), change.to());
    if from == to {
        format!("{product} {to}, another schematic")
    } else {
        format!("{product} {from} → {to}")
    }
}

fn hops(plan: &Plan, estimate: &Estimate, snapshot: &Snapshot) -> String {
    let leader = snapshot.etcd.known().and_then(upgrade_core::snapshot::EtcdFacts::leader);
    let title = |hop: &Hop| {
        let change = &hop.change;
        moved(change)
    };
    let effect = |hop: &Hop| match rebooting(hop) {
        0 => "no reboots".to_owned(),
        count => format!("reboots {}", counted(count, "node")),
    };
    let wide = |text: &dyn Fn(&Hop) -> String| {
        plan.hops.iter().map(|hop| layout::width(&text(hop))).max().unwrap_or(0)
    };
    let (title_width, effect_width) = (wide(&title), wide(&effect));
    let mut out = String::new();
    for (hop, span) in plan.hops.iter().zip(&estimate.hops) {
        let number = format!("{}.", hop.number);
        let space = " ".repeat(title_width - layout::width(&title(hop)));
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "{number:<4}{}{space}   {:<effect_width$}   {}",
            paint(HEADING, &title(hop)),
            effect(hop),
            time::span(*span),
        );
        for phase in phases(hop, &plan.policy, leader) {
            let width = PHASE_INDENT - 4;
            let label = paint(FAINT, &format!("{:<width$}", phase.label));
            out.push_str(&hang(&format!("    {label}"), PHASE_INDENT, &phase.text));
        }
        out.push('\n');
    }
    out
}

fn rebooting(hop: &Hop) -> usize {
    hop.lanes().filter(|lane| matches!(lane.target, Target::Talos(_))).count()
}

fn warnings(report: &Report) -> String {
    let text = |warning: &Warning| {
        let advice = warning.advice().map(|it| remark(FAINT, "  next", &advice::text(&it)));
        remark(CARE, "warning", &warning.to_string()) + &advice.unwrap_or_default()
    };
    report.warnings.iter().map(text).collect()
}

fn warnings_and_notes(report: &Report, findings: &[Finding]) -> String {
    let mut out = warnings(report);
    for finding in findings {
        out.push_str(&remark(CARE, "warning", &finding.to_string()));
    }
    for note in &report.notes {
        out.push_str(&remark(INFO, "note", &note.to_string()));
    }
    out
}

fn what_next(command: &str) -> String {
    super::summary::next("To run it (it plans again and asks first)", command)
}

fn nothing_to_do(report: &Report) -> String {
    let there: Vec<String> = report
        .notes
        .iter()
        .filter(|note| matches!(note, Note::AlreadyThere { .. } | Note::Held { .. }))
        .map(ToString::to_string)
        .collect();
    let why = if there.is_empty() {
        "everything already runs the target versions".to_owned()
    } else {
        there.join(", ")
    };
    let mut out = remark(BAD, "nothing to do", &why);
    out.push_str(&remark(FAINT, "  next", &advice::text(&report.advice_on_nothing())));
    out + &warnings(report)
}

fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use upgrade_core::plan::Versions;
    use upgrade_core::policy::Policy;
    use upgrade_core::snapshot::Fact;
    use upgrade_planner::check::Severity;

    use super::*;
    use crate::offline::Cluster;

    fn text(outcome: Outcome, report: Report, findings: Vec<Finding>) -> String {
        let cluster = Cluster {
            control_planes: 3,
            workers: 0,
            talos: None,
            kubernetes: None,
            installer: None,
        };
        let answer = Answer { outcome, report, findings, core_dns: true };
        anstream::adapter::strip_str(&plan_text(&answer, &cluster.snapshot())).to_string()
    }

    #[test]
    fn a_plan_that_breaks_a_rule_is_refused() {
        let finding = Finding {
            rule: 1,
            severity: Severity::Fatal,
            text: "two control planes at once".to_owned(),
        };
        let text = text(Outcome::Refused, Report::default(), vec![finding]);
        assert!(text.starts_with("refused: rule 1: two control planes at once\n"), "{text}");
        assert!(text.contains(FAULTY_PLAN), "{text}");
    }

    #[test]
    fn rows_show_what_runs() {
        // B4: what is switched off has no row, and nodes that are ahead are named.
        let cluster = Cluster {
            control_planes: 3,
            workers: 1,
            talos: Some(Version::new(1, 13, 8)),
            kubernetes: Some(Version::new(1, 35, 3)),
            installer: None,
        };
        let mut snapshot = cluster.snapshot();
        let versions = |talos| Versions { talos, kubernetes: Some(Version::new(1, 35, 3)) };
        let plan = Plan {
            format: 1,
            cluster: "a".to_owned(),
            parent: None,
            rollback: false,
            from: versions(Some(Version::new(1, 13, 8))),
            to: versions(Some(Version::new(1, 13, 8))),
            policy: Policy::default(),
            prune: Vec::new(),
            nodes: BTreeMap::new(),
            hops: Vec::new(),
        };
        let all = components(&plan, &snapshot, true);
        assert!(all.contains("kube-proxy"), "{all}");
        for node in snapshot.nodes.values_mut() {
            if let Fact::Known(images) = &mut node.images {
                images.remove(&Component::KubeProxy);
            }
        }
        let ahead = snapshot.nodes.get_mut(&"worker-1".into()).unwrap();
        let Fact::Known(facts) = &mut ahead.talos else { panic!() };
        facts.version = Version::new(1, 13, 9);
        let some = components(&plan, &snapshot, false);
        assert!(!some.contains("kube-proxy") && !some.contains("CoreDNS"), "{some}");
        assert!(some.contains("1.13.8 (3), 1.13.9 (1)"), "{some}");
    }

    #[test]
    fn nothing_to_do_needs_no_notes() {
        let text = text(Outcome::NothingToDo, Report::default(), Vec::new());
        assert!(text.starts_with("nothing to do: "), "{text}");
    }

    #[test]
    fn a_single_thing_has_no_plural() {
        assert_eq!(counted(1, "hop"), "1 hop");
        assert_eq!(counted(2, "hop"), "2 hops");
    }
}
