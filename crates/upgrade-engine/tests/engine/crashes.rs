//! The process is killed after every journal entry, at once and a while later,
//! and started again: nothing disruptive happens twice (rule 8).

use std::sync::Arc;

use upgrade_core::jiff::SignedDuration;
use upgrade_core::plan::Plan;
use upgrade_core::reason::{FailureKind, HaltReason};
use upgrade_engine::drive::End;

use crate::common::{Driver, Fault, World, boots_of, planned, policy};

/// From the very moment of the entry to the middle of the longest act.
const LATER: [SignedDuration; 3] =
    [SignedDuration::ZERO, SignedDuration::from_secs(4), SignedDuration::from_secs(20)];

/// Kills the process after each entry of a calm run, in each of these ways.
pub(crate) async fn everywhere<F: Future<Output = ()>>(
    make: impl Fn() -> Arc<World>,
    to: &str,
    check: impl Fn(Driver, End) -> F,
) {
    let driver = || async {
        let world = make();
        let plan = planned(&world, to, &policy(2)).await;
        Driver::new(&world, &plan)
    };
    let mut calm = driver().await;
    calm.go().await;
    for entries in 1..=calm.journal.entries().len() {
        for later in LATER {
            let mut driver = driver().await;
            let end = match driver.go_until(entries, later).await {
                Some(end) => end,
                None => driver.go().await.0,
            };
            check(driver, end).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_entry_nothing_is_repeated() {
    for (from, to) in [("1.12.1", "1.12.11"), ("1.13.1", "1.13.9")] {
        everywhere(
            || World::new(3, 1, from),
            to,
            |driver, end| async move {
                assert_eq!(end, End::Done, "{}", driver.trace());
                driver.assert_upgraded(to);
            },
        )
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_entry_a_boot_back_still_halts() {
    // Rules 5 and 7.
    for (from, to) in [("1.12.1", "1.12.11"), ("1.13.1", "1.13.9")] {
        let make = || {
            let world = World::new(3, 0, from);
            world.set_fault("cp-3", Some(Fault::BootsBack));
            world
        };
        everywhere(make, to, |driver, end| async move {
            let trace = driver.trace();
            let End::Halted { reason: HaltReason::StepFailed { failure, .. }, .. } = end else {
                panic!("must halt: {end:?}\n{trace}");
            };
            assert_eq!(failure.kind, FailureKind::BootBack, "{failure}\n{trace}");
            assert_eq!(boots_of(&driver.world)["cp-3"], 1, "{trace}");
            assert!(driver.world.cluster().cordoned().is_empty(), "{trace}");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_entry_a_failed_drain_still_uncordons_the_node() {
    // Rules 6 and 7.
    let make = || {
        let world = World::new(1, 2, "1.13.1");
        world.cluster().budget_blocks = true;
        world
    };
    everywhere(make, "1.13.9", |driver, end| async move {
        let trace = driver.trace();
        let End::Halted { reason: HaltReason::StepFailed { failure, .. }, .. } = end else {
            panic!("must halt: {end:?}\n{trace}");
        };
        assert_eq!(failure.kind, FailureKind::Drain, "{failure}\n{trace}");
        assert!(driver.world.cluster().cordoned().is_empty(), "{trace}");
        assert_eq!(boots_of(&driver.world).keys().collect::<Vec<_>>(), ["cp-1"], "{trace}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn killed_again_and_again_it_still_arrives() {
    for (from, to) in [("1.12.1", "1.12.11"), ("1.13.1", "1.13.9")] {
        for (entries, later) in [(9, 0), (10, 1), (12, 6)] {
            let world = World::new(3, 2, from);
            let plan = planned(&world, to, &policy(1)).await;
            let mut driver = Driver::new(&world, &plan);
            let later = SignedDuration::from_secs(later);
            let mut lives = 1;
            let end = loop {
                let written = driver.journal.entries().len();
                match driver.go_until(written + entries, later).await {
                    Some(end) => break end,
                    None => lives += 1,
                }
                assert!(lives < 50, "{}", driver.trace());
            };
            assert_eq!(end, End::Done, "{}", driver.trace());
            assert!(lives > 3, "{lives}");
            driver.assert_upgraded(to);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_for_another_cluster_touches_nothing() {
    // Rule 9.
    let world = World::new(3, 1, "1.13.1");
    let plan = planned(&world, "1.13.9", &policy(1)).await;
    let plan = Arc::new(Plan { cluster: "other".to_owned(), ..(*plan).clone() });
    let mut driver = Driver::new(&world, &plan);
    let (end, _) = driver.go().await;
    assert!(matches!(end, End::Halted { .. }), "{end:?}");
    assert!(world.cluster().acts.is_empty(), "{}", driver.trace());
}
