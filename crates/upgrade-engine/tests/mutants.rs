//! Mutants change what happens: each scene is played twice, as it should go and
//! with one guard gone.

#[path = "engine/common/mod.rs"]
mod common;

use std::sync::Arc;

use common::{Driver, Fault, World, boots_of, planned, policy};
use tokio::sync::Mutex;
use upgrade_core::event::EventKind;
use upgrade_core::jiff::SignedDuration;
use upgrade_core::journal::{Entry, Record};
use upgrade_core::mutant::{self, Mutant};
use upgrade_core::plan::Target;
use upgrade_core::policy::RebootChoice;
use upgrade_core::step::Action;
use upgrade_engine::control::Command;
use upgrade_engine::drive::{DriveError, End};
use upgrade_engine::journal::{Folder, Holder};

/// One mutant lives at a time in a process, and so does one test.
static TURN: Mutex<()> = Mutex::const_new(());

struct Alive;

impl Drop for Alive {
    fn drop(&mut self) {
        mutant::set(None);
    }
}

/// Plays a scene without the mutant and with it.
async fn both<T, F: Future<Output = T>>(breakage: Mutant, scene: impl Fn() -> F) -> (T, T) {
    let _turn = TURN.lock().await;
    let calm = scene().await;
    let _alive = Alive;
    mutant::set(Some(breakage));
    (calm, scene().await)
}

async fn drive(world: &Arc<World>) -> (Driver, End) {
    let plan = planned(world, "1.13.9", &policy(1)).await;
    let mut driver = Driver::new(world, &plan);
    let (end, _) = driver.go().await;
    (driver, end)
}

fn halted(end: &End) -> String {
    match end {
        End::Halted { reason, .. } => reason.to_string(),
        end => panic!("must halt: {end:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn two_control_planes_are_away_at_once() {
    // Rule 1: the world's own referee breaks the step.
    let scene = || async { drive(&World::new(3, 0, "1.13.1")).await.1 };
    let (calm, broken) = both(Mutant::TwoControlPlanes, scene).await;
    assert_eq!(calm, End::Done);
    assert!(halted(&broken).contains("rule 1"), "{broken:?}");
}

#[tokio::test(start_paused = true)]
async fn the_next_control_plane_goes_before_the_api_server_answers() {
    // Rule 1.
    let scene = || async { drive(&World::new(3, 0, "1.13.1")).await.1 };
    let (calm, broken) = both(Mutant::StaticPodsUnchecked, scene).await;
    assert_eq!(calm, End::Done);
    assert!(halted(&broken).contains("rule 1"), "{broken:?}");
}

#[tokio::test(start_paused = true)]
async fn the_leader_reboots_as_leader() {
    // Rule 1.
    let scene = || async { drive(&World::new(3, 0, "1.13.1")).await.1 };
    let (calm, broken) = both(Mutant::LeaderStays, scene).await;
    assert_eq!(calm, End::Done);
    assert!(halted(&broken).contains("cp-1 leads and boots"), "{broken:?}");
}

#[tokio::test(start_paused = true)]
async fn no_snapshot_is_taken() {
    // Rule 3.
    let scene = || async { drive(&World::new(3, 0, "1.13.1")).await.1 };
    let (calm, broken) = both(Mutant::SnapshotSkipped, scene).await;
    assert_eq!(calm, End::Done);
    assert!(halted(&broken).contains("rule 3"), "{broken:?}");
}

#[tokio::test(start_paused = true)]
async fn a_boot_back_is_passed_over() {
    // Rule 5.
    let scene = || async {
        let world = World::new(1, 2, "1.13.1");
        world.set_fault("worker-1", Some(Fault::BootsBack));
        let (driver, end) = drive(&world).await;
        (end, boots_of(&driver.world).len())
    };
    let (calm, broken) = both(Mutant::BootBackAccepted, scene).await;
    assert!(halted(&calm.0).contains("old version"), "{calm:?}");
    assert_eq!(calm.1, 2);
    assert_eq!(broken, (End::Done, 3));
}

/// How often worker-1 was installed on, with an installer that goes wrong so. The
/// world's errors are those of the live cluster. GRUB does not tell what boots next.
async fn installs(fault: Fault, grub: bool) -> usize {
    let world = World::new(1, 1, "1.13.1");
    world.set_fault("worker-1", Some(fault));
    world.change(|cluster| cluster.sim(&"worker-1".into()).grub = grub);
    let (driver, _) = drive(&world).await;
    driver.world.acts_of("install").into_iter().filter(|it| it == "worker-1").count()
}

#[tokio::test(start_paused = true)]
async fn an_installer_that_failed_runs_again() {
    // Rule 5.
    for (mutant, fault, grub) in [
        (Mutant::BlindRetry, Fault::InstallerFails, false),
        (Mutant::InstallerRepeated, Fault::InstallerFails, false),
        (Mutant::InstallerRepeated, Fault::InstallerFails, true),
        (Mutant::InstallerRepeated, Fault::InstallerFailsLate, true),
    ] {
        let (calm, broken) = both(mutant, || installs(fault, grub)).await;
        assert_eq!(calm, 1, "an exit code is final");
        assert!(broken > 1, "{mutant:?}, {fault:?}: {broken}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_installer_whose_stream_was_lost_runs_again() {
    // Rule 8.
    for fault in [Fault::LosesStream, Fault::LosesStreamEarly] {
        let (calm, broken) = both(Mutant::LostStreamRepeated, || installs(fault, true)).await;
        assert_eq!(calm, 1, "{fault:?}");
        assert!(broken > 1, "{fault:?}: {broken}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_armed_node_is_installed_on() {
    // Rule 5: another user armed it.
    let scene = || async {
        let world = World::new(1, 1, "1.13.1");
        let other = "1.13.5".parse().unwrap();
        world.change(|cluster| {
            let sim = cluster.sim(&"worker-1".into());
            (sim.other_slot, sim.armed) = (Some(other), true);
        });
        halted(&drive(&world).await.1)
    };
    let (calm, broken) = both(Mutant::ArmedForgotten, scene).await;
    assert!(calm.contains("armed with Talos-v1.13.5.efi"), "{calm}");
    assert!(broken.contains("rule 5"), "the world's own referee: {broken}");
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_is_written_while_another_is_away() {
    // Rule 1: cp-1 leads, so cp-2 goes first.
    let scene = || async {
        let world = World::new(3, 0, "1.13.1");
        let (driver, end) = drive(&world).await;
        assert_eq!(end, End::Done, "{}", driver.trace());
        let cluster = driver.world.cluster();
        let place = |act: &str| cluster.acts.iter().position(|it| it == act).unwrap();
        place("install cp-3") > place("uncordon cp-2")
    };
    assert_eq!(both(Mutant::ControlPlaneAhead, scene).await, (true, false));
}

#[tokio::test(start_paused = true)]
async fn pods_are_deleted() {
    // Rule 6.
    let scene = || async {
        let world = World::new(1, 2, "1.13.1");
        world.cluster().budget_blocks = true;
        let (driver, _) = drive(&world).await;
        driver.world.acts_of("delete")
    };
    let (calm, broken) = both(Mutant::EvictByDelete, scene).await;
    assert!(calm.is_empty(), "{calm:?}");
    assert!(broken.contains(&"Pod default/web-worker-1".to_owned()), "{broken:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_drain_continues() {
    // Rule 6.
    let scene = || async {
        let world = World::new(1, 2, "1.13.1");
        world.cluster().budget_blocks = true;
        drive(&world).await.1
    };
    let (calm, broken) = both(Mutant::DrainDeadline, scene).await;
    assert!(halted(&calm).contains("default/web"), "{calm:?}");
    assert_eq!(broken, End::Done);
}

#[tokio::test(start_paused = true)]
async fn cordons_stay_or_go_against_the_rule() {
    // Rule 7: another user cordoned worker-1.
    let scene = || async {
        let world = World::new(1, 1, "1.13.1");
        world.change(|cluster| cluster.sim(&"worker-1".into()).unschedulable = true);
        let (driver, end) = drive(&world).await;
        assert_eq!(end, End::Done);
        let cluster = driver.world.cluster();
        cluster.cordoned().iter().map(|node| node.0.clone()).collect::<Vec<_>>()
    };
    let (calm, broken) = both(Mutant::CordonForgotten, scene).await;
    assert_eq!(calm, ["worker-1"]);
    assert_eq!(broken, ["cp-1", "worker-1"]);
    let (calm, broken) = both(Mutant::FoundCordonLifted, scene).await;
    assert_eq!(calm, ["worker-1"]);
    assert!(broken.is_empty(), "{broken:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reboot_is_asked_for_twice() {
    // Rule 8: the process dies while the node is down.
    let scene = || async {
        let (calm, _) = drive(&World::new(1, 0, "1.13.1")).await;
        let reboots = |entry: &Entry| matches!(&entry.record, Record::Started { step, .. } if step.action == Action::Reboot);
        let asked = calm.journal.entries().iter().position(reboots).unwrap();
        let world = World::new(1, 0, "1.13.1");
        let plan = planned(&world, "1.13.9", &policy(1)).await;
        let mut driver = Driver::new(&world, &plan);
        assert_eq!(driver.go_until(asked + 1, SignedDuration::from_secs(1)).await, None);
        let (end, _) = driver.go().await;
        (end, boots_of(&world)["cp-1"])
    };
    let (calm, broken) = both(Mutant::ActRepeated, scene).await;
    assert_eq!(calm, (End::Done, 1));
    assert_eq!(broken.1, 2, "{broken:?}");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_lost_the_run_continues() {
    // Rule 9.
    let scene = || async {
        let dir = tempfile::tempdir().unwrap();
        let world = World::new(1, 1, "1.13.1");
        let plan = planned(&world, "1.13.9", &policy(1)).await;
        let driver = Driver::new(&world, &plan);
        let holder = Holder::this_process(world.now());
        let opened = Folder::new(dir.path()).begin((*plan).clone(), &holder, false).unwrap();
        let (run, _events) = driver.run(opened.journal, None);
        let task = tokio::spawn(upgrade_engine::drive(run));
        while world.acts_of("cordon").is_empty() {
            common::seconds(1).await;
        }
        std::fs::remove_file(dir.path().join("run.lock")).unwrap();
        task.await.unwrap()
    };
    let (calm, broken) = both(Mutant::FenceOff, scene).await;
    assert!(matches!(calm, Err(DriveError::Lost(_))), "{calm:?}");
    assert_eq!(broken.unwrap(), End::Done);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_less_ready_than_before_counts_as_back() {
    // Rule 10.
    let scene = || async {
        let world = World::new(1, 2, "1.13.1");
        world.set_fault("worker-1", Some(Fault::LessReady));
        drive(&world).await.1
    };
    let (calm, broken) = both(Mutant::LessReady, scene).await;
    assert!(halted(&calm).contains("time (time is not synced)"), "{calm:?}");
    assert_eq!(broken, End::Done);
}

/// The power cycles of a run in which the first worker does not come back from its own,
/// and how many workers were rebooted in all.
async fn power_cycles() -> (usize, usize) {
    let world = World::new(1, 3, "1.13.1");
    world.set_fault("worker-1", Some(Fault::KexecOnly));
    let mut policy = policy(2);
    policy.reboot.mode = RebootChoice::PowercycleFirst;
    let plan = planned(&world, "1.13.9", &policy).await;
    let mut driver = Driver::new(&world, &plan);
    driver.go().await;
    let cycled = world.acts_of("power cycle").len();
    (cycled, cycled + world.acts_of("reboot").len() - 1)
}

#[tokio::test(start_paused = true)]
async fn power_cycles_are_left_out_or_not_awaited() {
    // Rule 12: cp-1 and worker-1 are power cycled, and the others wait for worker-1.
    let (calm, broken) = both(Mutant::KexecAlways, power_cycles).await;
    assert_eq!(calm, (2, 1));
    assert_eq!(broken, (0, 3));
    let (_, broken) = both(Mutant::TrialNotAwaited, power_cycles).await;
    assert_eq!(broken.0, 2);
    assert!(broken.1 > 1, "{broken:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pause_is_not_heard_or_leaves_a_node_cordoned() {
    // Rule 12.
    let scene = || async {
        let world = World::new(1, 2, "1.13.1");
        let plan = planned(&world, "1.13.9", &policy(1)).await;
        let mut driver = Driver::new(&world, &plan);
        let commands = driver.commands.clone();
        let seen = Arc::clone(&world);
        tokio::spawn(async move {
            while seen.cluster().cordoned().is_empty() {
                common::seconds(1).await;
            }
            commands.send_replace(Command::Pause { by: "a test".to_owned() });
        });
        let (end, _) = driver.go().await;
        let cordoned = world.cluster().cordoned().len();
        (matches!(end, End::Paused { .. }), boots_of(&world).len(), cordoned)
    };
    let (calm, broken) = both(Mutant::PauseIgnored, scene).await;
    assert_eq!(calm, (true, 1, 0));
    assert_eq!(broken, (false, 3, 0));
    let (calm, broken) = both(Mutant::PauseAbandons, scene).await;
    assert_eq!(calm, (true, 1, 0));
    assert_eq!((broken.0, broken.2), (true, 1), "{broken:?}");
}

/// A run that finds the leader out of reach once all is pulled.
async fn with_a_leader_out_of_reach() -> (Driver, End) {
    let world = World::new(3, 0, "1.13.1");
    let plan = planned(&world, "1.13.9", &policy(1)).await;
    let mut driver = Driver::new(&world, &plan);
    let seen = Arc::clone(&world);
    tokio::spawn(async move {
        while seen.acts_of("install").is_empty() {
            common::seconds(1).await;
        }
        seen.change(|cluster| cluster.sim(&"cp-1".into()).answers = false);
    });
    let (end, _) = driver.go().await;
    (driver, end)
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_seen_is_passed_over() {
    // Rule 10: and with it rule 1.
    let scene = || async { halted(&with_a_leader_out_of_reach().await.1) };
    let (calm, broken) = both(Mutant::UnknownIsFine, scene).await;
    assert!(calm.contains("cp-1"), "{calm}");
    assert!(broken.contains("rule 1"), "{broken}");
}

#[tokio::test(start_paused = true)]
async fn waits_are_not_reported() {
    // Rule 11.
    let scene = || async {
        let (driver, _) = with_a_leader_out_of_reach().await;
        let waits = |kind: &EventKind| matches!(kind, EventKind::Waiting { .. });
        driver.events.iter().filter(|event| waits(&event.kind)).count()
    };
    let (calm, broken) = both(Mutant::WaitUnreported, scene).await;
    assert!(calm > 0);
    assert_eq!(broken, 0);
}

#[tokio::test(start_paused = true)]
async fn nodes_get_another_installer() {
    // Rule 4.
    let scene = || async {
        let world = World::new(1, 1, "1.13.1");
        let plan = planned(&world, "1.13.9", &policy(1)).await;
        let (driver, end) = drive(&world).await;
        assert_eq!(end, End::Done, "{}", driver.trace());
        let mut lanes = plan.hops[0].waves.iter().flat_map(|wave| &wave.lanes);
        lanes.any(|lane| {
            matches!(&lane.target, Target::Talos(target)
                if target.installer.repository.contains(common::SCHEMATIC))
        })
    };
    assert_eq!(both(Mutant::SchematicDropped, scene).await, (true, false));
}

#[tokio::test(start_paused = true)]
async fn steps_begin_on_old_observations() {
    // Rule 2: acts that no look lies between them and the one before.
    let scene = || async {
        let (driver, end) = drive(&World::new(3, 0, "1.13.1")).await;
        assert_eq!(end, End::Done, "{}", driver.trace());
        let observations = driver.world.cluster().observations.clone();
        let (mut ended, mut blind) = (None, 0);
        for Entry { at, record, .. } in driver.journal.entries() {
            match record {
                Record::Started { step, .. } if step.action.is_disruptive() => {
                    let seen = observations
                        .iter()
                        .any(|observed| Some(*observed) > ended && *observed <= at);
                    blind += usize::from(!seen);
                }
                Record::Finished { step, .. } if step.action.is_disruptive() => ended = Some(at),
                _ => {}
            }
        }
        blind
    };
    let (calm, broken) = both(Mutant::StaleObservation, scene).await;
    assert_eq!(calm, 0);
    assert!(broken > 0);
}

#[tokio::test(start_paused = true)]
async fn lost_extensions_are_not_missed() {
    // Rule 4.
    let scene = || async {
        let world = World::new(1, 1, "1.13.1");
        world.set_fault("worker-1", Some(Fault::DropsExtension));
        drive(&world).await.1
    };
    let (calm, broken) = both(Mutant::ContentUnchecked, scene).await;
    assert!(halted(&calm).contains("iscsi-tools"), "{calm:?}");
    assert_eq!(broken, End::Done);
}

#[tokio::test(start_paused = true)]
async fn more_workers_are_away_than_may_be() {
    // Rule 6.
    let scene = || async { drive(&World::new(1, 4, "1.13.1")).await.1 };
    let (calm, broken) = both(Mutant::WorkerLimit, scene).await;
    assert_eq!(calm, End::Done);
    assert!(halted(&broken).contains("rule 6"), "{broken:?}");
}
