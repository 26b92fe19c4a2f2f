//! `decide` driven through complete rolls in memory, with crashes between any
//! two journal entries, and through everything that may stop it.

mod common;

use common::world::{Crash, End, Trouble, World};
use common::{cluster, etcd, intent, kubernetes, plan_for, talos, version};
use upgrade_core::amount::Amount;
use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::journal::{Outcome, Record, State};
use upgrade_core::plan::Plan;
use upgrade_core::policy::{Order, Policy};
use upgrade_core::reason::{Failure, FailureKind, HaltReason, WaitReason};
use upgrade_core::snapshot::{Fact, Snapshot, Stage};
use upgrade_core::step::{Action, StepId};
use upgrade_planner::decide::{Decision, decide};

/// What the halt says of it, and how etcd gets it.
type Sickness = (&'static str, fn(&mut Snapshot));

fn policy(workers: usize) -> Policy {
    let mut policy = Policy::default();
    policy.workers.max_unavailable = Amount::Count(workers);
    policy
}

fn planned(
    snapshot: &Snapshot,
    talos: Option<&str>,
    kubernetes: Option<&str>,
    policy: &Policy,
) -> Plan {
    match plan_for(snapshot, &intent(talos, kubernetes), policy) {
        Ok(planned) => planned.plan,
        Err(report) => panic!("{}", common::told(&report)),
    }
}

fn world(
    snapshot: Snapshot,
    talos: Option<&str>,
    kubernetes: Option<&str>,
    policy: &Policy,
) -> World {
    let plan = planned(&snapshot, talos, kubernetes, policy);
    World::new(snapshot, plan)
}

fn assert_upgraded(world: &World, talos: &str, kubernetes: &str) {
    for (name, node) in &world.truth.nodes {
        assert_eq!(node.talos.known().unwrap().version, version(talos), "{name}");
        assert_eq!(node.kubernetes.known().unwrap().kubelet, version(kubernetes), "{name}");
    }
    assert!(world.cordoned().is_empty(), "rule 7: {:?}", world.cordoned());
    for ((hop, node), reboots) in &world.reboots {
        assert_eq!(*reboots, 1, "rule 8: {node} in hop {hop}\n{}", world.trace());
    }
}

#[test]
fn complete_rolls_end_where_they_should() {
    for order in [Order::WorkersFirst, Order::ControlPlanesFirst] {
        for (control_planes, workers, width) in
            [(3, 0, 1), (3, 5, 2), (5, 3, 1), (1, 0, 1), (1, 4, 2)]
        {
            for (from, to) in [("1.11.6", "1.12.11"), ("1.13.1", "1.13.9"), ("1.11.6", "1.13.9")] {
                let snapshot = cluster(control_planes, workers, from, "1.33.4");
                let policy = Policy { order, accept_outage: true, ..policy(width) };
                let mut world = world(snapshot, Some(to), Some("1.34.4"), &policy);
                assert_eq!(world.run(), End::Done, "{}", world.trace());
                assert_upgraded(&world, to, "1.34.4");
            }
        }
    }
}

#[test]
fn workers_roll_as_wide_as_they_may_and_no_wider() {
    // Rule 6.
    for width in 1..=4 {
        let mut world =
            world(cluster(3, 7, "1.13.1", "1.33.4"), Some("1.13.9"), None, &policy(width));
        assert_eq!(world.run(), End::Done);
        assert_eq!(world.most_workers_away, width);
    }
}

#[test]
fn a_crash_at_any_entry_repeats_nothing() {
    // Rule 8, for both upgrade calls and for Kubernetes.
    for from in ["1.12.9", "1.13.1"] {
        let make = || {
            let snapshot = cluster(3, 3, from, "1.33.4");
            world(snapshot, Some("1.13.9"), Some("1.34.4"), &policy(2))
        };
        let mut calm = make();
        assert_eq!(calm.run(), End::Done);
        for at in 0..calm.entries.len() {
            for crash in [Crash::AfterEntry(at), Crash::AfterAct(at)] {
                let mut world = make();
                world.crash = Some(crash);
                assert_eq!(world.run(), End::Done, "{crash:?}\n{}", world.trace());
                assert_upgraded(&world, "1.13.9", "1.34.4");
            }
        }
    }
}

#[test]
fn boot_back_halts_and_gives_the_node_back() {
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
fn two_nodes_that_fail_together_are_both_given_back_once() {
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
    // Somebody presses its button; the run goes on from where it was.
    talos(&mut world.truth, "worker-1").stage = Stage::Running;
    kubernetes(&mut world.truth, "worker-1").ready = true;
    world.trouble.clear();
    world.write(Record::Resumed { by: "ada".to_owned() });
    assert_eq!(world.run(), End::Done, "{}", world.trace());
    assert_upgraded(&world, "1.13.9", "1.33.4");
}

#[test]
fn a_drain_that_fails_gives_the_node_back_and_resumes_with_a_new_cordon() {
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
    let at = |now| decide(&world.plan, &world.state, &snapshot, now);
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
fn a_snapshot_waits_until_a_control_plane_was_seen() {
    // Rule 10.
    let mut world = world(cluster(3, 1, "1.13.1", "1.33.4"), Some("1.13.9"), None, &policy(1));
    world.write(Record::Began);
    let started = |snapshot: &Snapshot| match decide(&world.plan, &world.state, snapshot, world.now)
    {
        Decision::Run(starts) => starts.iter().map(|start| start.step.action).collect(),
        other => panic!("{other:?}"),
    };
    let mut blind = world.truth.clone();
    for node in blind.nodes.values_mut() {
        node.talos = Fact::Unknown("connection refused".to_owned());
    }
    let actions: Vec<Action> = started(&blind);
    assert!(!actions.contains(&Action::SnapshotEtcd), "{actions:?}");
    blind.nodes.insert("cp-3".into(), world.truth.nodes[&"cp-3".into()].clone());
    let actions = started(&blind);
    assert!(actions.contains(&Action::SnapshotEtcd), "{actions:?}");
}

#[test]
fn an_unhealthy_etcd_is_waited_for_and_then_halts() {
    // Rules 1 and 11.
    let sick: [Sickness; 6] = [
        ("alarm", |snapshot| etcd(snapshot).alarms.push("NOSPACE".to_owned())),
        ("learner", |snapshot| etcd(snapshot).members[1].learner = true),
        ("answer", |snapshot| {
            etcd(snapshot).members[1].status = Fact::Unknown("timeout".to_owned());
        }),
        ("behind", |snapshot| {
            if let Fact::Known(status) = &mut etcd(snapshot).members[2].status {
                status.applied_index = 10;
            }
        }),
        ("member list", |snapshot| {
            if let Fact::Known(status) = &mut etcd(snapshot).members[2].status {
                status.sees.pop_first();
            }
        }),
        ("cannot be seen", |snapshot| snapshot.etcd = Fact::Unknown("no endpoint".to_owned())),
    ];
    for (word, make_sick) in sick {
        let mut world = world(cluster(3, 1, "1.13.1", "1.33.4"), Some("1.13.9"), None, &policy(1));
        world.meddle = Some(Box::new(move |snapshot, _| make_sick(snapshot)));
        let End::Halted(reason) = world.run() else { panic!("must halt: {word}") };
        assert!(matches!(reason, HaltReason::WaitedTooLong { .. }), "{reason}");
        assert!(reason.to_string().contains(word), "{word}: {reason}");
        assert!(world.reboots.is_empty(), "rule 1: {word}");
        assert!(world.cordoned().is_empty(), "rule 7: {word}");
    }
}

#[test]
fn etcd_that_gets_well_in_time_lets_the_run_go_on() {
    let mut world = world(cluster(3, 1, "1.13.1", "1.33.4"), Some("1.13.9"), None, &policy(1));
    let well_at = world.now + SignedDuration::from_mins(9);
    world.meddle = Some(Box::new(move |snapshot, now| {
        etcd(snapshot).alarms = if now < well_at { vec!["NOSPACE".to_owned()] } else { vec![] };
    }));
    assert_eq!(world.run(), End::Done, "{}", world.trace());
    assert!(world.waits.contains("etcd-unsafe/cp-2"), "{:?}", world.waits);
    assert!(world.entries.last().unwrap().at > well_at);
}

#[test]
fn a_leader_that_moved_gives_leadership_away_first() {
    // Rule 1: planned last, but leading again when its turn comes.
    let mut world = world(cluster(3, 0, "1.13.1", "1.33.4"), Some("1.13.9"), None, &policy(1));
    assert_eq!(world.run(), End::Done);
    let steps: Vec<String> = world
        .entries
        .iter()
        .filter_map(|entry| match &entry.record {
            Record::Started { step, .. } => Some(step.to_string()),
            _ => None,
        })
        .collect();
    for node in ["cp-1", "cp-2", "cp-3"] {
        let at = |action: &str| steps.iter().position(|step| *step == format!("1/{node}/{action}"));
        assert!(at("forfeit") < at("cordon") && at("cordon") < at("reboot"), "{steps:?}");
    }
    let last = steps.iter().rfind(|step| step.ends_with("/cordon")).unwrap();
    assert_eq!(last, "1/cp-1/cordon", "the leader at planning time goes last");
}

#[test]
fn another_control_plane_down_stops_everything() {
    // Rule 1: not ours, not known to etcd yet, and still reason enough.
    let mut world = world(cluster(3, 0, "1.13.1", "1.33.4"), Some("1.13.9"), None, &policy(1));
    world.meddle = Some(Box::new(|snapshot, _| kubernetes(snapshot, "cp-1").ready = false));
    let End::Halted(HaltReason::WaitedTooLong { waiting_for, .. }) = world.run() else {
        panic!("must halt")
    };
    assert!(matches!(waiting_for, WaitReason::ControlPlaneDown { .. }), "{waiting_for}");
    assert!(world.reboots.is_empty());
}

#[test]
fn unknown_nodes_and_drift_are_never_disrupted() {
    // Rule 10.
    let mut unseen = world(cluster(3, 2, "1.13.1", "1.33.4"), Some("1.13.9"), None, &policy(1));
    unseen.meddle = Some(Box::new(|snapshot, _| {
        snapshot.nodes.get_mut(&"cp-2".into()).unwrap().kubernetes =
            Fact::Unknown("gone".to_owned());
    }));
    let End::Halted(reason) = unseen.run() else { panic!("must halt") };
    assert!(reason.to_string().contains("cannot see cp-2"), "{reason}");

    let mut drifted = world(cluster(3, 2, "1.13.1", "1.33.4"), Some("1.13.9"), None, &policy(1));
    drifted.meddle =
        Some(Box::new(|snapshot, _| talos(snapshot, "cp-2").version = version("1.13.4")));
    let End::Halted(HaltReason::Drift { node, found, .. }) = drifted.run() else {
        panic!("must halt")
    };
    assert_eq!((node, found), ("cp-2".into(), version("1.13.4")));
    assert!(drifted.reboots.is_empty());
}

#[test]
fn a_worker_that_goes_down_on_its_own_takes_room() {
    // Rule 6.
    let mut world = world(cluster(3, 6, "1.13.1", "1.33.4"), Some("1.13.9"), None, &policy(2));
    world.meddle = Some(Box::new(|snapshot, _| kubernetes(snapshot, "worker-6").ready = false));
    // Its own lane cannot pass: it stays down, which its verification would
    // tell; here it only has to keep the others to one at a time.
    world.run();
    assert!(world.most_workers_away <= 2);
    assert_eq!(talos(&mut world.truth, "worker-5").version, version("1.13.9"));
}

#[test]
fn workers_that_are_down_can_be_mended_even_if_too_many_are() {
    // Rule 6: moving a worker that is down takes nothing away.
    let mut snapshot = cluster(3, 3, "1.13.1", "1.33.4");
    for node in ["worker-1", "worker-3"] {
        kubernetes(&mut snapshot, node).ready = false;
    }
    talos(&mut snapshot, "worker-2").version = version("1.13.9");
    let mut world = world(snapshot, Some("1.13.9"), None, &policy(1));
    assert_eq!(world.run(), End::Done, "{}", world.trace());
    assert_upgraded(&world, "1.13.9", "1.33.4");
    assert_eq!(world.reboots.len(), 5);
}

#[test]
fn a_pause_lets_the_node_in_flight_finish_and_starts_nothing() {
    // Rule 12, at every entry.
    let make = || world(cluster(3, 3, "1.13.1", "1.33.4"), Some("1.13.9"), None, &policy(2));
    let mut calm = make();
    calm.run();
    for at in 1..calm.entries.len() - 1 {
        let mut world = make();
        // The pause arrives while one process follows another, as it does when
        // replicas hand over.
        world.crash = Some(Crash::AfterEntry(at));
        assert_eq!(world.run_one_life(), None);
        let begun: Vec<_> = world
            .plan
            .steps()
            .filter(|step| {
                step.action.is_disruptive()
                    && world.state.step(step).is_some_and(|state| state.attempts > 0)
            })
            .filter_map(|step| step.node)
            .collect();
        world.write(Record::Paused { by: "ada".to_owned() });
        let end = world.run();
        assert!(matches!(end, End::Idle(_) | End::Done), "{end:?}");
        for (_, node) in world.reboots.keys() {
            assert!(begun.contains(node), "{node} began after the pause at {at}");
        }
        assert!(world.cordoned().is_empty(), "rule 7 at {at}\n{}", world.trace());
        world.write(Record::Resumed { by: "ada".to_owned() });
        assert_eq!(world.run(), End::Done, "{}", world.trace());
        assert_upgraded(&world, "1.13.9", "1.33.4");
    }
}

#[test]
fn nothing_begins_outside_the_window_but_what_began_ends() {
    let mut policy = policy(1);
    // Opens five minutes after the world begins, for three minutes a day.
    policy.windows = serde_json::from_str(r#"[{"start": "00:05", "duration": "3m"}]"#).unwrap();
    let mut world = world(cluster(3, 1, "1.13.1", "1.33.4"), Some("1.13.9"), None, &policy);
    let midnight = world.now;
    assert_eq!(world.run(), End::Done, "{}", world.trace());
    assert!(world.waits.contains("window"));
    let mut days = std::collections::BTreeSet::new();
    for entry in &world.entries {
        if let Record::Started { step, .. } = &entry.record
            && matches!(step.action, Action::Pull | Action::Cordon | Action::Install)
        {
            let minutes = entry.at.duration_since(midnight).as_mins();
            let of_day = minutes % (24 * 60);
            days.insert(minutes / (24 * 60));
            // A cordon may follow the forfeit that entered its lane in time.
            assert!((5..=8).contains(&of_day), "{step} at minute {of_day}");
        }
    }
    assert!(days.len() > 1, "one window is too short for all: {days:?}");
    assert_upgraded(&world, "1.13.9", "1.33.4");
}

#[test]
fn a_stale_look_is_not_enough() {
    // Rule 2.
    let snapshot = cluster(3, 0, "1.13.1", "1.33.4");
    let plan = planned(&snapshot, Some("1.13.9"), None, &policy(1));
    let mut world = World::new(snapshot, plan);
    world.run();
    // Fold up to the first finished drain, and decide on a look from before it.
    let drained = world
        .entries
        .iter()
        .position(|entry| matches!(&entry.record, Record::Finished { step, .. } if step.action == Action::Drain))
        .unwrap();
    let state = State::fold(&world.plan, &world.entries[..=drained]).unwrap();
    let at = world.entries[drained].at;
    let mut look = cluster(3, 0, "1.13.1", "1.33.4");
    look.taken_at = at;
    let decision = decide(&world.plan, &state, &look, at);
    let Decision::Wait { reason, gives_up: true, .. } = decision else { panic!("{decision:?}") };
    assert!(matches!(reason, WaitReason::StaleObservation { .. }), "{reason}");
    look.taken_at = at + SignedDuration::from_millis(1);
    let Decision::Run(starts) = decide(&world.plan, &state, &look, at) else { panic!("must run") };
    assert_eq!(starts[0].step.action, Action::Reboot);
}

#[test]
fn no_snapshot_no_control_plane() {
    // Rule 3: a snapshot step that left no proof is no snapshot.
    let snapshot = cluster(3, 0, "1.13.1", "1.33.4");
    let plan = planned(&snapshot, Some("1.13.9"), None, &policy(1));
    let mut world = World::new(snapshot.clone(), plan.clone());
    world.run();
    let mut entries = world.entries.clone();
    for entry in &mut entries {
        if let Record::Finished { step, outcome, .. } = &mut entry.record
            && step.action == Action::SnapshotEtcd
        {
            *outcome = upgrade_core::journal::Outcome::Skipped { why: "no room".to_owned() };
        }
    }
    let forfeit = entries
        .iter()
        .position(|entry| matches!(&entry.record, Record::Started { step, .. } if step.action == Action::Forfeit))
        .unwrap();
    let state = State::fold(&plan, &entries[..forfeit]).unwrap();
    let mut look = snapshot;
    look.taken_at = entries[forfeit].at;
    let decision = decide(&plan, &state, &look, entries[forfeit].at);
    assert!(
        matches!(decision, Decision::Halt { reason: HaltReason::NoSnapshot { hop: 1 }, .. }),
        "{decision:?}"
    );
}

#[test]
fn a_way_back_is_not_held_up_by_what_it_mends() {
    // Rule 12: the broken member itself may be taken, nobody else.
    let mut snapshot = cluster(3, 1, "1.13.9", "1.33.4");
    talos(&mut snapshot, "cp-1").version = version("1.13.1");
    talos(&mut snapshot, "cp-3").version = version("1.13.1");
    kubernetes(&mut snapshot, "cp-2").ready = false;
    etcd(&mut snapshot).members[1].status = Fact::Unknown("crash loop".to_owned());
    kubernetes(&mut snapshot, "worker-1").ready = true;
    talos(&mut snapshot, "worker-1").version = version("1.13.1");
    let mut back = intent(Some("1.13.1"), None);
    back.rollback = true;
    let plan = plan_for(&snapshot, &back, &policy(1))
        .unwrap_or_else(|report| panic!("{}", common::told(&report)))
        .plan;
    let nodes: Vec<_> = plan.steps().filter(|step| step.action == Action::Reboot).collect();
    assert_eq!(nodes.len(), 1, "{nodes:?}");
    assert_eq!(nodes[0].to_string(), "1/cp-2/reboot");

    let mut world = World::new(snapshot, plan);
    world.meddle = Some(Box::new(|snapshot, _| {
        // Back on the old version, the member is well again.
        if talos(snapshot, "cp-2").version == version("1.13.1") {
            let well = etcd(snapshot).members[0].status.clone();
            etcd(snapshot).members[1].status = well;
        }
    }));
    assert_eq!(world.run(), End::Done, "{}", world.trace());
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
    let decision = decide(&plan, &state, &snapshot, late);
    assert!(
        matches!(decision, Decision::Halt { reason: HaltReason::Overdue { .. }, .. }),
        "{decision:?}"
    );
}
