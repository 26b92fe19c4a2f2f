//! Rolls to their end: with crashes, pauses and windows on the way, and back.

use upgrade_core::journal::Record;
use upgrade_core::policy::{Order, Policy};
use upgrade_core::snapshot::Fact;
use upgrade_core::step::Action;

use super::{assert_upgraded, policy, world};
use crate::common::world::{Crash, End, World};
use crate::common::{cluster, etcd, intent, kubernetes, plan_for, report_text, talos, version};

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
fn workers_that_are_down_can_be_repaired_even_if_too_many_are() {
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
fn a_rollback_is_not_blocked_by_what_it_repairs() {
    // Rule 12: only the broken member itself may be disrupted.
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
        .unwrap_or_else(|report| panic!("{}", report_text(&report)))
        .plan;
    let nodes: Vec<_> = plan.steps().filter(|step| step.action == Action::Reboot).collect();
    assert_eq!(nodes.len(), 1, "{nodes:?}");
    assert_eq!(nodes[0].to_string(), "1/cp-2/reboot");

    let mut world = World::new(snapshot, plan);
    world.disturb = Some(Box::new(|snapshot, _| {
        // Back on the old version, the member is well again.
        if talos(snapshot, "cp-2").version == version("1.13.1") {
            let well = etcd(snapshot).members[0].status.clone();
            etcd(snapshot).members[1].status = well;
        }
    }));
    assert_eq!(world.run(), End::Done, "{}", world.trace());
}
