//! Drains, as the policy wants them.

use std::sync::Arc;
use std::time::Duration;

use upgrade_core::event::{EventKind, StepProgress, Unit};
use upgrade_core::journal::{Outcome, Record};
use upgrade_core::policy::{AtStake, OnDrainTimeout, Order, Policy};
use upgrade_core::reason::{FailureKind, HaltReason};
use upgrade_engine::drive::End;

use crate::common::{Driver, World, planned, policy};

async fn driver(world: &Arc<World>, policy: &Policy) -> Driver {
    let plan = planned(world, "1.13.9", policy).await;
    Driver::new(world, &plan)
}

fn workers_first() -> Policy {
    Policy { order: Order::WorkersFirst, ..policy(1) }
}

/// Takes the controller from the pod of worker-1: nothing creates the pod again.
fn bare(world: &World) {
    world.change(|cluster| cluster.pods[0].controller = None);
}

#[tokio::test(start_paused = true)]
async fn a_bare_pod_stops_the_drain_before_it_begins() {
    // Rule 6, and rule 7: the node is uncordoned.
    let world = World::new(3, 2, "1.13.1");
    bare(&world);
    let mut driver = driver(&world, &workers_first()).await;
    let (end, _) = driver.go().await;
    let End::Halted { reason: HaltReason::StepFailed { step, failure, .. }, .. } = &end else {
        panic!("it must halt: {end:?}\n{}", driver.trace());
    };
    assert_eq!(step.to_string(), "1/worker-1/drain");
    assert_eq!(failure.kind, FailureKind::Refused);
    assert!(failure.text().contains("no controller: default/web-worker-1"), "{failure}");
    assert!(failure.text().contains("nothing was evicted"), "{failure}");
    let cluster = world.cluster();
    assert!(cluster.pods.iter().any(|pod| pod.name.name == "web-worker-1"));
    assert!(cluster.nodes.values().all(|node| !node.unschedulable));
}

#[tokio::test(start_paused = true)]
async fn a_bare_pod_may_be_left_or_evicted() {
    for (choice, stays) in [(AtStake::Leave, true), (AtStake::Evict, false)] {
        let world = World::new(3, 2, "1.13.1");
        bare(&world);
        let mut policy = workers_first();
        policy.drain.bare_pods = choice;
        let mut driver = driver(&world, &policy).await;
        assert_eq!(driver.go().await.0, End::Done, "{}", driver.trace());
        driver.assert_upgraded("1.13.9");
        let there = world.cluster().pods.iter().any(|pod| pod.name.name == "web-worker-1");
        assert_eq!(there, stays);
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_opens_again_is_waited_for_and_named_meanwhile() {
    // Rules 6 and 11.
    let world = World::new(3, 2, "1.13.1");
    world.cluster().budget_blocks = true;
    let opener = Arc::clone(&world);
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_mins(5)).await;
        opener.change(|cluster| cluster.budget_blocks = false);
    });
    let mut driver = driver(&world, &workers_first()).await;
    assert_eq!(driver.go().await.0, End::Done, "{}", driver.trace());
    driver.assert_upgraded("1.13.9");
    let named = driver.events.iter().any(|event| {
        matches!(&event.kind, EventKind::StepProgress { progress: StepProgress { message, done, total, unit }, .. }
            if message.contains("budget default/web blocks default/web-worker-1")
                && (*done, *total, *unit) == (Some(0), Some(1), Some(Unit::Pods)))
    });
    assert!(named, "{}", driver.trace());
}

#[tokio::test(start_paused = true)]
async fn going_on_with_pods_left_is_remembered_with_their_names() {
    let world = World::new(3, 2, "1.13.1");
    world.cluster().budget_blocks = true;
    let mut policy = workers_first();
    policy.drain.on_timeout = OnDrainTimeout::Proceed;
    let mut driver = driver(&world, &policy).await;
    assert_eq!(driver.go().await.0, End::Done, "{}", driver.trace());
    let entries = driver.journal.entries();
    let left = entries.iter().find_map(|entry| match &entry.record {
        Record::Finished { step, outcome: Outcome::Skipped { why }, .. }
            if step.to_string() == "1/worker-1/drain" =>
        {
            Some(why)
        }
        _ => None,
    });
    let left = left.expect("what was left is in the journal");
    assert!(left.contains("default/web-worker-1") && left.contains("the policy says"), "{left}");
}
