//! `check` finds what a careless planner would do: one breakage a rule.

use upgrade_core::manifests::ObjectKey;
use upgrade_core::matrix::Matrix;
use upgrade_core::plan::{Change, Group, NodeTarget, Plan, Target};
use upgrade_core::policy::{Policy, Prune};
use upgrade_core::snapshot::Snapshot;
use upgrade_core::step::Action;
use upgrade_planner::check;
use upgrade_planner::check::Severity;

use crate::common::{cluster, image, intent, plan_for, version};

type Breakage = (u8, &'static str, fn(&mut Plan));

fn lanes(plan: &mut Plan) -> impl Iterator<Item = &mut upgrade_core::plan::Lane> {
    plan.hops.iter_mut().flat_map(|hop| &mut hop.waves).flat_map(|wave| &mut wave.lanes)
}

fn without(plan: &mut Plan, action: Action) {
    for lane in lanes(plan) {
        lane.steps.retain(|step| *step != action);
    }
}

const BREAKAGES: &[Breakage] = &[
    (1, "two control planes in a wave", |plan| {
        let waves = &mut plan.hops[0].waves;
        let at = waves.iter().position(|wave| wave.group == Group::ControlPlane).unwrap();
        let moved = waves.remove(at + 1).lanes;
        waves[at].lanes.extend(moved);
    }),
    (1, "a control plane among workers", |plan| {
        for wave in &mut plan.hops[0].waves {
            if wave.group == Group::ControlPlane {
                wave.group = Group::Workers;
            }
        }
    }),
    (1, "the leader first, leading still", |plan| {
        plan.hops[0].waves[1..].reverse();
        without(plan, Action::Forfeit);
    }),
    (3, "no snapshot", |plan| without(plan, Action::SnapshotEtcd)),
    (4, "another version in the image", |plan| {
        for lane in lanes(plan) {
            if let Target::Talos(target) = &mut lane.target {
                target.installer = target.installer.with_tag("v1.13.2");
            }
        }
    }),
    (4, "a plain installer for extensions", |plan| {
        for lane in lanes(plan) {
            if let Target::Talos(target) = &mut lane.target {
                target.installer = image("ghcr.io/siderolabs/installer:v1.13.9");
                target.extensions = Some(vec!["gvisor".to_owned()]);
            }
        }
    }),
    (5, "two reboots", |plan| {
        for lane in lanes(plan) {
            if lane.has(Action::Reboot) {
                lane.steps.insert(0, Action::Reboot.into());
            }
        }
    }),
    (5, "no verification", |plan| without(plan, Action::Verify)),
    (6, "no eviction", |plan| without(plan, Action::Drain)),
    (6, "too many workers", |plan| plan.hops[0].limit = 1),
    (7, "a cordon for ever", |plan| without(plan, Action::Uncordon)),
    (8, "a step twice", |plan| {
        let waves = &mut plan.hops[0].waves;
        let again = waves[0].clone();
        waves.push(again);
    }),
    (9, "another cluster", |plan| "staging".clone_into(&mut plan.cluster)),
    (9, "another form", |plan| plan.format = 99),
    (10, "a node that was not observed", |plan| {
        for lane in lanes(plan) {
            if lane.node == Some("worker-1".into()) {
                lane.node = Some("worker-99".into());
            }
        }
    }),
    (10, "another version than expected", |plan| {
        for lane in lanes(plan) {
            if let Target::Talos(target) = &mut lane.target {
                target.from = version("1.13.0");
            }
        }
    }),
    (11, "no deadline", |plan| {
        plan.policy.timeouts.reboot = upgrade_core::jiff::SignedDuration::ZERO;
    }),
    (12, "a held node", |plan| {
        plan.nodes.insert("worker-1".into(), NodeTarget { talos: None, hold: true });
    }),
    (12, "another version than a node's own", |plan| {
        let talos = Some(version("1.13.4"));
        plan.nodes.insert("worker-1".into(), NodeTarget { talos, hold: false });
    }),
    (13, "a node taken from what it does not run", |plan| {
        let mut again = plan.hops[0].clone();
        again.number = 2;
        plan.hops.push(again);
    }),
    (13, "a held node without support", |plan| {
        let (from, to) = (version("1.36.3"), version("1.37.0"));
        plan.nodes.insert("worker-9".into(), NodeTarget { talos: None, hold: true });
        plan.from.kubernetes = Some(from.clone());
        plan.to.kubernetes = Some(to.clone());
        let hop = &mut plan.hops[0];
        hop.versions.kubernetes = Some(to.clone());
        hop.change = Change::Kubernetes { from, to };
        hop.waves.clear();
    }),
    (13, "an unsupported pair", |plan| {
        plan.from.kubernetes = Some(version("1.20.1"));
        plan.to.kubernetes = Some(version("1.20.1"));
        for hop in &mut plan.hops {
            hop.versions.kubernetes = Some(version("1.20.1"));
        }
    }),
    (13, "a downgrade", |plan| {
        plan.hops[0].change = Change::Talos { from: version("1.13.1"), to: version("1.13.0") };
    }),
    (13, "a gap between hops", |plan| {
        plan.hops[0].change = Change::Talos { from: version("1.13.0"), to: version("1.13.9") };
    }),
];

fn planned() -> (Snapshot, Plan) {
    let snapshot = cluster(3, 4, "1.13.1", "1.34.2");
    let mut policy = Policy::default();
    policy.workers.max_unavailable = upgrade_core::amount::Amount::Count(2);
    let planned = plan_for(&snapshot, &intent(Some("1.13.9"), None), &policy).unwrap();
    (snapshot, planned.plan)
}

#[test]
fn a_sound_plan_has_no_findings() {
    let (snapshot, plan) = planned();
    assert_eq!(check(&plan, &snapshot, &Matrix::builtin()), []);
}

#[test]
fn every_breakage_is_found_under_its_rule() {
    for (rule, what, breakage) in BREAKAGES {
        let (snapshot, mut plan) = planned();
        breakage(&mut plan);
        let findings = check(&plan, &snapshot, &Matrix::builtin());
        let found = findings
            .iter()
            .any(|finding| finding.rule == *rule && finding.severity == Severity::Fatal);
        assert!(found, "rule {rule}, {what}: {findings:?}");
    }
}

#[test]
fn a_kubernetes_minor_cannot_be_skipped() {
    // Rule 13.
    let snapshot = cluster(3, 1, "1.13.1", "1.33.4");
    let planned = plan_for(&snapshot, &intent(None, Some("1.35.2")), &Policy::default()).unwrap();
    let mut plan = planned.plan;
    assert_eq!(plan.hops.len(), 2);
    plan.hops.remove(0);
    plan.hops[0].change = Change::Kubernetes { from: version("1.33.4"), to: version("1.35.2") };
    let findings = check(&plan, &snapshot, &Matrix::builtin());
    assert!(findings.iter().any(|finding| finding.text.contains("skips")), "{findings:?}");
}

#[test]
fn what_takes_others_along_is_pruned_with_consent_only() {
    // Rule 10.
    let snapshot = cluster(3, 1, "1.13.9", "1.34.2");
    let key = |group: &str, kind: &str| ObjectKey {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace: String::new(),
        name: "a".to_owned(),
    };
    let (plain, namespace) = (key("apps", "DaemonSet"), key("", "Namespace"));
    let pruning = |prune, object: &ObjectKey| {
        let mut policy = Policy::default();
        policy.manifests.prune = prune;
        let planned = plan_for(&snapshot, &intent(None, Some("1.35.4")), &policy).unwrap();
        let pruned = Plan { prune: vec![object.clone()], ..planned.plan };
        let findings = check(&pruned, &snapshot, &Matrix::builtin());
        findings.iter().any(|finding| finding.rule == 10)
    };
    assert!(!pruning(Prune::Safe, &plain));
    assert!(pruning(Prune::Safe, &namespace));
    assert!(!pruning(Prune::All, &namespace));
    assert!(pruning(Prune::None, &plain));
}
