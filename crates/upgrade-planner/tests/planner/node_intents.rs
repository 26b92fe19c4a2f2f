//! Wishes for single nodes: versions and installers of their own, and nodes that are held.

use std::collections::BTreeSet;

use upgrade_core::intent::{Installer, Intent, NodeIntent, Preference};
use upgrade_core::matrix::Matrix;
use upgrade_core::plan::{Hop, NodeTarget, Plan, Target};
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::{Component, NodeName, Role, Snapshot};
use upgrade_planner::report::{Note, Refusal, Report, Warning};
use upgrade_planner::{Planned, check};

use crate::common::world::{End, World};
use crate::common::{
    SCHEMATIC, cluster, image, intent, known, plan_for, report_text, sketch, talos, version,
};

fn held() -> NodeIntent {
    NodeIntent { hold: true, ..NodeIntent::default() }
}

fn pinned(talos: &str) -> NodeIntent {
    NodeIntent { talos: Some(version(talos)), ..NodeIntent::default() }
}

fn with<const N: usize>(intent: Intent, nodes: [(&str, NodeIntent); N]) -> Intent {
    let nodes = nodes.into_iter().map(|(name, own)| (name.into(), own)).collect();
    Intent { nodes, ..intent }
}

/// A plan that `check` has nothing against.
fn sound(snapshot: &Snapshot, intent: &Intent) -> Planned {
    let planned = plan_for(snapshot, intent, &Policy::default());
    let planned = planned.unwrap_or_else(|report| panic!("{}", report_text(&report)));
    assert_eq!(check(&planned.plan, snapshot, &Matrix::builtin()), [], "{}", sketch(&planned));
    planned
}

fn refused(snapshot: &Snapshot, intent: &Intent) -> Report {
    match plan_for(snapshot, intent, &Policy::default()) {
        Ok(planned) => panic!("planned:\n{}", sketch(&planned)),
        Err(report) => report,
    }
}

/// The nodes that a plan has steps for.
fn touched(plan: &Plan) -> BTreeSet<&str> {
    let lanes = plan.hops.iter().flat_map(Hop::lanes);
    lanes.filter_map(|lane| Some(lane.node.as_ref()?.0.as_str())).collect()
}

/// The versions that each hop of Talos leads to, and how many nodes it reboots.
fn reboots(plan: &Plan) -> Vec<(String, usize)> {
    let hops = plan.hops.iter();
    hops.map(|hop| {
        let lanes = hop.lanes();
        let count = lanes.filter(|lane| matches!(lane.target, Target::Talos(_))).count();
        (hop.change.to().to_string(), count)
    })
    .filter(|(_, count)| *count > 0)
    .collect()
}

fn golden(name: &str, snapshot: &Snapshot, intent: &Intent) {
    let text = match plan_for(snapshot, intent, &Policy::default()) {
        Ok(planned) => {
            let Plan { from, to, nodes, .. } = &planned.plan;
            let nodes: Vec<String> =
                nodes.iter().map(|(name, own)| format!("{name}: {own:?}\n")).collect();
            let nodes = nodes.concat();
            format!("{from:?}\n{to:?}\n{nodes}{}{}", sketch(&planned), report_text(&planned.report))
        }
        Err(report) => report_text(&report),
    };
    insta::assert_snapshot!(name, text);
}

#[test]
fn plans() {
    let os = intent(Some("1.13.9"), None);
    let small = cluster(3, 3, "1.13.1", "1.34.2");
    golden("node_held_control_plane", &small, &with(os.clone(), [("cp-2", held())]));
    let mut only = os.clone();
    only.hold_others(small.nodes.keys(), &BTreeSet::from(["worker-2".into()]));
    golden("node_only_one", &small, &only);
    let own = [("worker-1", pinned("1.12.4")), ("worker-2", pinned("1.14.4"))];
    golden("node_own_versions", &cluster(3, 3, "1.11.3", "1.33.4"), &with(os, own));
    let both = intent(Some("1.13.9"), Some("1.36.3"));
    let both = with(both, [("worker-3", held())]);
    golden("node_held_from_both", &cluster(3, 3, "1.13.1", "1.34.2"), &both);
}

#[test]
fn refusals() {
    let small = cluster(3, 2, "1.13.1", "1.34.2");
    let os = intent(Some("1.13.9"), None);
    let own = [("cp-9", held()), ("worker-1", pinned("1.12.11")), ("worker-3", pinned("1.13.9"))];
    golden("node_refused", &small, &with(os.clone(), own));
    let other = NodeIntent {
        installer: Some(Installer::Image(image("mirror.lan/installer:v1.13.4"))),
        ..NodeIntent::default()
    };
    golden("node_refused_tag", &small, &with(os, [("worker-1", other)]));
    let k8s = intent(None, Some("1.35.4"));
    golden("node_refused_kubernetes", &small, &with(k8s, [("cp-2", held())]));
    let far = intent(Some("1.14.4"), None);
    let old = cluster(3, 2, "1.10.9", "1.33.4");
    golden("node_refused_etcd", &old, &with(far, [("cp-2", held())]));
}

#[test]
fn a_held_node_is_left_as_it_is() {
    // Rule 12: not even a pull, and not for Kubernetes either.
    let snapshot = cluster(3, 3, "1.13.1", "1.34.2");
    let both = with(intent(Some("1.13.9"), Some("1.35.4")), [("worker-2", held())]);
    let planned = sound(&snapshot, &both);
    assert!(!touched(&planned.plan).contains("worker-2"), "{}", sketch(&planned));
    let target = &planned.plan.nodes[&NodeName::from("worker-2")];
    assert_eq!(*target, NodeTarget { talos: Some(version("1.13.1")), hold: true });
    assert!(planned.report.notes.contains(&Note::Held { nodes: vec!["worker-2".into()] }));
}

#[test]
fn workers_alone_are_no_outage() {
    // Rule 1: the only control plane is held, so its API stays.
    let snapshot = cluster(1, 2, "1.13.1", "1.34.2");
    let os = intent(Some("1.13.9"), None);
    assert!(matches!(refused(&snapshot, &os).refusals[..], [Refusal::Outage { .. }]));
    let planned = sound(&snapshot, &with(os, [("cp-1", held())]));
    assert_eq!(touched(&planned.plan), BTreeSet::from(["worker-1", "worker-2"]));
    assert!(!sketch(&planned).contains("snapshot-etcd"));
}

#[test]
fn every_node_takes_the_hops_up_to_its_own() {
    // Rule 13. Patches of one minor are hops of their own, and no node passes both.
    let snapshot = cluster(3, 3, "1.11.3", "1.33.4");
    let own = [("worker-1", pinned("1.12.4")), ("worker-2", pinned("1.12.9"))];
    let planned = sound(&snapshot, &with(intent(Some("1.13.9"), None), own));
    let reached: Vec<(String, usize)> = reboots(&planned.plan);
    let reached: Vec<(&str, usize)> = reached.iter().map(|(to, n)| (to.as_str(), *n)).collect();
    let patch = "1.11.6";
    let newest = "1.12.11";
    assert_eq!(
        reached,
        [(patch, 6), ("1.12.4", 1), ("1.12.9", 1), (newest, 4), ("1.13.9", 4)],
        "{}",
        sketch(&planned)
    );
    assert_eq!(planned.plan.to.talos, Some(version("1.13.9")));
}

#[test]
fn a_version_of_its_own_is_enough() {
    // No other node has a target: they stay, and need no hold.
    let snapshot = cluster(3, 2, "1.13.1", "1.34.2");
    let planned = sound(&snapshot, &with(intent(None, None), [("worker-1", pinned("1.13.9"))]));
    assert_eq!(touched(&planned.plan), BTreeSet::from(["worker-1"]));
    assert_eq!(planned.plan.to.talos, Some(version("1.13.9")));
}

#[test]
fn kubernetes_goes_as_far_as_every_talos_runs_it() {
    // Rule 13: 1.12 runs Kubernetes up to 1.35, whatever the others run.
    let snapshot = cluster(3, 2, "1.12.4", "1.34.2");
    let to = |kubernetes: &str| Intent {
        prefer: Preference::TalosFirst,
        ..with(intent(Some("1.13.9"), Some(kubernetes)), [("worker-1", pinned("1.12.11"))])
    };
    sound(&snapshot, &to("1.35.4"));
    let report = refused(&snapshot, &to("1.36.3"));
    assert!(matches!(report.refusals[..], [Refusal::NoPath { .. }]), "{}", report_text(&report));
    let held =
        |kubernetes: &str| Intent { nodes: [("worker-1".into(), held())].into(), ..to(kubernetes) };
    sound(&snapshot, &held("1.35.4"));
    let report = refused(&snapshot, &held("1.36.3"));
    let behind = Warning::StaysBehind { nodes: vec!["worker-1".into()], talos: version("1.12.4") };
    assert!(report.warnings.contains(&behind), "{}", report_text(&report));
}

#[test]
fn a_held_node_that_is_unsupported_already_may_come_nearer() {
    // Rule 13: Talos 1.14 starts at Kubernetes 1.32, and 1.30 runs.
    let mut snapshot = cluster(3, 1, "1.12.4", "1.30.4");
    talos(&mut snapshot, "worker-1").version = version("1.14.4");
    let to = with(intent(Some("1.12.11"), Some("1.31.4")), [("worker-1", held())]);
    sound(&snapshot, &to);
}

#[test]
fn a_kubelet_is_held_for_three_minors() {
    // Rule 13.
    let snapshot = cluster(3, 2, "1.13.9", "1.31.4");
    let to = |kubernetes| with(intent(None, Some(kubernetes)), [("worker-1", held())]);
    sound(&snapshot, &to("1.34.2"));
    let report = refused(&snapshot, &to("1.35.4"));
    assert!(
        matches!(report.refusals[..], [Refusal::HeldKubelet { .. }]),
        "{}",
        report_text(&report)
    );
}

#[test]
fn a_held_node_does_not_hold_up_the_next_run() {
    // Its versions do not count, or the other nodes could not continue from theirs.
    let mut snapshot = cluster(3, 2, "1.13.9", "1.35.4");
    let node = snapshot.nodes.get_mut(&"worker-1".into()).unwrap();
    known(&mut node.kubernetes).kubelet = version("1.33.4");
    let images = known(&mut node.images);
    let older = images[&Component::Kubelet].with_tag("v1.33.4");
    images.insert(Component::Kubelet, older);
    talos(&mut snapshot, "worker-1").version = version("1.12.4");
    let both = with(intent(Some("1.13.10"), Some("1.35.5")), [("worker-1", held())]);
    let planned = sound(&snapshot, &both);
    assert_eq!(planned.plan.hops.len(), 2, "{}", sketch(&planned));
    assert_eq!(planned.plan.from.talos, Some(version("1.13.9")));
    assert_eq!(planned.plan.from.kubernetes, Some(version("1.35.4")));
}

#[test]
fn an_installer_of_its_own() {
    // Rule 4: one node gets another schematic, the others keep theirs.
    let snapshot = cluster(3, 2, "1.13.1", "1.34.2");
    let other = "ab".repeat(32);
    let own = NodeIntent {
        installer: Some(Installer::Schematic(other.clone())),
        ..NodeIntent::default()
    };
    let schematics = |planned: &Planned| -> BTreeSet<(String, String)> {
        let lanes = planned.plan.hops.iter().flat_map(|hop| &hop.waves).flat_map(|it| &it.lanes);
        lanes
            .filter_map(|lane| match &lane.target {
                Target::Talos(target) => {
                    Some((lane.node.clone()?.0, target.schematic.clone().unwrap_or_default()))
                }
                _ => None,
            })
            .collect()
    };
    let to = with(intent(Some("1.13.9"), None), [("worker-1", own.clone())]);
    let planned = sound(&snapshot, &to);
    for (node, schematic) in schematics(&planned) {
        let wanted = if node == "worker-1" { other.as_str() } else { SCHEMATIC };
        assert_eq!(schematic, wanted, "{node}");
    }
    // By itself, on the version that runs: that node alone is installed again.
    let same = with(intent(Some("1.13.1"), None), [("worker-1", own.clone())]);
    let planned = sound(&snapshot, &same);
    assert_eq!(touched(&planned.plan), BTreeSet::from(["worker-1"]));
    // And beside others that move.
    let beside = NodeIntent { talos: Some(version("1.13.1")), ..own };
    let planned = sound(&snapshot, &with(intent(Some("1.13.9"), None), [("worker-1", beside)]));
    assert_eq!(reboots(&planned.plan), [("1.13.1".to_owned(), 1), ("1.13.9".to_owned(), 4)]);
}

#[test]
fn two_minors_at_once_leave_no_node_out() {
    // A node that has to stop on the way is not passed over.
    let snapshot = cluster(3, 2, "1.11.6", "1.33.4");
    let skip = |intent| Intent { skip_minors: true, ..intent };
    let all = sound(&snapshot, &skip(intent(Some("1.13.9"), None)));
    assert_eq!(reboots(&all.plan), [("1.13.9".to_owned(), 5)]);
    let own = skip(with(intent(Some("1.13.9"), None), [("worker-1", pinned("1.12.4"))]));
    let planned = sound(&snapshot, &own);
    let last: Vec<(String, usize)> = reboots(&planned.plan);
    assert!(last.contains(&("1.12.4".to_owned(), 1)), "{}", sketch(&planned));
    assert_eq!(last.last(), Some(&("1.13.9".to_owned(), 4)));
}

#[test]
fn going_back_understands_it() {
    // Rule 12: one node goes back, one is held, and one has a version of its own.
    let snapshot = cluster(3, 3, "1.13.9", "1.34.2");
    let own = [("worker-1", held()), ("worker-2", pinned("1.12.11"))];
    let back = Intent { rollback: true, ..with(intent(Some("1.13.1"), None), own) };
    let planned = sound(&snapshot, &back);
    assert_eq!(
        reboots(&planned.plan),
        [("1.13.1".to_owned(), 4), ("1.12.11".to_owned(), 1)],
        "{}",
        sketch(&planned)
    );
    assert!(!touched(&planned.plan).contains("worker-1"));
    assert_eq!(planned.plan.to.talos, Some(version("1.13.1")));
}

#[test]
fn a_mixed_plan_runs_to_its_end() {
    // Rules 1, 5, 6 and 8 by the world's own referee; then nothing is left to do.
    let snapshot = cluster(3, 4, "1.11.3", "1.33.4");
    let own = [("cp-2", held()), ("worker-1", pinned("1.12.4")), ("worker-4", held())];
    let to = with(intent(Some("1.12.11"), None), own);
    let planned = sound(&snapshot, &to);
    let mut world = World::new(snapshot, planned.plan);
    assert_eq!(world.run(), End::Done);
    for (name, runs) in [
        ("cp-1", "1.12.11"),
        ("cp-2", "1.11.3"),
        ("worker-1", "1.12.4"),
        ("worker-3", "1.12.11"),
        ("worker-4", "1.11.3"),
    ] {
        assert_eq!(talos(&mut world.truth, name).version, version(runs), "{name}");
    }
    let again = plan_for(&world.truth, &to, &Policy::default()).unwrap();
    assert!(again.plan.is_empty(), "{}", sketch(&again));
}

#[test]
fn what_no_node_asks_for_changes_no_plan() {
    // The form of plans without such wishes is pinned elsewhere; here: their hash.
    let snapshot = cluster(3, 3, "1.11.3", "1.33.4");
    let both = intent(Some("1.13.9"), Some("1.36.3"));
    let plain = sound(&snapshot, &both).plan;
    assert!(!serde_json::to_string(&plain).unwrap().contains("\"nodes\""));
    assert!(snapshot.nodes_with(Role::Worker).count() > 0);
    let empty = with(both, [("worker-1", NodeIntent::default())]);
    let same = sound(&snapshot, &empty).plan;
    assert_eq!(same.hops, plain.hops);
}
