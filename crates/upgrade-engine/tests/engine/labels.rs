//! A lane with several steps of one action: their labels keep them apart in the plan, in the
//! journal, and when another process takes the run over (rule 8).

use std::sync::Arc;

use upgrade_core::jiff::SignedDuration;
use upgrade_core::journal::{Outcome, Record};
use upgrade_core::plan::Plan;
use upgrade_core::step::{Action, StepName};
use upgrade_engine::drive::End;

use crate::common::{Driver, World, planned, policy};

/// The steps that worker-1 has twice.
const TWICE: [&str; 4] = [
    "1/worker-1/pull:first",
    "1/worker-1/pull:second",
    "1/worker-1/soak:first",
    "1/worker-1/soak:second",
];

fn twice(name: &StepName) -> Vec<StepName> {
    match name.action {
        Action::Pull | Action::Soak => {
            ["first", "second"].map(|label| format!("{name}:{label}").parse().unwrap()).to_vec()
        }
        _ => vec![name.clone()],
    }
}

/// An upgrade in which worker-1 pulls twice and soaks twice.
async fn driver() -> Driver {
    let world = World::new(1, 2, "1.13.1");
    let mut policy = policy(1);
    policy.soak = SignedDuration::from_secs(30);
    let mut plan = (*planned(&world, "1.13.9", &policy).await).clone();
    for lane in plan.hops.iter_mut().flat_map(|hop| &mut hop.waves).flat_map(|it| &mut it.lanes) {
        if lane.node == Some("worker-1".into()) {
            lane.steps = lane.steps.iter().flat_map(twice).collect();
        }
    }
    Driver::new(&world, &Arc::new(plan))
}

/// The labelled steps, each time one of them ended well.
fn done(driver: &Driver) -> Vec<String> {
    let mut done = Vec::new();
    for entry in driver.journal.entries() {
        if let Record::Finished { step, outcome: Outcome::Done { .. }, .. } = entry.record
            && step.label.is_some()
        {
            done.push(step.to_string());
        }
    }
    done
}

fn starts(driver: &Driver, name: &str) -> usize {
    let entries = driver.journal.entries();
    let begins = |record: &Record| matches!(record, Record::Started { step, .. } if step.to_string() == name);
    entries.iter().filter(|entry| begins(&entry.record)).count()
}

#[tokio::test(start_paused = true)]
async fn a_plan_with_labels_is_read_back() {
    let plan = driver().await.plan;
    let json = serde_json::to_string(&*plan).unwrap();
    assert!(json.contains(r#"["pull:first","pull:second"]"#), "{json}");
    let read: Plan = serde_json::from_str(&json).unwrap();
    assert_eq!((read.hash(), &read), (plan.hash(), &*plan));
}

#[tokio::test(start_paused = true)]
async fn steps_of_one_action_run_one_after_the_other() {
    let mut driver = driver().await;
    assert_eq!(driver.go().await.0, End::Done, "{}", driver.trace());
    driver.assert_upgraded("1.13.9");
    assert_eq!(done(&driver), TWICE, "{}", driver.trace());
    // The third is the installer's own.
    assert_eq!(driver.world.acts_of("pull worker-1").len(), 3, "{}", driver.trace());
    let soaks = driver.journal.entries().into_iter().filter_map(|entry| match entry.record {
        Record::Finished { step, .. } if step.action == Action::Soak => {
            step.node.filter(|node| node.0 == "worker-1").map(|_| entry.at)
        }
        _ => None,
    });
    let soaks: Vec<_> = soaks.collect();
    let [first, second] = soaks.as_slice() else { panic!("{}", driver.trace()) };
    assert!(second.duration_since(*first) >= SignedDuration::from_secs(30), "each takes its time");
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_entry_each_is_done_once() {
    let mut calm = driver().await;
    calm.go().await;
    let mut between = 0;
    for entries in 1..=calm.journal.entries().len() {
        let mut driver = driver().await;
        let ended = driver.go_until(entries, SignedDuration::ZERO).await;
        let before = done(&driver);
        let end = match ended {
            Some(end) => end,
            None => driver.go().await.0,
        };
        for name in &before {
            assert_eq!(starts(&driver, name), 1, "{}", driver.trace());
        }
        between += usize::from(before.len() % 2 == 1);
        assert_eq!(end, End::Done, "{}", driver.trace());
        driver.assert_upgraded("1.13.9");
        assert_eq!(done(&driver), TWICE, "{}", driver.trace());
    }
    assert!(between > 1, "some processes died between two steps of one action");
}
