//! Nothing of ours is left behind: cordons of a run that another one replaces,
//! cordons of a run that halts while nothing answers (rule 7), and leadership
//! that comes back before a reboot (rule 1).

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::SignedDuration;
use tokio::sync::mpsc;
use upgrade_core::event::EventKind;
use upgrade_core::jiff;
use upgrade_core::journal::{Entry, Phase, Record, State};
use upgrade_core::reason::{HaltReason, WaitReason};
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::StepId;
use upgrade_engine::drive;
use upgrade_engine::drive::End;
use upgrade_engine::journal::{Fence, Journal, JournalError, MemoryJournal};

use crate::common::{Cluster, Driver, Fault, Fragile, World, planned, policy, seconds};

/// A cluster whose worker-1 was upgraded by an earlier run and still has its
/// cordon, and a plan in which it has no lane.
async fn replaced() -> (Arc<World>, Driver) {
    let world = World::new(3, 2, "1.13.1");
    world.change(|cluster| {
        let sim = cluster.sim(&"worker-1".into());
        sim.version = "1.13.9".parse().unwrap();
        (sim.unschedulable, sim.marked) = (true, true);
    });
    let plan = planned(&world, "1.13.9", &policy(2)).await;
    let lanes = || plan.hops.iter().flat_map(|hop| &hop.waves).flat_map(|wave| &wave.lanes);
    assert!(lanes().all(|lane| lane.node != Some("worker-1".into())));
    let driver = Driver::new(&world, &plan);
    (world, driver)
}

fn ours() -> BTreeSet<NodeName> {
    ["worker-1".into()].into()
}

#[tokio::test(start_paused = true)]
async fn a_cordon_of_a_replaced_run_is_lifted_where_no_lane_does_it() {
    // Rule 7.
    let (world, driver) = replaced().await;
    let (mut run, _events) = driver.run(driver.journal.clone(), None);
    run.open.inherited.cordons = ours();
    assert_eq!(drive(run).await.unwrap(), End::Done, "{}", driver.trace());
    assert!(world.cluster().cordoned().is_empty(), "rule 7: {}", driver.trace());
    assert_eq!(world.acts_of("uncordon worker-1").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_crash_does_not_forget_an_inherited_cordon() {
    // Rule 7: only the first process was told of it.
    let (world, mut driver) = replaced().await;
    let (died, mut death) = mpsc::unbounded_channel();
    // The second entry is the one that tells of the cordon.
    let journal = Fragile { journal: driver.journal.clone(), dies_after: Some(2), died };
    let (mut run, _events) = driver.run(journal, None);
    run.open.inherited.cordons = ours();
    tokio::select! {
        biased;
        _ = death.recv() => {}
        _ = drive(run) => panic!("it ends before it was killed"),
    }
    let entries = driver.journal.entries();
    assert!(matches!(entries[1].record, Record::Inherited { .. }), "{}", driver.trace());
    assert_eq!(world.cluster().cordoned(), [&"worker-1".into()]);
    assert_eq!(driver.go().await.0, End::Done, "{}", driver.trace());
    assert!(world.cluster().cordoned().is_empty(), "rule 7: {}", driver.trace());
}

#[tokio::test(start_paused = true)]
async fn an_inherited_cordon_is_taken_over_once_however_often_it_is_inherited() {
    // Rule 7: an inherited cordon is not forgotten if the process dies before it records it.
    // One that was lifted is not lifted again when another user sets a cordon.
    let (world, driver) = replaced().await;
    let successor = |dies_after: Option<usize>| {
        let (died, death) = mpsc::unbounded_channel();
        let journal = Fragile { journal: driver.journal.clone(), dies_after, died };
        let (mut run, events) = driver.run(journal, None);
        run.open.inherited.cordons = ours();
        (run, events, death)
    };
    let began = Entry {
        at: "2026-11-15T00:00:00Z".parse().unwrap(),
        plan: driver.plan.hash(),
        runner: "the one that died".to_owned(),
        record: Record::Began,
    };
    driver.journal.clone().append(&began, &driver.state()).await.unwrap();
    // The next one lifts it, and dies then.
    let (run, _events, mut death) = successor(Some(4));
    tokio::select! {
        biased;
        _ = death.recv() => {}
        _ = drive(run) => panic!("it ends before it was killed"),
    }
    assert!(world.cluster().cordoned().is_empty(), "rule 7: {}", driver.trace());
    world.change(|cluster| cluster.sim(&"worker-1".into()).unschedulable = true);
    let (run, _events, _death) = successor(None);
    assert_eq!(drive(run).await.unwrap(), End::Done, "{}", driver.trace());
    assert_eq!(world.cluster().cordoned(), [&"worker-1".into()], "another user's cordon");
    assert_eq!(world.acts_of("uncordon worker-1").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_inherited_cordon_is_lifted_before_anything_else_begins_once_its_node_serves() {
    // Rules 1 and 7: the machine was away when the run began.
    let (world, driver) = replaced().await;
    let set = |up: bool| {
        world.change(|cluster| {
            let sim = cluster.sim(&"worker-1".into());
            (sim.answers, sim.ready, sim.node_ready) = (up, up, up);
        });
    };
    set(false);
    let (mut run, _events) = driver.run(driver.journal.clone(), None);
    run.open.inherited.cordons = ours();
    let returns = async {
        while world.acts_of("cordon cp-2").is_empty() {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
        set(true);
        std::future::pending::<()>().await;
    };
    let end = tokio::select! {
        end = drive(run) => end.unwrap(),
        () = returns => unreachable!("it never ends"),
    };
    assert_eq!(end, End::Done, "{}", driver.trace());
    assert!(world.cluster().cordoned().is_empty(), "rule 7: {}", driver.trace());
    let acts = world.cluster().acts.clone();
    let first = |act: &str| acts.iter().position(|it| it == act).unwrap_or_else(|| panic!("{act}"));
    assert!(first("uncordon worker-1") < first("cordon cp-3"), "{acts:?}");
}

#[tokio::test(start_paused = true)]
async fn an_inherited_cordon_that_cannot_be_lifted_is_waited_for_and_named() {
    // Rules 7 and 11.
    let (world, mut driver) = replaced().await;
    world.change(|cluster| {
        let sim = cluster.sim(&"worker-1".into());
        (sim.answers, sim.ready, sim.node_ready) = (false, false, false);
    });
    let (mut run, mut events) = driver.run(driver.journal.clone(), None);
    run.open.inherited.cordons = ours();
    let end = drive(run).await.unwrap();
    let left = WaitReason::CordonLeft { node: "worker-1".into() };
    let End::Halted { reason, cordoned, .. } = end else { panic!("{}", driver.trace()) };
    assert!(
        matches!(&reason, HaltReason::WaitedTooLong { waiting_for, .. } if *waiting_for == left),
        "{reason}"
    );
    assert_eq!(cordoned, [NodeName::from("worker-1")]);
    let mut reasons = Vec::new();
    while let Ok(event) = events.try_recv() {
        if let EventKind::Waiting { why, .. } = event.kind {
            reasons.push(why.to_string());
        }
    }
    let words = "worker-1 still has the cordon of an earlier run";
    assert!(reasons.iter().any(|why| why.starts_with(words)), "{reasons:?}");
    // The machine is back: the resumed run uncordons its node.
    world.change(|cluster| {
        let sim = cluster.sim(&"worker-1".into());
        (sim.answers, sim.ready, sim.node_ready) = (true, true, true);
    });
    assert_eq!(driver.resume(Some("eva")).await.unwrap().0, End::Done, "{}", driver.trace());
    assert!(world.cluster().cordoned().is_empty(), "rule 7: {}", driver.trace());
}

/// A journal at one of whose entries something stops answering, for a moment or for good.
struct Darkening {
    journal: MemoryJournal,
    world: Arc<World>,
    what: fn(&mut Cluster, dark: bool),
    at: fn(&Record) -> bool,
    back_after: Option<u64>,
}

fn everything(cluster: &mut Cluster, dark: bool) {
    cluster.dark = dark;
}

impl Journal for Darkening {
    async fn append(&mut self, entry: &Entry, state: &State) -> Result<(), JournalError> {
        self.journal.append(entry, state).await?;
        if (self.at)(&entry.record) {
            let (world, what) = (Arc::clone(&self.world), self.what);
            world.change(|cluster| what(cluster, true));
            if let Some(back_after) = self.back_after {
                tokio::spawn(async move {
                    seconds(back_after).await;
                    world.change(|cluster| what(cluster, false));
                });
            }
        }
        Ok(())
    }

    fn fence(&self) -> Arc<dyn Fence> {
        self.journal.fence()
    }
}

#[tokio::test(start_paused = true)]
async fn a_halt_without_answers_observes_again_before_it_leaves_a_cordon() {
    // Rule 7: the node boots back, and nothing answers when the run halts.
    let world = World::new(3, 2, "1.13.1");
    world.set_fault("worker-1", Some(Fault::BootsBack));
    let plan = planned(&world, "1.13.9", &policy(1)).await;
    let driver = Driver::new(&world, &plan);
    let journal = Darkening {
        journal: driver.journal.clone(),
        world: Arc::clone(&world),
        what: everything,
        at: |record| matches!(record, Record::Halted { .. }),
        back_after: Some(2),
    };
    let (run, _events) = driver.run(journal, None);
    let end = drive(run).await.unwrap();
    assert!(matches!(end, End::Halted { .. }), "{end:?}");
    assert!(world.cluster().cordoned().is_empty(), "rule 7: {}", driver.trace());
}

#[tokio::test(start_paused = true)]
async fn a_halt_asks_again_for_an_api_server_that_could_not_be_asked() {
    // Rule 7: a control plane boots back, and only its own API server does not
    // answer when the run halts.
    let world = World::new(3, 0, "1.13.1");
    world.set_fault("cp-2", Some(Fault::BootsBack));
    let plan = planned(&world, "1.13.9", &policy(1)).await;
    let driver = Driver::new(&world, &plan);
    let journal = Darkening {
        journal: driver.journal.clone(),
        world: Arc::clone(&world),
        what: |cluster, dark| cluster.sim(&"cp-2".into()).api = !dark,
        at: |record| matches!(record, Record::Halted { .. }),
        back_after: Some(2),
    };
    let (run, _events) = driver.run(journal, None);
    let end = drive(run).await.unwrap();
    assert!(matches!(&end, End::Halted { cordoned, .. } if cordoned.is_empty()), "{end:?}");
    assert!(world.cluster().cordoned().is_empty(), "rule 7: {}", driver.trace());
}

#[tokio::test(start_paused = true)]
async fn a_node_is_uncordoned_by_what_kubernetes_reports_while_a_control_plane_hangs() {
    // Rule 7: the machines cannot be listed any more, and the node serves as before.
    let world = World::new(3, 2, "1.13.1");
    world.cluster().budget_blocks = true;
    let plan = planned(&world, "1.13.9", &policy(1)).await;
    let driver = Driver::new(&world, &plan);
    let watched = Arc::clone(&world);
    tokio::spawn(async move {
        while watched.cluster().cordoned().is_empty() {
            seconds(1).await;
        }
        watched.change(|cluster| cluster.unlisted = true);
    });
    let (run, _events) = driver.run(driver.journal.clone(), None);
    let end = drive(run).await.unwrap();
    assert!(matches!(end, End::Halted { .. }), "{end:?}");
    assert!(world.cluster().cordoned().is_empty(), "rule 7: {}", driver.trace());
}

#[tokio::test(start_paused = true)]
async fn a_failed_uncordon_is_retried_by_a_later_process() {
    // Rule 7: nothing answers from the uncordon on, and the run halts because of it.
    let world = World::new(3, 2, "1.13.1");
    let mut policy = policy(1);
    policy.retries.attempts = 1;
    let plan = planned(&world, "1.13.9", &policy).await;
    let mut driver = Driver::new(&world, &plan);
    let journal = Darkening {
        journal: driver.journal.clone(),
        world: Arc::clone(&world),
        what: everything,
        at: |record| matches!(record, Record::Started { step, .. } if step.to_string() == "1/worker-1/uncordon"),
        back_after: None,
    };
    let (run, _events) = driver.run(journal, None);
    let end = drive(run).await.unwrap();
    let End::Halted { cordoned, .. } = end else { panic!("{}", driver.trace()) };
    assert_eq!(cordoned, [NodeName::from("worker-1")]);
    world.change(|cluster| cluster.dark = false);
    seconds(120).await;
    // Another process starts, and no user has resumed the run: it stays halted, and
    // the node is uncordoned.
    let (end, _) = driver.go().await;
    assert!(matches!(&end, End::Halted { cordoned, .. } if cordoned.is_empty()), "{end:?}");
    assert!(world.cluster().cordoned().is_empty(), "rule 7: {}", driver.trace());
}

#[tokio::test(start_paused = true)]
async fn leadership_that_came_back_is_given_away_again_before_the_reboot() {
    // Rule 1: the referee of this world panics if a leader boots.
    for (from, to) in [("1.12.1", "1.12.11"), ("1.13.1", "1.13.9")] {
        let world = World::new(3, 0, from);
        world.set_fault("cp-2", Some(Fault::LeadsAgain));
        let plan = planned(&world, to, &policy(1)).await;
        let mut driver = Driver::new(&world, &plan);
        assert_eq!(driver.go().await.0, End::Done, "{}", driver.trace());
        driver.assert_upgraded(to);
        assert!(!world.acts_of("forfeit cp-2").is_empty(), "rule 1: {}", driver.trace());
    }
}

/// A run that was killed when its journal said that this step had begun.
async fn killed_in(step: &str) -> Driver {
    let step: StepId = step.parse().unwrap();
    for entries in 1..100 {
        let world = World::new(1, 2, "1.13.1");
        let plan = planned(&world, "1.13.9", &policy(1)).await;
        let mut driver = Driver::new(&world, &plan);
        assert_eq!(driver.go_until(entries, SignedDuration::ZERO).await, None);
        if driver.state().step(&step).is_some_and(|it| matches!(it.phase, Phase::Running { .. })) {
            return driver;
        }
    }
    panic!("{step} never begins");
}

#[tokio::test(start_paused = true)]
async fn a_cordon_that_replaces_ours_while_no_process_runs_stays() {
    // Rule 7: killed before or after its act, and another user cordons the node meanwhile.
    for step in ["1/worker-1/cordon", "1/worker-1/uncordon"] {
        let mut driver = killed_in(step).await;
        driver.world.change(|cluster| {
            let sim = cluster.sim(&"worker-1".into());
            (sim.unschedulable, sim.marked) = (true, false);
        });
        let (end, _) = driver.go().await;
        assert_eq!(end, End::Done, "{step}: {}", driver.trace());
        let left = driver.world.cluster().cordoned().into_iter().cloned().collect::<Vec<_>>();
        assert_eq!(left, [NodeName::from("worker-1")], "rule 7: {step}: {}", driver.trace());
    }
}
