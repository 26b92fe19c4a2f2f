//! How nodes reboot is the policy's choice (rule 12), and what a machine does not meet is
//! told before anything begins.

use upgrade_core::amount::Amount;
use upgrade_core::matrix::Matrix;
use upgrade_core::plan::{Group, Plan, RebootMode, Target};
use upgrade_core::policy::{Policy, RebootChoice};
use upgrade_core::readiness::UnmetCondition;
use upgrade_core::snapshot::{Fact, Snapshot};
use upgrade_planner::check;
use upgrade_planner::health::{Verdict, health};
use upgrade_planner::report::Warning;

use crate::common::{cluster, intent, kubernetes, plan_for, talos};

fn policy(mode: RebootChoice) -> Policy {
    let mut policy = Policy::default();
    policy.workers.max_unavailable = Amount::Count(2);
    policy.reboot.mode = mode;
    policy
}

fn planned(snapshot: &Snapshot, mode: RebootChoice) -> Plan {
    let os = intent(Some("1.13.9"), None);
    let planned = plan_for(snapshot, &os, &policy(mode)).unwrap();
    assert_eq!(check(&planned.plan, snapshot, &Matrix::builtin()), []);
    planned.plan
}

/// The nodes of each wave that reboots some; those that are power cycled with a `*`.
fn waves(plan: &Plan) -> Vec<String> {
    let waves = plan.hops[0].waves.iter().filter(|wave| wave.group != Group::Prepare);
    waves
        .map(|wave| {
            let names = wave.lanes.iter().map(|lane| {
                let Target::Talos(target) = &lane.target else { panic!("{lane:?}") };
                let mark = if target.reboot == RebootMode::Powercycle { "*" } else { "" };
                format!("{}{mark}", lane.node.as_ref().unwrap())
            });
            names.collect::<Vec<_>>().join(" ")
        })
        .collect()
}

fn pools() -> Snapshot {
    let mut snapshot = cluster(3, 6, "1.13.1", "1.34.2");
    for number in 4..=6 {
        let name = format!("worker-{number}");
        snapshot.nodes.get_mut(&name.as_str().into()).unwrap().pool = Some("gpu".to_owned());
    }
    snapshot
}

#[test]
fn the_first_of_each_pool_goes_through_its_firmware() {
    // Rule 12. Without it a version that boots by kexec alone reaches every node (talos#14146).
    let plan = planned(&pools(), RebootChoice::PowercycleFirst);
    assert_eq!(
        waves(&plan),
        ["cp-2*", "cp-3", "cp-1", "worker-1* worker-4*", "worker-2 worker-3", "worker-5 worker-6"]
    );
    let plan = planned(&pools(), RebootChoice::Powercycle);
    assert!(waves(&plan).iter().flat_map(|wave| wave.split(' ')).all(|it| it.ends_with('*')));
    let plan = planned(&pools(), RebootChoice::Default);
    assert!(!waves(&plan).concat().contains('*'));
}

#[test]
fn who_goes_first_is_up() {
    let mut snapshot = pools();
    kubernetes(&mut snapshot, "worker-1").ready = false;
    let plan = planned(&snapshot, RebootChoice::PowercycleFirst);
    assert!(waves(&plan).contains(&"worker-2*".to_owned()), "{:?}", waves(&plan));
    // Where none is up, none goes first, and all go through their firmware.
    let mut snapshot = cluster(3, 2, "1.13.1", "1.34.2");
    for name in ["worker-1", "worker-2"] {
        kubernetes(&mut snapshot, name).ready = false;
    }
    let plan = planned(&snapshot, RebootChoice::PowercycleFirst);
    assert_eq!(waves(&plan).last().unwrap(), "worker-1* worker-2*");
}

#[test]
fn a_rollback_takes_what_has_booted_before() {
    let snapshot = cluster(3, 2, "1.13.9", "1.34.2");
    let back = upgrade_core::intent::Intent { rollback: true, ..intent(Some("1.13.1"), None) };
    let plan = plan_for(&snapshot, &back, &policy(RebootChoice::PowercycleFirst)).unwrap().plan;
    assert!(!waves(&plan).concat().contains('*'));
    assert_eq!(check(&plan, &snapshot, &Matrix::builtin()), []);
}

#[test]
fn another_reboot_than_the_policy_has_is_found() {
    let snapshot = pools();
    for (made_for, said) in [
        (RebootChoice::Default, RebootChoice::Powercycle),
        (RebootChoice::Default, RebootChoice::PowercycleFirst),
        (RebootChoice::Powercycle, RebootChoice::Default),
        (RebootChoice::PowercycleFirst, RebootChoice::Default),
    ] {
        let mut plan = planned(&snapshot, made_for);
        plan.policy.reboot.mode = said;
        let findings = check(&plan, &snapshot, &Matrix::builtin());
        assert!(findings.iter().any(|it| it.rule == 12), "{made_for:?}, {said:?}");
    }
}

#[test]
fn a_machine_that_is_not_ready_is_reported_and_planned() {
    let mut snapshot = cluster(3, 1, "1.13.1", "1.34.2");
    let unmet =
        UnmetCondition { name: "network".into(), reason: "waiting on: connectivity".into() };
    let facts = talos(&mut snapshot, "worker-1");
    (facts.ready, facts.unmet) = (false, vec![unmet.clone()]);
    let os = intent(Some("1.13.9"), None);
    let planned = plan_for(&snapshot, &os, &Policy::default()).unwrap();
    let warning = Warning::NotReady { node: "worker-1".into(), unmet: vec![unmet] };
    assert!(planned.report.warnings.contains(&warning), "{:?}", planned.report.warnings);
    let text = warning.to_string();
    assert!(text.contains("network (waiting on: connectivity)"), "{text}");
    let checks = health(&snapshot, &Fact::Unasked);
    let check = checks.iter().find(|check| check.text.contains("not ready")).unwrap();
    assert_eq!(check.verdict, Verdict::Doubtful);
    assert!(check.text.contains("network (waiting on: connectivity)"), "{check}");
}
