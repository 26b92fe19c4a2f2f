//! The engine drives a cluster in memory from end to end: both upgrade calls,
//! everything that may go wrong, and what the user may say meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use upgrade_core::advice::{Advice, Fix};
use upgrade_core::event::{EventKind, StepProgress};
use upgrade_core::jiff::SignedDuration;
use upgrade_core::journal::{Arming, Record};
use upgrade_core::matrix::Matrix;
use upgrade_core::policy::POOL_LABEL;
use upgrade_core::policy::{OnDrainTimeout, Order, Policy};
use upgrade_core::reason::{FailureKind, HaltReason};
use upgrade_core::snapshot::{NodeName, Stage};
use upgrade_core::version::Version;
use upgrade_engine::control::Command;
use upgrade_engine::drive::End;
use upgrade_planner::check::{Severity, check};
use upgrade_planner::rollback::{RollbackRequest, Way, rollback};

use crate::common::{Driver, Fault, SCHEMATIC, World, boots_of, planned, policy, seconds};

async fn driver(world: &Arc<World>, to: &str, policy: &Policy) -> Driver {
    let plan = planned(world, to, policy).await;
    Driver::new(world, &plan)
}

/// The step and the failure of a halt.
fn failed(end: &End) -> (String, FailureKind, String) {
    match end {
        End::Halted { reason: HaltReason::StepFailed { step, failure, .. }, .. } => {
            (step.to_string(), failure.kind, failure.to_string())
        }
        other => panic!("must halt on a step: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn complete_rolls_end_where_they_should() {
    for order in [Order::WorkersFirst, Order::ControlPlanesFirst] {
        for (from, to) in [("1.11.6", "1.12.11"), ("1.13.1", "1.13.9")] {
            for (control_planes, workers, width) in [(3, 4, 2), (1, 2, 1), (5, 0, 1), (1, 0, 1)] {
                let world = World::new(control_planes, workers, from);
                let soak = SignedDuration::from_secs(30);
                let policy = Policy { order, accept_outage: true, soak, ..policy(width) };
                let mut driver = driver(&world, to, &policy).await;
                let (end, state) = driver.go().await;
                assert_eq!(end, End::Done, "{}", driver.trace());
                assert!(state.completed());
                driver.assert_upgraded(to);
                assert_eq!(world.cluster().most_workers_away, width.min(workers));
                let events: Vec<&EventKind> = driver.events.iter().map(|it| &it.kind).collect();
                assert!(matches!(events[0], EventKind::RunBegan { .. }));
                assert_eq!(events.last(), Some(&&EventKind::Completed));
                let progress = |it: &&EventKind| matches!(it, EventKind::StepProgress { progress: StepProgress { message, .. }, .. } if message.contains("half"));
                assert!(events.iter().any(progress));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn two_hops_are_one_run() {
    let world = World::new(3, 2, "1.12.11");
    let mut driver = driver(&world, "1.13.9", &policy(1)).await;
    assert_eq!(driver.go().await.0, End::Done, "{}", driver.trace());
    driver.assert_upgraded("1.13.9");
    // Nothing is left to do for the next process.
    let written = driver.journal.entries().len();
    assert_eq!(driver.go().await.0, End::Done);
    assert_eq!(driver.journal.entries().len(), written);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_boots_back_halts_the_run_and_is_uncordoned() {
    // Rules 5 and 7.
    for from in ["1.12.1", "1.13.1"] {
        let to = if from == "1.12.1" { "1.12.11" } else { "1.13.9" };
        let world = World::new(3, 2, from);
        world.set_fault("cp-3", Some(Fault::BootsBack));
        let mut driver = driver(&world, to, &policy(1)).await;
        let (end, _) = driver.go().await;
        let (step, kind, text) = failed(&end);
        assert_eq!((step.as_str(), kind), ("1/cp-3/verify", FailureKind::BootBack), "{text}");
        assert!(text.contains(&format!("old version {from}")), "{text}");
        assert!(world.cluster().cordoned().is_empty(), "{}", driver.trace());
        // Going on does not try again blindly.
        let (end, _) = driver.resume(Some("eva")).await.unwrap();
        assert_eq!(failed(&end).1, FailureKind::BootBack);
        assert_eq!(boots_of(&world)["cp-3"], 1, "{}", driver.trace());
        assert!(world.acts_of("install cp-3").len() <= 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_never_returns_is_named_and_stays_cordoned() {
    let world = World::new(3, 2, "1.13.1");
    world.set_fault("worker-1", Some(Fault::NeverReturns));
    let mut driver = driver(&world, "1.13.9", &policy(1)).await;
    let (end, _) = driver.go().await;
    let (step, kind, text) = failed(&end);
    assert_eq!((step.as_str(), kind), ("1/worker-1/reboot", FailureKind::NeverReturned));
    assert!(text.contains("connection refused"), "rule 11: {text}");
    let End::Halted { cordoned, armed, .. } = end else { unreachable!() };
    assert_eq!(cordoned, [NodeName::from("worker-1")]);
    assert!(armed.contains(&("worker-1".into(), Arming::Armed)), "{armed:?}");
    // The node is switched on again: the run continues without another reboot.
    world.set_fault("worker-1", None);
    world.change(|cluster| {
        let sim = cluster.sim(&"worker-1".into());
        (sim.answers, sim.boot, sim.ready, sim.node_ready) = (true, 7_000, true, true);
        (sim.stage, sim.version) = (Stage::Running, "1.13.9".parse().unwrap());
    });
    let (end, _) = driver.resume(Some("eva")).await.unwrap();
    assert_eq!(end, End::Done, "{}", driver.trace());
    driver.assert_upgraded("1.13.9");
}

#[tokio::test(start_paused = true)]
async fn a_lost_reboot_is_reported_and_requested_again_when_resumed() {
    for (from, to) in [("1.12.1", "1.12.11"), ("1.13.1", "1.13.9")] {
        let world = World::new(3, 1, from);
        world.set_fault("cp-2", Some(Fault::LosesReboot));
        let mut driver = driver(&world, to, &policy(1)).await;
        let began = world.now();
        let (end, _) = driver.go().await;
        let (_, kind, text) = failed(&end);
        assert_eq!(kind, FailureKind::Lost, "{text}");
        assert!(text.contains("never went down"), "{text}");
        assert!(world.now().duration_since(began) < SignedDuration::from_mins(10), "early");
        assert!(world.cluster().cordoned().is_empty(), "rule 7");
        world.set_fault("cp-2", None);
        let (end, _) = driver.resume(Some("eva")).await.unwrap();
        assert_eq!(end, End::Done, "{}", driver.trace());
        driver.assert_upgraded(to);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_reported_in_the_nodes_words() {
    // Talos up to 1.12 gives its refusals no code that could be told from a loss.
    let world = World::new(3, 1, "1.12.1");
    world.set_fault("cp-2", Some(Fault::RefusesInWords));
    let mut driver = driver(&world, "1.12.11", &policy(1)).await;
    let (end, _) = driver.go().await;
    let (step, _, text) = failed(&end);
    assert_eq!(step, "1/cp-2/upgrade");
    assert!(text.contains("error validating etcd for upgrade"), "{text}");
    assert!(!boots_of(&world).contains_key("cp-2"));
}

#[tokio::test(start_paused = true)]
async fn etcd_goes_down_before_a_control_plane_goes_back_over_its_minor() {
    // Rule 13.
    let way = || Way::Slot { version: "1.13.12".parse().unwrap(), schematic: None };
    let world = World::new(3, 0, "1.14.4");
    world.change(|cluster| {
        cluster.etcd = "3.7".parse().unwrap();
        cluster.sim(&"cp-2".into()).other_slot = Some("1.13.12".parse().unwrap());
    });
    let mut driver = rollback_of(&world, "cp-2", way()).await;
    let (end, _) = driver.go().await;
    assert_eq!(end, End::Done, "{}", driver.trace());
    let cluster = world.cluster();
    let at = |act: &str| cluster.acts.iter().position(|it| it.starts_with(act));
    assert!(at("snapshot") < at("downgrade") && at("downgrade") < at("rollback cp-2"));
    assert_eq!(cluster.acts.iter().filter(|it| it.starts_with("downgrade")).count(), 1);
    assert_eq!(cluster.etcd.to_string(), "3.6");
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_no_reason_to_ask_again() {
    // Rule 8.
    for (from, to) in [("1.12.1", "1.12.11"), ("1.13.1", "1.13.9")] {
        let world = World::new(3, 1, from);
        world.set_fault("cp-2", Some(Fault::LosesAnswer));
        let mut driver = driver(&world, to, &policy(1)).await;
        assert_eq!(driver.go().await.0, End::Done, "{}", driver.trace());
        driver.assert_upgraded(to);
        for act in ["cordon cp-2", "uncordon cp-2"] {
            assert_eq!(world.acts_of(act).len(), 1, "{act}: {}", driver.trace());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_fails_by_itself_is_tried_again_and_what_does_not_halts() {
    let world = World::new(3, 1, "1.13.1");
    world.set_fault("worker-1", Some(Fault::PullsBadly));
    let mut ending = driver(&world, "1.13.9", &policy(1)).await;
    assert_eq!(ending.go().await.0, End::Done, "{}", ending.trace());
    // Two that fail, one that does not, and one right before the install.
    assert_eq!(world.acts_of("pull worker-1").len(), 4);

    for (fault, kind, words) in [
        (Fault::InstallerFails, FailureKind::Installer, "exit code 4"),
        (Fault::DropsExtension, FailureKind::Mismatch, "iscsi-tools"),
        (Fault::Panics, FailureKind::Refused, "as the test wants it"),
    ] {
        let world = World::new(3, 1, "1.13.1");
        world.set_fault("worker-1", Some(fault));
        let mut driver = driver(&world, "1.13.9", &policy(1)).await;
        let (end, _) = driver.go().await;
        let (_, found, text) = failed(&end);
        assert_eq!(found, kind, "{text}");
        assert!(text.contains(words), "{text}");
        assert!(world.cluster().cordoned().is_empty(), "rule 7: {}", driver.trace());
    }
}

#[tokio::test(start_paused = true)]
async fn pods_that_stay_at_the_deadline_halt_the_run_or_not_as_the_policy_says() {
    // Rule 6.
    for on_timeout in [OnDrainTimeout::Halt, OnDrainTimeout::Proceed] {
        let world = World::new(3, 2, "1.13.1");
        world.cluster().budget_blocks = true;
        let mut policy = policy(1);
        policy.drain.on_timeout = on_timeout;
        let mut driver = driver(&world, "1.13.9", &policy).await;
        let (end, _) = driver.go().await;
        if on_timeout == OnDrainTimeout::Proceed {
            assert_eq!(end, End::Done, "{}", driver.trace());
            continue;
        }
        let (step, kind, text) = failed(&end);
        assert_eq!((step.as_str(), kind), ("1/worker-1/drain", FailureKind::Drain), "{text}");
        assert!(text.contains("web"), "the budget is named: {text}");
        assert!(world.cluster().cordoned().is_empty(), "rule 7: {}", driver.trace());
        assert!(!boots_of(&world).contains_key("worker-1"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cordon_that_was_there_before_stays() {
    // Rule 7.
    let world = World::new(3, 2, "1.13.1");
    world.change(|cluster| cluster.sim(&"worker-2".into()).unschedulable = true);
    world.cluster().limit = 2;
    let mut driver = driver(&world, "1.13.9", &policy(1)).await;
    world.cluster().limit = 2;
    assert_eq!(driver.go().await.0, End::Done, "{}", driver.trace());
    assert_eq!(world.cluster().cordoned(), [&NodeName::from("worker-2")]);
    assert_eq!(boots_of(&world)["worker-2"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_pause_lets_the_node_in_flight_finish() {
    // Rule 12.
    let world = World::new(3, 3, "1.13.1");
    let mut driver = driver(&world, "1.13.9", &policy(1)).await;
    let commands = driver.commands.clone();
    let watched = Arc::clone(&world);
    tokio::spawn(async move {
        while watched.acts_of("reboot").is_empty() {
            seconds(1).await;
        }
        commands.send_replace(Command::Pause { by: "eva".to_owned() });
    });
    let (end, state) = driver.go().await;
    assert_eq!(end, End::Paused { by: "eva".to_owned() });
    assert_eq!(boots_of(&world).len(), 1, "{}", driver.trace());
    assert!(world.cluster().cordoned().is_empty(), "a safe state");
    assert_eq!(state.paused(), Some("eva"));
    // Without a command it stays paused; with it, it continues.
    driver.commands.send_replace(Command::Continue);
    assert!(matches!(driver.go().await.0, End::Paused { .. }));
    assert_eq!(driver.resume(Some("eva")).await.unwrap().0, End::Done);
    driver.assert_upgraded("1.13.9");
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_at_once_and_the_run_resumes() {
    // Rules 8 and 12.
    for after in [1, 20, 45, 50, 52, 60, 100, 130, 200] {
        let world = World::new(3, 1, "1.13.1");
        let mut driver = driver(&world, "1.13.9", &policy(1)).await;
        let commands = driver.commands.clone();
        tokio::spawn(async move {
            seconds(after).await;
            commands.send_replace(Command::Stop);
        });
        let began = world.now();
        assert_eq!(driver.go().await.0, End::Stopped);
        assert_eq!(world.now().duration_since(began).as_secs(), after.cast_signed(), "at once");
        driver.commands.send_replace(Command::Continue);
        assert_eq!(driver.go().await.0, End::Done, "{}", driver.trace());
        driver.assert_upgraded("1.13.9");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_cannot_be_seen_is_waited_for_and_then_halts() {
    // Rules 10 and 11.
    let world = World::new(3, 1, "1.13.1");
    let mut first = driver(&world, "1.13.9", &policy(1)).await;
    let watched = Arc::clone(&world);
    tokio::spawn(async move {
        while watched.acts_of("install").len() < 2 {
            seconds(1).await;
        }
        watched.change(|cluster| cluster.dark = true);
        seconds(300).await;
        watched.change(|cluster| cluster.dark = false);
    });
    assert_eq!(first.go().await.0, End::Done, "{}", first.trace());
    first.assert_upgraded("1.13.9");

    let world = World::new(3, 1, "1.13.1");
    let mut driver = driver(&world, "1.13.9", &policy(1)).await;
    world.change(|cluster| cluster.dark = true);
    let (end, _) = driver.go().await;
    let text = format!("{end:?}");
    assert!(matches!(end, End::Halted { .. }), "{text}");
    assert!(boots_of(&world).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_sick_neighbour_closes_the_gate_until_it_is_well() {
    // Rules 1, 2 and 11: the wait is reported and journaled, and ends with its cause.
    let world = World::new(3, 1, "1.13.1");
    let mut driver = driver(&world, "1.13.9", &policy(1)).await;
    let watched = Arc::clone(&world);
    tokio::spawn(async move {
        while watched.acts_of("boot cp-2").is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        watched.change(|cluster| cluster.sim(&"cp-1".into()).stage = Stage::Booting);
        seconds(200).await;
        watched.change(|cluster| cluster.sim(&"cp-1".into()).stage = Stage::Running);
    });
    assert_eq!(driver.go().await.0, End::Done, "{}", driver.trace());
    driver.assert_upgraded("1.13.9");
    let waits = driver.journal.entries();
    let waits = waits.iter().filter(|it| matches!(it.record, Record::Waiting { .. })).count();
    assert_eq!(waits, 1, "{}", driver.trace());
    let waiting = |it: &upgrade_core::event::Event| matches!(it.kind, EventKind::Waiting { .. });
    assert!(driver.events.iter().any(waiting));
}

/// Plans the rollback of a node.
async fn rollback_of(world: &Arc<World>, node: &str, way: Way) -> Driver {
    let snapshot = upgrade_engine::observe(&**world, POOL_LABEL).await.unwrap();
    let (node, policy, matrix) = (node.into(), policy(1), Matrix::builtin());
    let request =
        RollbackRequest { snapshot: &snapshot, node: &node, way, policy: &policy, matrix: &matrix };
    let planned = rollback(&request).unwrap_or_else(|report| panic!("{report:?}"));
    let found = check(&planned.plan, &snapshot, &matrix);
    assert!(found.iter().all(|it| it.severity != Severity::Fatal), "{found:?}");
    Driver::new(world, &Arc::new(planned.plan))
}

#[tokio::test(start_paused = true)]
async fn a_node_goes_back_by_slot_or_by_image() {
    let old: Version = "1.13.1".parse().unwrap();
    let image = format!("factory.talos.dev/metal-installer/{SCHEMATIC}:v1.13.1");
    let ways = [
        Way::Slot { version: old.clone(), schematic: Some(SCHEMATIC.to_owned()) },
        Way::Image(image.parse().unwrap()),
    ];
    for way in ways {
        for node in ["cp-1", "worker-1"] {
            let world = World::new(3, 1, "1.13.9");
            world.change(|cluster| {
                let sim = cluster.sim(&node.into());
                sim.other_slot = Some(old.clone());
                // The reason for going back; no health gate minds it (rule 12).
                (sim.ready, sim.node_ready) = (false, false);
            });
            let mut driver = rollback_of(&world, node, way.clone()).await;
            let (end, _) = driver.go().await;
            assert_eq!(end, End::Done, "{}", driver.trace());
            assert_eq!(world.cluster().nodes[&node.into()].version, old);
            assert_eq!(boots_of(&world).len(), 1);
            assert!(world.cluster().cordoned().is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_armed_node_is_not_rolled_back_to_what_it_runs() {
    // Rules 5 and 12: its other slot holds what runs, so 1.13.1 is gone.
    let world = World::new(3, 1, "1.13.9");
    world.change(|cluster| {
        let sim = cluster.sim(&"worker-1".into());
        (sim.other_slot, sim.armed) = (Some("1.13.10".parse().unwrap()), true);
    });
    let way = Way::Slot { version: "1.13.1".parse().unwrap(), schematic: None };
    let mut driver = rollback_of(&world, "worker-1", way).await;
    let (end, _) = driver.go().await;
    let End::Halted { reason: HaltReason::StepFailed { failure, .. }, cordoned, .. } = &end else {
        panic!("must halt: {end:?}");
    };
    assert_eq!(failure.kind, FailureKind::Refused);
    for part in ["armed with Talos-v1.13.10.efi", "1.13.9, which runs"] {
        assert!(failure.text().contains(part), "{part}: {failure}");
    }
    let running = "1.13.9".parse().unwrap();
    let disarm = Fix::DisarmForRollback { node: "worker-1".into(), running };
    assert_eq!(failure.advice(), Advice::plan_after(disarm));
    assert!(boots_of(&world).is_empty() && cordoned.is_empty(), "{}", driver.trace());
}

#[tokio::test(start_paused = true)]
async fn a_rollback_that_was_heard_is_not_taken_back_by_another() {
    // Rule 8: the default was changed, and the reboot was lost.
    let world = World::new(3, 1, "1.13.9");
    world.change(|cluster| {
        let sim = cluster.sim(&"worker-1".into());
        (sim.other_slot, sim.armed) = (Some("1.13.1".parse().unwrap()), true);
    });
    let way =
        Way::Slot { version: "1.13.1".parse().unwrap(), schematic: Some(SCHEMATIC.to_owned()) };
    let mut driver = rollback_of(&world, "worker-1", way).await;
    assert_eq!(driver.go().await.0, End::Done, "{}", driver.trace());
    assert!(world.acts_of("rollback").is_empty(), "{}", driver.trace());
    assert_eq!(world.acts_of("reboot"), ["worker-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_rollback_does_not_wait_for_kubernetes() {
    // Rule 12: the only control plane is what is broken.
    let world = World::new(1, 1, "1.13.9");
    world.change(|cluster| {
        let sim = cluster.sim(&"cp-1".into());
        sim.other_slot = Some("1.13.1".parse().unwrap());
        (sim.ready, sim.node_ready) = (false, false);
    });
    let way = Way::Slot { version: "1.13.1".parse().unwrap(), schematic: None };
    let mut driver = rollback_of(&world, "cp-1", way).await;
    let (end, _) = driver.go().await;
    assert_eq!(end, End::Done, "{}", driver.trace());
    assert!(world.cluster().cordoned().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_observation_says_what_it_could_not_see() {
    // Rule 10.
    let world = World::new(3, 3, "1.13.1");
    world.set_fault("worker-1", Some(Fault::Hangs));
    world.change(|cluster| {
        cluster.sim(&"worker-2".into()).pool = Some("gpu".to_owned());
        cluster.sim(&"worker-3".into()).answers = false;
    });
    let began = world.now();
    let snapshot = upgrade_engine::observe(&*world, POOL_LABEL).await.unwrap();
    assert_eq!(snapshot.taken_at, began, "rule 2: before the first question");
    let node = |name: &str| &snapshot.nodes[&name.into()];
    assert_eq!(node("worker-1").talos.why_unknown(), Some("no answer within 10s"));
    assert_eq!(node("worker-3").talos.why_unknown(), Some("connection refused"));
    assert_eq!(node("worker-2").pool.as_deref(), Some("gpu"));
    assert!(node("worker-2").is_up());
    assert_eq!(snapshot.kubernetes.known(), Some(&"1.33.4".parse().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_discovery_does_not_show_is_found_or_unknown() {
    // Rule 10, with one control plane: etcd has nothing to say of it.
    let world = World::new(1, 2, "1.13.1");
    world.cluster().hidden =
        BTreeMap::from([("worker-1".into(), true), ("worker-2".into(), false)]);
    let snapshot = upgrade_engine::observe(&*world, POOL_LABEL).await.unwrap();
    let names: Vec<_> = snapshot.nodes.keys().map(|name| name.0.as_str()).collect();
    assert_eq!(names, ["cp-1", "worker-1"]);
    assert!(snapshot.nodes[&"worker-1".into()].is_up());
    let why = |name: &str| snapshot.unmatched.get(&NodeName::from(name)).map(|it| it.why.as_str());
    assert_eq!((snapshot.unmatched.len(), why("worker-2")), (1, Some("no answer")));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_never_said_what_it_is_closes_every_gate() {
    // Rule 10: it may be a control plane.
    let world = World::new(3, 2, "1.13.1");
    let mut driver = driver(&world, "1.13.9", &policy(1)).await;
    world.cluster().strangers = BTreeMap::from([("10.0.9.9".into(), "silent".to_owned())]);
    let (end, _) = driver.go().await;
    let End::Halted { reason: HaltReason::WaitedTooLong { waiting_for, .. }, .. } = end else {
        panic!("must halt: {end:?}\n{}", driver.trace());
    };
    assert!(waiting_for.to_string().contains("10.0.9.9"), "{waiting_for}");
    assert!(boots_of(&world).is_empty());
    world.cluster().strangers.clear();
    assert_eq!(driver.resume(Some("eva")).await.unwrap().0, End::Done, "{}", driver.trace());
    driver.assert_upgraded("1.13.9");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_hangs_is_waited_for_until_the_gates_deadline() {
    // Rules 10 and 11.
    let world = World::new(3, 2, "1.13.1");
    let mut driver = driver(&world, "1.13.9", &policy(1)).await;
    world.set_fault("cp-2", Some(Fault::Hangs));
    let (end, _) = driver.go().await;
    let End::Halted { reason: HaltReason::WaitedTooLong { waiting_for, .. }, .. } = end else {
        panic!("must halt: {end:?}\n{}", driver.trace());
    };
    assert!(waiting_for.to_string().contains("no answer"), "{waiting_for}");
    assert!(boots_of(&world).is_empty());
    // The node answers again: the run continues.
    world.set_fault("cp-2", None);
    assert_eq!(driver.resume(Some("eva")).await.unwrap().0, End::Done, "{}", driver.trace());
    driver.assert_upgraded("1.13.9");
}
