//! An installer runs once on a node (rules 5 and 8): what becomes of one that
//! fails, whose stream is lost, or that finds the node armed. The world's errors
//! go through the same code as those of the live cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use upgrade_core::advice::{Advice, Fix};
use upgrade_core::journal::{Armed, Arming, State};
use upgrade_core::reason::{FailureKind, HaltReason};
use upgrade_core::snapshot::NodeName;
use upgrade_engine::drive::End;

use crate::common::{Driver, Fault, SCHEMATIC, World, planned, policy};

const NODE: &str = "worker-1";

async fn driver(world: &Arc<World>, to: &str) -> Driver {
    let plan = planned(world, to, &policy(1)).await;
    Driver::new(world, &plan)
}

fn world(fault: Fault, grub: bool) -> Arc<World> {
    let world = World::new(1, 1, "1.13.1");
    world.change(|cluster| {
        let sim = cluster.sim(&NODE.into());
        (sim.fault, sim.grub) = (Some(fault), grub);
    });
    world
}

fn installs(world: &World) -> usize {
    world.acts_of("install").iter().filter(|node| *node == NODE).count()
}

/// What stopped the run, and what it says of the node's next boot.
fn halted(end: &End) -> (FailureKind, String, Option<Arming>) {
    let End::Halted { reason, armed, .. } = end else { panic!("must halt: {end:?}") };
    let HaltReason::StepFailed { failure, .. } = reason else { panic!("must fail: {reason}") };
    let state = armed.iter().find(|(node, _)| node.0 == NODE).map(|(_, state)| *state);
    (failure.kind, failure.to_string(), state)
}

/// Whether the user is advised to boot the node into the version that runs.
fn advises_to_disarm(end: &End) -> bool {
    let End::Halted { reason, .. } = end else { panic!("must halt: {end:?}") };
    let (Advice::FixThenPlan(fixes) | Advice::FixThenRetry(fixes)) = reason.advice() else {
        return false;
    };
    fixes.iter().any(|fix| matches!(fix, Fix::Disarm { running: Some(_) }))
}

fn known(state: &State) -> Option<Arming> {
    state.armed().get(&NodeName::from(NODE)).map(|armed| armed.state)
}

#[tokio::test(start_paused = true)]
async fn an_exit_code_is_final() {
    // Rule 5: before and after the default was switched, on both boot loaders.
    for (fault, grub, armed, words) in [
        (Fault::InstallerFails, false, None, "The node is not armed"),
        (Fault::InstallerFailsLate, false, Some(Arming::FailedArmed), "made 1.13.9 the default"),
        (Fault::InstallerFails, true, Some(Arming::Failed), "is not known"),
        (Fault::InstallerFailsLate, true, Some(Arming::Failed), "is not known"),
    ] {
        let world = world(fault, grub);
        let mut driver = driver(&world, "1.13.9").await;
        let (end, _) = driver.go().await;
        let (kind, text, state) = halted(&end);
        assert_eq!((kind, state), (FailureKind::Installer, armed), "{fault:?}: {text}");
        assert!(text.contains(words) && text.contains("it ends here"), "{text}");
        assert!(!text.contains("whole"), "{text}");
        assert_eq!(installs(&world), 1, "{}", driver.trace());
        // A run that is resumed while the node is as it was is refused, unless the
        // node is known not to be armed.
        let (end, _) = driver.resume(Some("eva")).await.unwrap();
        let again = usize::from(armed.is_none());
        assert_eq!(installs(&world), 1 + again, "{}", driver.trace());
        if armed.is_some() {
            let (kind, text, _) = halted(&end);
            assert_eq!(kind, FailureKind::Refused);
            assert!(advises_to_disarm(&end), "{text}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_stream_is_never_repeated() {
    // Rules 5 and 8: it had done its work.
    for grub in [false, true] {
        let world = world(Fault::LosesStream, grub);
        let mut driver = driver(&world, "1.13.9").await;
        assert_eq!(driver.go().await.0, End::Done, "{}", driver.trace());
        assert_eq!(installs(&world), 1);
        driver.assert_upgraded("1.13.9");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_lost_stream_did_not_do_is_found_out() {
    // Rule 5: by the boot loader where it tells, else by the boot.
    let world = self::world(Fault::LosesStreamEarly, false);
    let mut driver = driver(&world, "1.13.9").await;
    let (end, _) = driver.go().await;
    let (kind, text, state) = halted(&end);
    assert_eq!((kind, state), (FailureKind::Installer, None), "{text}");
    assert!(text.contains("without arming"), "{text}");
    assert_eq!(installs(&world), 1, "{}", driver.trace());
    assert!(!world.acts_of("reboot").contains(&NODE.to_owned()), "it is left alone");

    let world = self::world(Fault::LosesStreamEarly, true);
    let mut driver = self::driver(&world, "1.13.9").await;
    let (end, _) = driver.go().await;
    assert_eq!(halted(&end).0, FailureKind::BootBack, "{end:?}");
    assert_eq!(installs(&world), 1, "{}", driver.trace());
}

/// A run that halts with the node armed: its pods cannot leave.
async fn left_armed(grub: bool) -> (Arc<World>, BTreeMap<NodeName, Armed>) {
    let world = World::new(1, 1, "1.13.1");
    world.change(|cluster| {
        cluster.sim(&NODE.into()).grub = grub;
        cluster.budget_blocks = true;
    });
    let mut driver = driver(&world, "1.13.9").await;
    let (end, state) = driver.go().await;
    assert_eq!(halted(&end).2, Some(Arming::Armed), "{end:?}");
    world.cluster().budget_blocks = false;
    (world, state.armed_left(&BTreeMap::new()))
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_run_armed_is_not_installed_on_again() {
    // Rule 5: the same image needs no installer.
    for grub in [false, true] {
        let (world, armed) = left_armed(grub).await;
        let driver = driver(&world, "1.13.9").await;
        let (mut run, _events) = driver.run(driver.journal.clone(), None);
        run.open.inherited.armed = armed;
        let end = upgrade_engine::drive(run).await.unwrap();
        let state = driver.state();
        assert_eq!(end, End::Done, "{}", driver.trace());
        assert_eq!(installs(&world), 1, "{}", driver.trace());
        assert_eq!(known(&state), None, "it has booted");
    }
}

#[tokio::test(start_paused = true)]
async fn another_image_than_the_armed_one_is_refused() {
    // Rule 5.
    for grub in [false, true] {
        let world = World::new(1, 1, "1.13.1");
        let boot_id = world.change(|cluster| {
            let sim = cluster.sim(&NODE.into());
            (sim.other_slot, sim.armed) = (Some("1.13.9".parse().unwrap()), true);
            sim.grub = grub;
            format!("boot-{}", sim.boot)
        });
        let image = format!("factory.talos.dev/metal-installer/{SCHEMATIC}:v1.13.9");
        let image = image.parse().unwrap();
        let known = Armed { image, boot_id: Some(boot_id), state: Arming::Armed };
        let armed = BTreeMap::from([(NodeName::from(NODE), known)]);
        let driver = driver(&world, "1.13.8").await;
        let (mut run, _events) = driver.run(driver.journal.clone(), None);
        run.open.inherited.armed = armed.clone();
        let end = upgrade_engine::drive(run).await.unwrap();
        let state = driver.state();
        let (kind, text, _) = halted(&end);
        assert_eq!(kind, FailureKind::Refused, "{text}");
        assert!(text.contains("is armed with") && text.contains("v1.13.9"), "{text}");
        assert_eq!(installs(&world), 0, "{}", driver.trace());
        let (left, node) = (state.armed_left(&BTreeMap::new()), NodeName::from(NODE));
        assert_eq!(left.get(&node), armed.get(&node), "it is remembered all the same");
    }
}

#[tokio::test(start_paused = true)]
async fn a_boot_in_between_ends_it() {
    // The node has booted since, regardless of who rebooted it: it is no longer armed.
    let (world, mut armed) = left_armed(true).await;
    for armed in armed.values_mut() {
        armed.boot_id = Some("another boot".to_owned());
    }
    world.change(|cluster| cluster.sim(&NODE.into()).armed = false);
    let driver = driver(&world, "1.13.9").await;
    let (mut run, _events) = driver.run(driver.journal.clone(), None);
    run.open.inherited.armed = armed;
    assert_eq!(upgrade_engine::drive(run).await.unwrap(), End::Done, "{}", driver.trace());
    assert_eq!(installs(&world), 2);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_another_user_armed_is_left_alone() {
    // Rule 5, by both calls: up to 1.12 one call installs and reboots.
    for (from, to, other) in [("1.13.1", "1.13.9", "1.13.5"), ("1.12.1", "1.12.11", "1.12.5")] {
        let world = World::new(1, 1, from);
        world.change(|cluster| {
            let sim = cluster.sim(&NODE.into());
            (sim.other_slot, sim.armed) = (Some(other.parse().unwrap()), true);
        });
        let mut driver = driver(&world, to).await;
        let (end, _) = driver.go().await;
        let (kind, text, _) = halted(&end);
        assert_eq!(kind, FailureKind::Refused, "{text}");
        for part in [&format!("armed with Talos-v{other}.efi"), from] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(advises_to_disarm(&end), "{end:?}");
        assert_eq!(installs(&world), 0);
        assert!(!world.acts_of("upgrade").contains(&NODE.to_owned()));
    }
}
