//! Nodes that something outside upgrades or replaces: the same gates and the same verification,
//! another step in between.

use std::collections::BTreeSet;
use std::sync::Arc;

use upgrade_core::reason::{FailureKind, HaltReason};
use upgrade_engine::drive;
use upgrade_engine::drive::{DriveError, End};

use crate::common::{Driver, Fault, World, planned, policy};
use crate::crashes::everywhere;

fn world(control_planes: usize, workers: usize) -> Arc<World> {
    let world = World::new(control_planes, workers, "1.13.1");
    world.cluster().replacing = Some(BTreeSet::new());
    world
}

async fn driver(world: &Arc<World>) -> Driver {
    Driver::new(world, &planned(world, "1.13.9", &policy(1)).await)
}

#[tokio::test(start_paused = true)]
async fn nodes_are_upgraded_from_outside_between_drain_and_verification() {
    // Rules 1, 3, 6 and 7 are the referee's.
    let world = world(3, 2);
    let mut driver = driver(&world).await;
    assert_eq!(driver.go().await.0, End::Done, "{}", driver.trace());
    driver.assert_upgraded("1.13.9");
    let acts = world.cluster().acts.clone();
    assert_eq!(acts.iter().filter(|act| act.starts_with("replace ")).count(), 5, "{acts:?}");
    for call in ["pull ", "install ", "reboot ", "upgrade "] {
        assert!(!acts.iter().any(|act| act.starts_with(call)), "{acts:?}");
    }
    let first = |act: &str| acts.iter().position(|it| it == act).unwrap_or_else(|| panic!("{act}"));
    assert!(first("cordon worker-1") < first("replace worker-1"), "{acts:?}");
    assert!(first("replace worker-1") < first("uncordon worker-1"), "{acts:?}");
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_entry_nothing_is_asked_for_twice() {
    // Rule 8: what an earlier process asked for is still being carried out.
    everywhere(
        || world(3, 1),
        "1.13.9",
        |driver, end| async move {
            assert_eq!(end, End::Done, "{}", driver.trace());
            driver.assert_upgraded("1.13.9");
            let acts = driver.world.cluster().acts.clone();
            let asked = acts.iter().filter(|act| act.starts_with("replace ")).count();
            assert_eq!(asked, 4, "{}", driver.trace());
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_nothing_happens_to_halts_the_run_and_goes_back_into_service() {
    // Rules 7 and 11.
    let world = world(3, 1);
    world.cluster().sim(&"worker-1".into()).fault = Some(Fault::LosesReboot);
    let mut driver = driver(&world).await;
    let (end, _) = driver.go().await;
    let End::Halted { reason: HaltReason::StepFailed { step, failure, .. }, .. } = end else {
        panic!("{}", driver.trace())
    };
    assert_eq!(step.to_string(), "1/worker-1/external-upgrade");
    assert_eq!(failure.kind, FailureKind::Lost, "{failure}");
    assert!(world.cluster().cordoned().is_empty(), "{}", driver.trace());
}

#[tokio::test(start_paused = true)]
async fn a_plan_for_an_upgrade_from_outside_is_not_driven_without_one() {
    let world = world(1, 1);
    let driver = driver(&world).await;
    world.cluster().replacing = None;
    let (run, _events) = driver.run(driver.journal.clone(), None);
    assert!(matches!(drive(run).await, Err(DriveError::NoExternalUpgrader)));
    assert_eq!(driver.journal.entries(), [], "nothing was written");
    assert_eq!(world.cluster().acts, Vec::<String>::new(), "nothing was done");
}
