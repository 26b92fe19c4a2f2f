//! Nodes that something outside upgrades or replaces: the same gates and the same verification,
//! another step in between.

use std::collections::BTreeSet;
use std::sync::Arc;

use upgrade_core::event::EventKind;
use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::journal::Record;
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

/// A run whose process was killed a second after its journal said that worker-1 is upgraded
/// from outside: with its request under way.
async fn killed_in_the_request(fault: Fault) -> Driver {
    let make = || async { driver(&world(1, 1)).await };
    let is_request = |record: &Record| {
        matches!(record, Record::Started { step, .. }
            if step.to_string() == "1/worker-1/external-upgrade")
    };
    let mut calm = make().await;
    calm.go().await;
    let entries = calm.journal.entries();
    let place = entries.iter().position(|entry| is_request(&entry.record)).unwrap();
    let mut killed = make().await;
    killed.world.set_fault("worker-1", Some(fault));
    let end = killed.go_until(place + 1, SignedDuration::from_secs(1)).await;
    assert_eq!(end, None, "{}", killed.trace());
    let world = Arc::clone(&killed.world);
    assert_eq!(world.acts_of("replace worker-1").len(), 1, "{}", killed.trace());
    let heard = world.cluster().replacing.iter().any(|it| it.contains(&"worker-1".into()));
    assert!(!heard, "{}", killed.trace());
    world.set_fault("worker-1", None);
    killed
}

/// When this process requested the upgrade of worker-1.
fn requested_at(driver: &Driver) -> Option<Timestamp> {
    let mut events = driver.events.iter();
    let asks = |kind: &EventKind| {
        matches!(kind, EventKind::StepProgress { step, progress }
            if step.to_string() == "1/worker-1/external-upgrade"
                && progress.message.starts_with("requesting the upgrade of worker-1"))
    };
    events.find(|event| asks(&event.kind)).map(|event| event.at)
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_still_on_its_way_is_not_sent_again() {
    // Rule 8: it arrives after the next process has begun, which sees nothing under way yet.
    let mut driver = killed_in_the_request(Fault::HearsLate).await;
    assert_eq!(driver.go().await.0, End::Done, "{}", driver.trace());
    assert_eq!(requested_at(&driver), None, "{}", driver.trace());
    assert_eq!(driver.world.acts_of("replace worker-1").len(), 1, "{}", driver.trace());
    driver.assert_upgraded("1.13.9");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_lost_is_sent_again_after_a_while() {
    // Rule 8: for so long nothing tells it from one that is still on its way.
    let mut driver = killed_in_the_request(Fault::HearsNothing).await;
    let resumed = driver.world.now();
    assert_eq!(driver.go().await.0, End::Done, "{}", driver.trace());
    let waited = requested_at(&driver).unwrap().duration_since(resumed);
    let limits = SignedDuration::from_secs(15)..SignedDuration::from_secs(25);
    assert!(limits.contains(&waited), "{waited:#}");
    assert_eq!(driver.world.acts_of("replace worker-1").len(), 2, "{}", driver.trace());
    driver.assert_upgraded("1.13.9");
}
