//! A node is back when it is as ready as it was before (rule 10), and reboots as the
//! policy says (rule 12).

use std::sync::Arc;

use upgrade_core::event::{EventKind, StepProgress};
use upgrade_core::journal::{Evidence, Record};
use upgrade_core::policy::{Policy, RebootChoice};
use upgrade_core::reason::{FailureKind, HaltReason};
use upgrade_core::step::Action;
use upgrade_engine::drive::End;

use crate::common::{Driver, Fault, World, boots_of, planned, policy, unmet};

async fn drive(world: &Arc<World>, from_to: &str, policy: &Policy) -> (Driver, End) {
    let plan = planned(world, from_to, policy).await;
    let mut driver = Driver::new(world, &plan);
    let (end, _) = driver.go().await;
    (driver, end)
}

fn air_gapped(world: &World, node: &str) {
    world.change(|cluster| {
        cluster.sim(&node.into()).unmet = vec![unmet("network", "waiting on: connectivity")];
    });
}

fn failure(end: &End) -> (String, FailureKind, String) {
    match end {
        End::Halted { reason: HaltReason::StepFailed { step, failure, .. }, .. } => {
            (step.to_string(), failure.kind, failure.to_string())
        }
        other => panic!("must halt on a step: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn conditions_that_were_unmet_before_may_be_unmet_afterwards() {
    for (from, to) in [("1.11.6", "1.12.11"), ("1.13.1", "1.13.9")] {
        let world = World::new(3, 2, from);
        air_gapped(&world, "cp-1");
        air_gapped(&world, "worker-1");
        let soak = upgrade_core::jiff::SignedDuration::from_secs(30);
        let (driver, end) = drive(&world, to, &Policy { soak, ..policy(1) }).await;
        assert_eq!(end, End::Done, "{}", driver.trace());
        driver.assert_upgraded(to);
        let entries = driver.journal.entries();
        let noted = entries.iter().filter(|entry| {
            matches!(&entry.record, Record::Started { step, evidence: Some(evidence), .. }
                if matches!(step.action, Action::Reboot | Action::Upgrade)
                    && matches!(evidence, Evidence::NotReady { .. }))
        });
        assert_eq!(noted.count(), 2, "noted before the reboot");
        let reported = driver.events.iter().any(|event| {
            matches!(&event.kind, EventKind::StepProgress { progress: StepProgress { message, .. }, .. }
                if message.contains("still unmet: network (waiting on: connectivity)"))
        });
        assert!(reported, "{}", driver.trace());
    }
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_is_new_fails_and_is_named() {
    // Rule 10.
    let world = World::new(1, 2, "1.13.1");
    air_gapped(&world, "worker-1");
    world.set_fault("worker-1", Some(Fault::LessReady));
    let (driver, end) = drive(&world, "1.13.9", &policy(1)).await;
    let (step, kind, text) = failure(&end);
    assert_eq!((step.as_str(), kind), ("1/worker-1/verify", FailureKind::Deadline));
    assert!(text.contains("not ready: time (time is not synced)"), "{text}");
    assert!(text.contains("unmet before as well: network"), "{text}");
    assert!(!boots_of(&driver.world).contains_key("worker-2"), "{}", driver.trace());
}

fn first() -> Policy {
    let mut policy = policy(2);
    policy.reboot.mode = RebootChoice::PowercycleFirst;
    policy
}

#[tokio::test(start_paused = true)]
async fn one_node_of_each_pool_is_power_cycled_first() {
    // Rule 12. cp-1 leads, so cp-2 goes first.
    let world = World::new(3, 3, "1.13.1");
    let (driver, end) = drive(&world, "1.13.9", &first()).await;
    assert_eq!(end, End::Done, "{}", driver.trace());
    driver.assert_upgraded("1.13.9");
    assert_eq!(world.acts_of("power cycle"), ["cp-2", "worker-1"]);
    assert_eq!(world.acts_of("reboot"), ["cp-3", "cp-1", "worker-2", "worker-3"]);
    let cluster = world.cluster();
    let place = |act: &str| cluster.acts.iter().position(|it| it == act).unwrap();
    assert!(place("install worker-2") > place("uncordon worker-1"), "not even armed: {cluster:?}");
}

#[tokio::test(start_paused = true)]
async fn every_node_is_power_cycled_where_the_policy_says_so() {
    for (from, to, act) in
        [("1.11.6", "1.12.11", "power cycle and upgrade"), ("1.13.1", "1.13.9", "power cycle")]
    {
        let world = World::new(1, 2, from);
        let mut policy = policy(2);
        policy.reboot.mode = RebootChoice::Powercycle;
        let (driver, end) = drive(&world, to, &policy).await;
        assert_eq!(end, End::Done, "{}", driver.trace());
        assert_eq!(world.acts_of(act).len(), 3, "{}", driver.trace());
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_that_boots_by_kexec_alone_stops_at_the_first_node() {
    // Rule 12: talos#14146.
    let world = World::new(1, 3, "1.13.1");
    for node in ["worker-1", "worker-2", "worker-3"] {
        world.set_fault(node, Some(Fault::KexecOnly));
    }
    let (driver, end) = drive(&world, "1.13.9", &first()).await;
    let (step, kind, text) = failure(&end);
    assert_eq!((step.as_str(), kind), ("1/worker-1/reboot", FailureKind::NeverReturned));
    assert!(text.contains("may not boot through its firmware"), "{text}");
    assert!(world.acts_of("install").iter().all(|it| it == "cp-1" || it == "worker-1"));
    // By kexec all look fine, until the next power cut.
    let world = World::new(1, 3, "1.13.1");
    for node in ["worker-1", "worker-2", "worker-3"] {
        world.set_fault(node, Some(Fault::KexecOnly));
    }
    assert_eq!(drive(&world, "1.13.9", &policy(2)).await.1, End::Done, "{}", driver.trace());
}
