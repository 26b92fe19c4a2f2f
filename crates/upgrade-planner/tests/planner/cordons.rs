//! Whose a cordon is, and what one that is still ours holds back (rule 7).

use upgrade_core::amount::Amount;
use upgrade_core::jiff::SignedDuration;
use upgrade_core::journal::{Entry, Outcome, Record, State};
use upgrade_core::policy::{Order, Policy};
use upgrade_core::reason::{Failure, FailureKind, HaltReason, WaitReason};
use upgrade_core::snapshot::{Fact, NodeName, Snapshot, Unmatched};
use upgrade_core::step::StepId;
use upgrade_planner::decide::{Decision, Lift, Tried, decide};

use crate::common::world::{End, Trouble, World};
use crate::common::{cluster, intent, kubernetes, plan_for, report_text, talos, version};

fn world(snapshot: Snapshot, policy: &Policy) -> World {
    let planned = plan_for(&snapshot, &intent(Some("1.13.9"), None), policy);
    let plan = planned.unwrap_or_else(|report| panic!("{}", report_text(&report))).plan;
    World::new(snapshot, plan)
}

fn policy() -> Policy {
    let mut policy = Policy { order: Order::WorkersFirst, ..Policy::default() };
    policy.workers.max_unavailable = Amount::Count(2);
    policy
}

#[test]
fn a_cordon_that_was_there_stays() {
    let mut snapshot = cluster(3, 3, "1.13.1", "1.33.4");
    kubernetes(&mut snapshot, "worker-2").unschedulable = true;
    let mut world = world(snapshot, &policy());
    assert_eq!(world.run(), End::Done, "{}", world.trace());
    assert_eq!(world.cordoned(), [&"worker-2".into()]);
}

#[test]
fn a_cordon_of_an_earlier_run_holds_others_back() {
    // Rules 1 and 7: it cannot be lifted in this world. Where its node serves it has to go
    // first, and a control plane is waited for; for a worker that is down the run waits only
    // at its end.
    for (node, serves, holds) in [
        ("cp-3", true, true),
        ("cp-3", false, true),
        ("worker-3", true, true),
        ("worker-3", false, false),
    ] {
        // An earlier run upgraded it: it has no lane of its own any more.
        let mut snapshot = cluster(3, 3, "1.13.1", "1.33.4");
        talos(&mut snapshot, node).version = version("1.13.9");
        let mut world = world(snapshot, &policy());
        kubernetes(&mut world.truth, node).ready = serves;
        world.write(Record::Began);
        world.write(Record::Inherited { cordons: [node.into()].into(), armed: [].into() });
        let end = world.run();
        let left = WaitReason::CordonLeft { node: node.into() };
        let waited = matches!(&end, End::Halted(HaltReason::WaitedTooLong { waiting_for, .. })
            if *waiting_for == left);
        let case = format!("{node}, serves: {serves}\n{}", world.trace());
        assert!(waited, "{end:?}: {case}");
        assert_eq!(world.reboots.is_empty(), holds, "{case}");
    }
}

#[test]
fn a_run_is_not_done_while_a_node_without_a_machine_may_have_a_cordon() {
    // Rules 7 and 10: its machine is booting, and nothing is known of it at the moment.
    let mut snapshot = cluster(3, 3, "1.13.1", "1.33.4");
    talos(&mut snapshot, "worker-3").version = version("1.13.9");
    let mut world = world(snapshot, &policy());
    kubernetes(&mut world.truth, "worker-3").ready = false;
    world.write(Record::Began);
    world.write(Record::Inherited { cordons: ["worker-3".into()].into(), armed: [].into() });
    assert!(matches!(world.run(), End::Halted(_)), "{}", world.trace());
    let halts = |entry: &Entry| matches!(entry.record, Record::Halted { .. });
    let halt = world.entries.iter().position(halts).expect("it halted");
    let state = State::fold(&world.plan, &world.entries[..halt]).unwrap();
    for (unmatched, foreign) in [(true, false), (true, true), (false, false)] {
        let mut snapshot = world.truth.clone();
        snapshot.nodes.remove(&NodeName::from("worker-3"));
        if unmatched {
            snapshot.unmatched.insert("worker-3".into(), Unmatched::because("no answer"));
        }
        let mut plan = world.plan.clone();
        plan.policy.foreign_nodes.extend(foreign.then(|| "worker-3".into()));
        let decision = decide(&plan, &state, &Tried::default(), &snapshot, world.now);
        let done = matches!(decision, Decision::Done);
        assert_eq!(done, !unmatched || foreign, "{decision:?}");
    }
}

#[test]
fn a_run_that_halts_lifts_its_cordon_later_if_it_could_not_at_once() {
    let mut policy = policy();
    policy.retries.attempts = 1;
    let mut world = world(cluster(3, 2, "1.13.1", "1.33.4"), &policy);
    let trouble = Trouble::Fails(FailureKind::Unavailable, 9);
    world.trouble.insert("1/worker-1/uncordon".to_owned(), trouble);
    assert!(matches!(world.run(), End::Halted(_)), "{}", world.trace());
    let lifts = |snapshot: &Snapshot, later: SignedDuration| match decide(
        &world.plan,
        &world.state,
        &Tried::default(),
        snapshot,
        world.now + later,
    ) {
        Decision::Halt { finish, cordoned, .. } => {
            assert_eq!(cordoned, [NodeName::from("worker-1")]);
            finish.iter().map(|start| start.step.to_string()).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    let (soon, later) = (SignedDuration::from_secs(30), SignedDuration::from_secs(90));
    let mut snapshot = world.truth.clone();
    snapshot.taken_at = world.now + SignedDuration::from_secs(1);
    assert!(lifts(&snapshot, soon).is_empty(), "not at once");
    assert_eq!(lifts(&snapshot, later), ["1/worker-1/uncordon"]);
    // Only the answer was lost: an observation shows it, and it is recorded at once.
    kubernetes(&mut snapshot, "worker-1").unschedulable = false;
    assert_eq!(lifts(&snapshot, soon), ["1/worker-1/uncordon"]);
    snapshot.taken_at = world.now - SignedDuration::from_secs(10);
    assert!(lifts(&snapshot, soon).is_empty(), "an older observation proves nothing");
    // Without an answer the request is not repeated for ever (rule 11).
    let uncordon: StepId = "1/worker-1/uncordon".parse().unwrap();
    for attempt in 2..=5 {
        world.write(Record::Started { step: uncordon.clone(), attempt, evidence: None });
        let failure = Failure::new(FailureKind::Unavailable, "no answer");
        let outcome = Outcome::Failed { failure };
        world.write(Record::Finished { step: uncordon.clone(), attempt, outcome });
    }
    snapshot.taken_at = world.now + SignedDuration::from_secs(1);
    let decision =
        decide(&world.plan, &world.state, &Tried::default(), &snapshot, world.now + soon);
    assert!(matches!(decision, Decision::Halt { finish, .. } if finish.is_empty()));
}

#[test]
fn cordons_of_an_earlier_run_are_lifted_where_their_nodes_serve_once_for_each_observation() {
    // Rule 7.
    let mut world = world(cluster(3, 3, "1.13.1", "1.33.4"), &policy());
    let nodes = ["worker-1", "worker-2", "worker-3"];
    world.write(Record::Began);
    world.write(Record::Inherited { cordons: nodes.map(NodeName::from).into(), armed: [].into() });
    for node in &nodes[..2] {
        let facts = kubernetes(&mut world.truth, node);
        (facts.unschedulable, facts.marked) = (true, true);
    }
    kubernetes(&mut world.truth, "worker-1").ready = false;
    let mut snapshot = world.truth.clone();
    snapshot.taken_at = world.now + SignedDuration::from_secs(1);
    let decided = |world: &World, snapshot: &Snapshot| {
        decide(&world.plan, &world.state, &world.tried, snapshot, snapshot.taken_at)
    };
    let lift = |node: &str, is_gone| Lift { node: node.into(), is_gone };
    let both = vec![lift("worker-2", false), lift("worker-3", true)];
    assert_eq!(decided(&world, &snapshot), Decision::Lift(both.clone()));
    world.tried.lifted_on = Some(snapshot.taken_at);
    assert!(!matches!(decided(&world, &snapshot), Decision::Lift(_)), "it was tried on this one");
    snapshot.taken_at += SignedDuration::from_secs(1);
    assert_eq!(decided(&world, &snapshot), Decision::Lift(both));
    // A pause does not keep a node out of service.
    world.write(Record::Paused { by: "a test".to_owned() });
    assert!(matches!(decided(&world, &snapshot), Decision::Lift(_)));
}

#[test]
fn a_run_that_halts_observes_again_for_a_cordoned_node_that_it_did_not_see() {
    // Rules 7 and 11.
    let mut policy = policy();
    policy.retries.attempts = 1;
    let mut world = world(cluster(3, 2, "1.13.1", "1.33.4"), &policy);
    let trouble = Trouble::Fails(FailureKind::Unavailable, 9);
    world.trouble.insert("1/worker-1/uncordon".to_owned(), trouble);
    assert!(matches!(world.run(), End::Halted(_)), "{}", world.trace());
    let mut snapshot = world.truth.clone();
    let at = |snapshot: &Snapshot, later| {
        let now = world.now + SignedDuration::from_secs(later);
        match decide(&world.plan, &world.state, &Tried::default(), snapshot, now) {
            Decision::Halt { observe_until, .. } => observe_until,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(at(&snapshot, 1), None, "it is seen");
    snapshot.nodes.get_mut(&NodeName::from("worker-1")).unwrap().kubernetes =
        Fact::Unknown("no answer".to_owned());
    assert_eq!(at(&snapshot, 1), Some(world.now + SignedDuration::from_mins(2)));
    assert_eq!(at(&snapshot, 121), None, "not without end");
    // The time begins with the halt, even if nothing was written for long before it.
    let halts = |entry: &Entry| matches!(entry.record, Record::Halted { .. });
    let halt = world.entries.iter().position(halts).expect("it halted");
    let state = State::fold(&world.plan, &world.entries[..halt]).unwrap();
    let now = world.now + SignedDuration::from_mins(10);
    match decide(&world.plan, &state, &Tried::default(), &snapshot, now) {
        Decision::Halt { observe_until, .. } => {
            assert_eq!(observe_until, Some(now + SignedDuration::from_mins(2)));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_run_that_halts_uncordons_a_node_whose_machine_is_not_known() {
    // Rule 7: its machine does not answer, Kubernetes calls it Ready, and we did not boot it.
    let mut policy = policy();
    policy.retries.attempts = 1;
    let mut world = world(cluster(3, 2, "1.13.1", "1.33.4"), &policy);
    world.trouble.insert("1/worker-1/drain".to_owned(), Trouble::Fails(FailureKind::Drain, 9));
    let uncordon = Trouble::Fails(FailureKind::Unavailable, 9);
    world.trouble.insert("1/worker-1/uncordon".to_owned(), uncordon);
    assert!(matches!(world.run(), End::Halted(_)), "{}", world.trace());
    for (ready, booted) in [(true, false), (false, false), (true, true)] {
        if booted {
            let step: StepId = "1/worker-1/reboot".parse().unwrap();
            world.write(Record::Started { step: step.clone(), attempt: 1, evidence: None });
            let failure = Failure::new(FailureKind::Refused, "it did not boot");
            let outcome = Outcome::Failed { failure };
            world.write(Record::Finished { step, attempt: 1, outcome });
        }
        let mut snapshot = world.truth.clone();
        let node = snapshot.nodes.remove(&NodeName::from("worker-1")).unwrap();
        let mut kubernetes = node.kubernetes.known().cloned();
        kubernetes.as_mut().unwrap().ready = ready;
        let unmatched = Unmatched { why: "no answer".to_owned(), kubernetes };
        snapshot.unmatched.insert("worker-1".into(), unmatched);
        snapshot.taken_at = world.now + SignedDuration::from_secs(90);
        let now = snapshot.taken_at;
        let Decision::Halt { finish, observe_until, .. } =
            decide(&world.plan, &world.state, &Tried::default(), &snapshot, now)
        else {
            panic!("{}", world.trace());
        };
        assert_eq!(finish.len(), usize::from(ready && !booted), "ready: {ready}, booted: {booted}");
        assert_eq!(observe_until.is_some(), finish.is_empty(), "it may be seen in a moment");
    }
}
