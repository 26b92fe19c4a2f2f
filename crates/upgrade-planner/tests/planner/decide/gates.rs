//! What has to be seen and well before anything is disrupted.

use upgrade_core::jiff::SignedDuration;
use upgrade_core::journal::{Record, State};
use upgrade_core::reason::{HaltReason, WaitReason};
use upgrade_core::snapshot::{Fact, NodeName, Snapshot, TalosFacts, Unmatched};
use upgrade_core::step::Action;
use upgrade_planner::decide::{Decision, Tried, decide};

use super::{planned, policy, world};
use crate::common::world::{End, World};
use crate::common::{cluster, etcd, kubernetes, talos, version};

/// What the halt says of it, and how etcd gets it.
type Sickness = (&'static str, fn(&mut Snapshot));

#[test]
fn a_snapshot_waits_until_a_control_plane_was_seen() {
    // Rule 10.
    let mut world = world(cluster(3, 1, "1.13.1", "1.33.4"), Some("1.13.9"), None, &policy(1));
    world.write(Record::Began);
    let started = |snapshot: &Snapshot| match decide(
        &world.plan,
        &world.state,
        &Tried::default(),
        snapshot,
        world.now,
    ) {
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
        world.disturb = Some(Box::new(move |snapshot, _| make_sick(snapshot)));
        let End::Halted(reason) = world.run() else { panic!("must halt: {word}") };
        assert!(matches!(reason, HaltReason::WaitedTooLong { .. }), "{reason}");
        assert!(reason.to_string().contains(word), "{word}: {reason}");
        assert!(world.reboots.is_empty(), "rule 1: {word}");
        assert!(world.cordoned().is_empty(), "rule 7: {word}");
    }
}

#[test]
fn etcd_that_gets_well_in_time_lets_the_run_continue() {
    let mut world = world(cluster(3, 1, "1.13.1", "1.33.4"), Some("1.13.9"), None, &policy(1));
    let well_at = world.now + SignedDuration::from_mins(9);
    world.disturb = Some(Box::new(move |snapshot, now| {
        etcd(snapshot).alarms = if now < well_at { vec!["NOSPACE".to_owned()] } else { vec![] };
    }));
    assert_eq!(world.run(), End::Done, "{}", world.trace());
    assert!(world.waits.contains("etcd-unsafe/cp-2"), "{:?}", world.waits);
    assert!(world.entries.last().unwrap().at > well_at);
}

#[test]
fn a_node_without_a_machine_closes_every_gate_unless_it_is_foreign() {
    // Rule 10: unknown, not absent.
    let disturb = |snapshot: &mut Snapshot, _| {
        snapshot.unmatched.insert("edge-1".into(), Unmatched::because("no answer"));
    };
    let mut run = world(cluster(3, 1, "1.13.1", "1.33.4"), Some("1.13.9"), None, &policy(1));
    run.disturb = Some(Box::new(disturb));
    let End::Halted(reason) = run.run() else { panic!("must halt") };
    assert!(reason.to_string().contains("edge-1"), "{reason}");
    assert!(run.reboots.is_empty() && run.cordoned().is_empty());
    // Rule 1: it may be a control plane that is away, so none is written to either.
    let installs = |record: &Record| {
        matches!(record, Record::Started { step, .. } if step.action == Action::Install
            && step.node.as_ref().is_some_and(|node| node.0.starts_with("cp-")))
    };
    assert!(!run.entries.iter().any(|entry| installs(&entry.record)), "{}", run.trace());
    let foreign_nodes = [NodeName::from("edge-1")].into();
    let policy = upgrade_core::policy::Policy { foreign_nodes, ..policy(1) };
    let mut run = world(cluster(3, 1, "1.13.1", "1.33.4"), Some("1.13.9"), None, &policy);
    run.disturb = Some(Box::new(disturb));
    assert_eq!(run.run(), End::Done, "{}", run.trace());
}

#[test]
fn a_control_plane_without_its_api_server_stops_every_other() {
    // Rule 1: Talos and Kubernetes call it ready.
    type TakeAway = fn(&mut Snapshot);
    let away: [(&str, TakeAway); 2] = [
        ("connection refused", |snapshot| {
            let node = snapshot.nodes.get_mut(&"cp-1".into()).unwrap();
            node.api_server = Fact::Unknown("connection refused".to_owned());
        }),
        ("kube-apiserver", |snapshot| {
            talos(snapshot, "cp-1").static_pods = TalosFacts::control_plane_pods(false);
        }),
    ];
    for (word, take_away) in away {
        let mut world = world(cluster(3, 0, "1.13.1", "1.33.4"), Some("1.13.9"), None, &policy(1));
        world.disturb = Some(Box::new(move |snapshot, _| take_away(snapshot)));
        let End::Halted(HaltReason::WaitedTooLong { waiting_for, .. }) = world.run() else {
            panic!("must halt: {word}")
        };
        assert!(matches!(waiting_for, WaitReason::ControlPlaneDown { .. }), "{waiting_for}");
        assert!(waiting_for.to_string().contains(word), "{waiting_for}");
        assert!(world.reboots.is_empty(), "{word}");
    }
}

#[test]
fn another_control_plane_down_stops_everything() {
    // Rule 1: not ours, not known to etcd yet, and still reason enough.
    let mut world = world(cluster(3, 0, "1.13.1", "1.33.4"), Some("1.13.9"), None, &policy(1));
    world.disturb = Some(Box::new(|snapshot, _| kubernetes(snapshot, "cp-1").ready = false));
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
    unseen.disturb = Some(Box::new(|snapshot, _| {
        snapshot.nodes.get_mut(&"cp-2".into()).unwrap().kubernetes =
            Fact::Unknown("gone".to_owned());
    }));
    let End::Halted(reason) = unseen.run() else { panic!("must halt") };
    assert!(reason.to_string().contains("the state of cp-2 is unknown"), "{reason}");

    let mut drifted = world(cluster(3, 2, "1.13.1", "1.33.4"), Some("1.13.9"), None, &policy(1));
    drifted.disturb =
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
    world.disturb = Some(Box::new(|snapshot, _| kubernetes(snapshot, "worker-6").ready = false));
    // Its own lane cannot pass: it stays down, which its verification would
    // tell; here it only has to keep the others to one at a time.
    world.run();
    assert!(world.most_workers_away <= 2);
    assert_eq!(talos(&mut world.truth, "worker-5").version, version("1.13.9"));
}

#[test]
fn a_stale_observation_is_not_enough() {
    // Rule 2.
    let snapshot = cluster(3, 0, "1.13.1", "1.33.4");
    let plan = planned(&snapshot, Some("1.13.9"), None, &policy(1));
    let mut world = World::new(snapshot, plan);
    world.run();
    // Fold up to the first finished drain, and decide on an observation from before it.
    let drained = world
        .entries
        .iter()
        .position(|entry| matches!(&entry.record, Record::Finished { step, .. } if step.action == Action::Drain))
        .unwrap();
    let state = State::fold(&world.plan, &world.entries[..=drained]).unwrap();
    let at = world.entries[drained].at;
    let mut observed = cluster(3, 0, "1.13.1", "1.33.4");
    observed.taken_at = at;
    let decision = decide(&world.plan, &state, &Tried::default(), &observed, at);
    let Decision::Wait { reason, gives_up: true, .. } = decision else { panic!("{decision:?}") };
    assert!(matches!(reason, WaitReason::StaleObservation { .. }), "{reason}");
    observed.taken_at = at + SignedDuration::from_millis(1);
    let Decision::Run(starts) = decide(&world.plan, &state, &Tried::default(), &observed, at)
    else {
        panic!("must run")
    };
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
    let mut observed = snapshot;
    observed.taken_at = entries[forfeit].at;
    let decision = decide(&plan, &state, &Tried::default(), &observed, entries[forfeit].at);
    assert!(
        matches!(decision, Decision::Halt { reason: HaltReason::NoSnapshot { hop: 1 }, .. }),
        "{decision:?}"
    );
}
