//! What every object shows: states, conditions and progress.

use spec_api::state::MachineState;

use super::*;
use crate::test_objects::owned;

/// The conditions of an object as text: type, status and reason.
fn texts(conditions: &[ShownCondition]) -> Vec<(ConditionType, Option<bool>, Reason)> {
    conditions.iter().map(|it| (it.kind, it.holds, it.reason)).collect()
}

/// `Ready`, `Reconciling` and `Stalled` of the control plane.
fn kstatus(case: &Case) -> (Reason, [Option<bool>; 3]) {
    let (update, _) = case.shown();
    let conditions = &update.control_plane.conditions;
    let kinds = [ConditionType::Ready, ConditionType::Reconciling, ConditionType::Stalled];
    (reason(&update), kinds.map(|kind| condition(conditions, kind).holds))
}

#[test]
fn every_reason_is_one_of_ready_under_way_stuck_or_paused() {
    let ready = [Some(true), None, None];
    let under_way = [Some(false), Some(true), None];
    let stuck = [Some(false), None, Some(true)];
    let paused = [Some(false), None, None];
    let mut unsupported = Case::new();
    unsupported.hub.control_planes[0].spec.mode = "container".to_owned();
    let mut away = Case::new();
    away.observed = Some(Err("no answer"));
    let mut absent = Case::new();
    absent.observed.as_mut().expect("observed").as_mut().expect("observed").nodes.clear();
    let mut adopted = Case::talos();
    adopted.hub.control_planes[0].status.as_mut().expect("a status").observed_generation = None;
    adopted.hub.workers[0].spec.version = None;
    for (case, expected, conditions) in [
        (Case::new(), Reason::Reconciled, ready),
        (Case::talos(), Reason::Waiting, under_way),
        (Case::talos().run(Product::Talos, RunPhase::Running), Reason::Upgrading, under_way),
        (away, Reason::Unreachable, under_way),
        (Case::new().versions("v1.99.0", "v1.35.0"), Reason::Refused, stuck),
        (Case::talos().run(Product::Talos, RunPhase::Halted), Reason::Failed, stuck),
        (unsupported, Reason::UnsupportedMode, stuck),
        (absent, Reason::NotProvisioned, stuck),
        (adopted, Reason::Adopted, stuck),
        (Case::talos().annotate(annotation::PAUSE, "true"), Reason::Paused, paused),
    ] {
        assert_eq!(kstatus(&case), (expected, conditions));
    }
}

#[test]
fn a_run_is_shown_on_every_object_that_it_changes() {
    let mut case = Case::talos().run(Product::Talos, RunPhase::Running);
    let owner = ("prod", "TalosControlPlane");
    case.hub.machines.extend(
        ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|address| owned(owner.0, owner.1, address)),
    );
    case.hub.machines.push(owned("blue", "TalosWorker", "10.0.0.11"));
    let now = case.observed.as_mut().expect("observed").as_mut().expect("observed");
    now.nodes.get_mut(&"cp-1".into()).expect("a node").talos = version("1.13.9");
    let (update, _) = case.shown();
    let own = &update.control_plane;
    assert_eq!((own.state, own.progress.as_str()), (State::Upgrading, "1/5"));
    assert_eq!(own.run.as_deref(), Some("prod-1"));
    assert_eq!(own.talos, Some(version("1.13.8")), "the lowest that was observed, not the spec's");
    assert_eq!(condition(&own.conditions, ConditionType::Progressing).holds, Some(true));
    let pool = &update.workers["blue"];
    assert_eq!((pool.state, pool.progress.as_str()), (WorkerState::Upgrading, "0/2"));
    let of = |name: &str| {
        let machine = &update.machines[name];
        let reason = condition(&machine.conditions, ConditionType::Ready).reason;
        (machine.state, reason, machine.talos.as_ref().map(ToString::to_string))
    };
    let text = |text: &str| Some(text.to_owned());
    let available = MachineState::Available;
    assert_eq!(of("prod-10.0.0.1"), (available, Reason::Reconciled, text("1.13.9")));
    assert_eq!(of("prod-10.0.0.2"), (MachineState::Upgrading, Reason::Upgrading, text("1.13.8")));
    assert_eq!(update.machines["prod-10.0.0.2"].progress, "drain");
    assert_eq!(of("prod-10.0.0.3"), (available, Reason::Waiting, text("1.13.8")));
    assert_eq!(of("blue-10.0.0.11"), (available, Reason::Waiting, text("1.13.8")));
}

#[test]
fn a_run_of_workers_leaves_the_control_plane_ready() {
    let mut case = Case::talos().run(Product::Talos, RunPhase::Running);
    let run = case.run.as_mut().expect("a run");
    run.nodes.retain(|name, _| name.0.starts_with("blue"));
    let (update, _) = case.shown();
    assert_eq!(update.control_plane.state, State::Ready);
    assert_eq!(reason(&update), Reason::Upgrading, "which `kubectl wait` sees");
    assert_eq!(update.workers["blue"].state, WorkerState::Upgrading);
}

#[test]
fn a_machine_that_failed_is_named() {
    // Rule 5.
    let mut case = Case::talos().run(Product::Talos, RunPhase::Halted);
    case.hub.machines.push(owned("prod", "TalosControlPlane", "10.0.0.2"));
    let failed = NodeStage::Failed { why: "it came back on 1.13.8".to_owned() };
    case.run.as_mut().expect("a run").nodes.insert("cp-2".into(), failed);
    let (update, _) = case.shown();
    let machine = &update.machines["prod-10.0.0.2"];
    assert_eq!(machine.state, MachineState::Failed);
    assert!(machine.message.contains("it came back on 1.13.8"), "{}", machine.message);
    assert_eq!(condition(&machine.conditions, ConditionType::Stalled).holds, Some(true));
    assert!(update.control_plane.message.contains(keys::RETRY));
}

#[test]
fn a_held_pool_and_a_machine_that_is_to_join_are_shown() {
    let mut case = Case::talos();
    case.hub.hold_worker(0);
    case.hub.machines.push(owned("blue", "TalosWorker", "10.0.0.12"));
    let (update, next) = case.shown();
    assert!(matches!(next, NextAction::Begin(_)), "the control planes go on");
    let pool = condition(&update.workers["blue"].conditions, ConditionType::Ready);
    assert_eq!((pool.reason, pool.holds), (Reason::Paused, Some(false)));
    assert_eq!(update.machines["blue-10.0.0.12"].state, MachineState::Available);
    let now = case.observed.as_mut().expect("observed").as_mut().expect("observed");
    now.nodes.remove(&"blue-2".into());
    let (update, _) = case.shown();
    assert_eq!(update.machines["blue-10.0.0.12"].state, MachineState::Pending);
}

#[test]
fn everything_names_the_generation_that_it_is_about() {
    let mut case = Case::talos();
    case.hub.control_planes[0].metadata.generation = Some(7);
    case.hub.workers[0].metadata.generation = Some(3);
    let (update, _) = case.shown();
    assert_eq!(update.control_plane.generation, Some(7));
    assert_eq!(update.workers["blue"].generation, Some(3));
}

#[test]
fn exactly_one_outcome_of_kubernetes_is_true() {
    let with = |phase, job: Job| Case::new().run(Product::Kubernetes, phase).job(job);
    for (case, expected) in [
        (with(RunPhase::Running, Job::Running), ConditionType::KubernetesUpgradeInProgress),
        (with(RunPhase::Completed, Job::Absent), ConditionType::KubernetesUpgradeSucceeded),
        (with(RunPhase::Halted, Job::Absent), ConditionType::KubernetesUpgradeFailed),
        (with(RunPhase::Cancelled, Job::Absent), ConditionType::KubernetesUpgradeFailed),
    ] {
        let (update, _) = case.shown();
        let outcomes: Vec<_> = texts(&update.control_plane.conditions)
            .into_iter()
            .filter(|(kind, ..)| kind.as_str().starts_with("KubernetesUpgrade"))
            .collect();
        assert_eq!(outcomes.len(), 3);
        for (kind, holds, _) in outcomes {
            assert_eq!(holds, Some(kind == expected), "{kind}");
        }
    }
    let (update, _) = Case::new().shown();
    let mut kinds = update.control_plane.conditions.iter().map(|it| it.kind.as_str());
    assert!(kinds.all(|kind| !kind.starts_with("KubernetesUpgrade")), "there was no upgrade");
}
