//! Steps that fail or hang: what is retried, what halts, and what is uncordoned.

use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::journal::{Entry, Outcome, Record, State};
use upgrade_core::reason::{Failure, FailureKind, HaltReason, WaitReason};
use upgrade_core::snapshot::{Fact, NodeName, Stage};
use upgrade_core::step::{Action, StepId};
use upgrade_planner::decide::{Decision, Tried, decide};

use super::{assert_upgraded, planned, policy, world};
use crate::common::world::{Crash, End, Trouble, World};
use crate::common::{cluster, kubernetes, talos, version};

#[test]
fn boot_back_halts_and_uncordons_the_node() {
    // Rules 5 and 7, whenever the process dies as well.
    let make = || {
        let snapshot = cluster(3, 3, "1.13.1", "1.33.4");
        let mut world = world(snapshot, Some("1.13.9"), None, &policy(1));
        world.trouble.insert("1/cp-3/reboot".to_owned(), Trouble::BootsBack);
        world
    };
    let mut calm = make();
    calm.run();
    for at in 0..calm.entries.len() {
        for crash in [Crash::AfterEntry(at), Crash::AfterAct(at)] {
            let mut world = make();
            world.crash = Some(crash);
            let End::Halted(HaltReason::StepFailed { step, failure, .. }) = world.run() else {
                panic!("must halt\n{}", world.trace());
            };
            assert_eq!(step.to_string(), "1/cp-3/verify");
            assert_eq!(failure.kind, FailureKind::BootBack);
            assert!(world.cordoned().is_empty(), "rule 7\n{}", world.trace());
            assert_eq!(world.reboots[&(1, "cp-3".into())], 1, "rule 5\n{}", world.trace());
            assert_eq!(talos(&mut world.truth, "cp-1").version, version("1.13.1"), "not touched");
        }
    }
}

#[test]
fn two_nodes_that_fail_together_are_both_uncordoned_once() {
    // Rules 6 and 7: the run ends, although both drains failed.
    let mut world = world(cluster(3, 3, "1.13.1", "1.33.4"), Some("1.13.9"), None, &policy(2));
    for worker in ["worker-1", "worker-2"] {
        let drain = format!("1/{worker}/drain");
        world.trouble.insert(drain, Trouble::Fails(FailureKind::Drain, u32::MAX));
    }
    let end = world.run();
    assert!(matches!(end, End::Halted(HaltReason::StepFailed { .. })), "{end:?}");
    assert!(world.cordoned().is_empty(), "{}", world.trace());
}

#[test]
fn a_person_resuming_a_boot_back_does_not_reboot_blindly() {
    // Rule 5: the same plan finds the old version again and halts again.
    let mut world = world(cluster(3, 0, "1.13.1", "1.33.4"), Some("1.13.9"), None, &policy(1));
    world.trouble.insert("1/cp-2/reboot".to_owned(), Trouble::BootsBack);
    assert!(matches!(world.run(), End::Halted(_)));
    world.write(Record::Resumed { by: "ada".to_owned() });
    assert!(matches!(world.run(), End::Halted(_)), "{}", world.trace());
    assert_eq!(world.reboots[&(1, "cp-2".into())], 1, "{}", world.trace());
    assert!(world.cordoned().is_empty());
}

#[test]
fn a_node_that_never_returns_keeps_its_cordon_and_is_named() {
    let mut world = world(cluster(3, 2, "1.13.1", "1.33.4"), Some("1.13.9"), None, &policy(1));
    world.trouble.insert("1/worker-1/reboot".to_owned(), Trouble::NeverReturns);
    let End::Halted(reason) = world.run() else { panic!("must halt") };
    assert_eq!(reason.to_string(), "1/worker-1/reboot failed: the node did not come back");
    assert_eq!(world.cordoned(), [&"worker-1".into()]);
    // Its power button is pressed; the run continues from where it stopped.
    talos(&mut world.truth, "worker-1").stage = Stage::Running;
    kubernetes(&mut world.truth, "worker-1").ready = true;
    world.trouble.clear();
    world.write(Record::Resumed { by: "ada".to_owned() });
    assert_eq!(world.run(), End::Done, "{}", world.trace());
    assert_upgraded(&world, "1.13.9", "1.33.4");
}

#[test]
fn a_failed_drain_uncordons_the_node_and_resumes_with_a_new_cordon() {
    // Rules 6 and 7.
    let mut world = world(cluster(3, 2, "1.13.1", "1.33.4"), Some("1.13.9"), None, &policy(1));
    world.trouble.insert("1/worker-2/drain".to_owned(), Trouble::Fails(FailureKind::Drain, 1));
    assert!(matches!(world.run(), End::Halted(_)));
    assert!(world.cordoned().is_empty());
    assert!(!world.reboots.contains_key(&(1, "worker-2".into())));
    let cordons = |world: &World| {
        let is_cordon = |record: &Record| {
            matches!(record, Record::Started { step, .. }
            if step.action == Action::Cordon && step.node == Some("worker-2".into()))
        };
        world.entries.iter().filter(|entry| is_cordon(&entry.record)).count()
    };
    assert_eq!(cordons(&world), 1);
    world.write(Record::Resumed { by: "ada".to_owned() });
    assert_eq!(world.run(), End::Done, "{}", world.trace());
    assert_eq!(cordons(&world), 2);
    assert_upgraded(&world, "1.13.9", "1.33.4");
}

#[test]
fn harmless_steps_are_tried_again_with_growing_pauses() {
    let mut world = world(cluster(3, 0, "1.13.1", "1.33.4"), Some("1.13.9"), None, &policy(1));
    world.trouble.insert("1/cp-1/pull".to_owned(), Trouble::Fails(FailureKind::Pull, 2));
    assert_eq!(world.run(), End::Done);
    let starts: Vec<Timestamp> = world
        .entries
        .iter()
        .filter(|entry| matches!(&entry.record, Record::Started { step, .. } if step.to_string() == "1/cp-1/pull"))
        .map(|entry| entry.at)
        .collect();
    let pauses: Vec<i64> =
        starts.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_secs()).collect();
    assert_eq!(pauses, [45 + 15, 45 + 30], "the pull's own time and the pause");

    world.trouble.insert("1/cp-1/pull".to_owned(), Trouble::Fails(FailureKind::Pull, 9));
    let mut again = World::new(cluster(3, 0, "1.13.1", "1.33.4"), world.plan.clone());
    again.trouble = world.trouble;
    assert!(matches!(again.run(), End::Halted(HaltReason::StepFailed { attempt: 3, .. })));
    assert!(again.reboots.is_empty(), "nothing is disrupted before all is pulled");
}

#[test]
fn a_pause_is_over_although_others_are_under_way() {
    let mut world = world(cluster(3, 0, "1.13.1", "1.33.4"), Some("1.13.9"), None, &policy(1));
    let pull = |node: &str| -> StepId { format!("1/{node}/pull").parse().unwrap() };
    let snapshot = "1/*/snapshot-etcd".parse().unwrap();
    world.write(Record::Began);
    for step in [snapshot, pull("cp-1"), pull("cp-2"), pull("cp-3")] {
        world.write(Record::Started { step, attempt: 1, evidence: None });
    }
    let mut failed = Vec::new();
    for node in ["cp-2", "cp-1"] {
        let failure = Failure::new(FailureKind::Pull, "no route");
        let outcome = Outcome::Failed { failure };
        world.write(Record::Finished { step: pull(node), attempt: 1, outcome });
        failed.push(world.now);
    }
    let snapshot = world.truth.clone();
    let pause = SignedDuration::from_secs(15);
    let at = |now| decide(&world.plan, &world.state, &Tried::default(), &snapshot, now);
    let Decision::Wait { reason: WaitReason::Running { .. }, until, .. } = at(world.now) else {
        panic!("cp-3 pulls\n{}", world.trace());
    };
    assert_eq!(until, failed[0] + pause, "the one that failed first");
    let Decision::Run(starts) = at(until) else { panic!("its pause is over") };
    let again: Vec<_> = starts.iter().map(|start| (start.step.clone(), start.attempt)).collect();
    assert!(again.contains(&(pull("cp-2"), 2)), "{again:?}");
    assert!(!again.contains(&(pull("cp-1"), 2)), "{again:?}");
}

#[test]
fn a_node_in_doubt_is_observed_again_although_others_are_under_way() {
    // Rule 11: our process died after it asked worker-1 to reboot. The node is back long before
    // the drain of worker-2 ends, which may need it.
    let mut world = world(cluster(3, 2, "1.13.1", "1.33.4"), Some("1.13.9"), None, &policy(2));
    world.trouble.insert("1/worker-1/reboot".to_owned(), Trouble::NeverReturns);
    world.trouble.insert("1/worker-2/drain".to_owned(), Trouble::Fails(FailureKind::Drain, 1));
    assert!(matches!(world.run(), End::Halted(_)));
    let drains = |entry: &&Entry| matches!(&entry.record, Record::Started { step, .. } if step.to_string() == "1/worker-2/drain");
    let drain = world.entries.iter().find(drains).expect("worker-2 is drained").clone();
    let mut entries: Vec<_> =
        world.entries.iter().take_while(|it| it.at < drain.at).cloned().collect();
    let next = |record| Entry { record, ..drain.clone() };
    entries.extend([next(Record::Began), drain.clone()]);
    let state = State::fold(&world.plan, &entries).unwrap();
    let observes = |known: bool| {
        let mut snapshot = world.truth.clone();
        if !known {
            let node = snapshot.nodes.get_mut(&NodeName::from("worker-1")).unwrap();
            node.talos = Fact::Unknown("no answer".to_owned());
        }
        snapshot.taken_at = drain.at + SignedDuration::from_secs(1);
        let now = snapshot.taken_at;
        match decide(&world.plan, &state, &Tried::default(), &snapshot, now) {
            Decision::Wait { reason: WaitReason::Running { .. }, observe, .. } => Some(observe),
            Decision::Run(_) => None,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(observes(false), Some(true));
    assert_eq!(observes(true), None, "it continues once it is observed");
}

#[test]
fn a_step_that_hangs_halts_the_run() {
    // Rule 11.
    let snapshot = cluster(3, 0, "1.13.1", "1.33.4");
    let plan = planned(&snapshot, Some("1.13.9"), None, &policy(1));
    let mut world = World::new(snapshot.clone(), plan.clone());
    world.run();
    let first = world
        .entries
        .iter()
        .position(|entry| matches!(entry.record, Record::Started { .. }))
        .unwrap();
    let state = State::fold(&plan, &world.entries[..=first]).unwrap();
    let late = world.entries[first].at + SignedDuration::from_hours(1);
    let decision = decide(&plan, &state, &Tried::default(), &snapshot, late);
    assert!(
        matches!(decision, Decision::Halt { reason: HaltReason::Overdue { .. }, .. }),
        "{decision:?}"
    );
}
