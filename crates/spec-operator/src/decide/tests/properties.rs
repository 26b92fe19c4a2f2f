//! What holds for every history: states move only in legal ways, and conditions never contradict
//! each other.

use std::collections::BTreeSet;

use proptest::prelude::*;
use spec_api::state::MachineState;

use super::*;
use crate::test_objects::owned;

/// One moment in the life of a unit.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each varies on its own")]
struct Moment {
    observed: Option<Result<(&'static str, &'static str), ()>>,
    absent: bool,
    run: Option<(Product, RunPhase)>,
    job: Job,
    mode: &'static str,
    paused: bool,
    talos: &'static str,
    kubernetes: &'static str,
    settled: bool,
    inline: bool,
}

fn moment() -> impl Strategy<Value = Moment> {
    let versions = || {
        (
            prop::sample::select(vec!["1.13.8", "1.13.9"]),
            prop::sample::select(vec!["1.34.0", "1.35.0"]),
        )
    };
    let observed = prop_oneof![
        1 => Just(None),
        1 => Just(Some(Err(()))),
        3 => versions().prop_map(|both| Some(Ok(both))),
    ];
    let product = prop::sample::select(Product::ALL.to_vec());
    let run = prop::option::of((product, prop::sample::select(RunPhase::ALL.to_vec())));
    let job = prop::sample::select(vec![
        Job::Absent,
        Job::NotStarted { why: None, overdue: false },
        Job::NotStarted { why: None, overdue: true },
        Job::Running,
        Job::Ended,
        Job::Foreign { ended: false },
        Job::Foreign { ended: true },
    ]);
    let mode = prop::sample::select(vec!["reconcile", "reconcile", "disable", "dryrun", "import"]);
    let wanted = (
        prop::sample::select(vec!["v1.13.8", "v1.13.9", "v1.99.0", "latest"]),
        prop::sample::select(vec!["v1.34.0", "v1.35.0"]),
    );
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), prop::bool::weighted(0.2));
    (observed, run, job, mode, wanted, flags).prop_map(
        |(observed, run, job, mode, (talos, kubernetes), (paused, settled, inline, absent))| {
            Moment { observed, absent, run, job, mode, paused, talos, kubernetes, settled, inline }
        },
    )
}

/// The case of a moment; statuses are those of before.
fn case(hub: &Hub, moment: &Moment) -> Case {
    let mut case = Case { hub: hub.clone(), ..Case::new() };
    case = case.versions(moment.talos, moment.kubernetes);
    case.observed = moment.observed.map(|observed| {
        let (talos, kubernetes) = observed.map_err(|()| "no answer")?;
        let mut observed = super::observed(talos, kubernetes);
        if moment.absent {
            observed.nodes.clear();
        }
        Ok(observed)
    });
    case = case.annotate(spec_api::RECONCILE_MODE, moment.mode);
    case = case.annotate(annotation::PAUSE, if moment.paused { "true" } else { "false" });
    case.job = moment.job.clone();
    case.settled = moment.settled;
    case.process = Process::Operator { inline: moment.inline };
    match moment.run {
        Some((product, phase)) => case.run(product, phase),
        None => case,
    }
}

/// What the objects show afterwards.
fn apply(hub: &mut Hub, update: &Update) {
    let own = hub.control_planes[0].status.get_or_insert_default();
    own.state = update.control_plane.state.to_string();
    own.observed_generation = update.control_plane.generation;
    for worker in &mut hub.workers {
        let shown = &update.workers[worker.metadata.name.as_deref().expect("a name")];
        let status = worker.status.get_or_insert_default();
        status.state = shown.state.to_string();
        status.observed_generation = shown.generation;
    }
    for machine in &mut hub.machines {
        let shown = &update.machines[machine.metadata.name.as_deref().expect("a name")];
        let status = machine.status.get_or_insert_default();
        status.state = shown.state.to_string();
        status.observed_generation = shown.generation;
    }
}

/// Whether a control plane may go from one state to another: never back to its beginning.
fn is_legal(from: Option<State>, to: State) -> bool {
    match (from, to) {
        (None | Some(State::Pending | State::Bootstrapped), _) => true,
        (Some(_), State::Pending | State::Bootstrapped) => false,
        (Some(_), _) => true,
    }
}

fn conditions_agree(conditions: &[ShownCondition]) {
    let kinds: BTreeSet<_> = conditions.iter().map(|it| it.kind).collect();
    assert_eq!(kinds.len(), conditions.len(), "each type once");
    let holds = |kind| condition(conditions, kind).holds == Some(true);
    let ready = condition(conditions, ConditionType::Ready);
    assert_eq!(ready.holds, Some(ready.reason == Reason::Reconciled));
    let (reconciling, stalled) = (holds(ConditionType::Reconciling), holds(ConditionType::Stalled));
    assert!(!(reconciling && stalled));
    assert!(!holds(ConditionType::Ready) || !reconciling && !stalled);
    assert!(conditions.iter().all(|it| it.holds != Some(true) || !it.message.is_empty()));
    let outcomes = conditions.iter().filter(|it| it.kind.as_str().starts_with("KubernetesUpgrade"));
    let outcomes: Vec<_> = outcomes.map(|it| it.holds == Some(true)).collect();
    if !outcomes.is_empty() {
        assert_eq!(outcomes.iter().filter(|holds| **holds).count(), 1);
    }
}

proptest! {
    #[test]
    fn states_move_in_legal_ways(moments in prop::collection::vec(moment(), 1..12)) {
        let mut hub = Hub::usual();
        hub.machines.push(owned("prod", "TalosControlPlane", "10.0.0.2"));
        for moment in moments {
            let case = case(&hub, &moment);
            let decision = case.decide();
            let Some(update) = decision.update else { continue };
            let before = hub.control_planes[0].status.as_ref();
            let before = before.and_then(|status| State::parse(&status.state));
            prop_assert!(is_legal(before, update.control_plane.state));
            let pool = hub.workers[0].status.as_ref();
            if pool.is_some_and(|status| status.state != WorkerState::Pending.as_str()) {
                prop_assert_ne!(update.workers["blue"].state, WorkerState::Pending);
            }
            for shown in update.machines.values() {
                prop_assert_ne!(shown.state, MachineState::Orphaned);
                conditions_agree(&shown.conditions);
            }
            conditions_agree(&update.control_plane.conditions);
            for shown in update.workers.values() {
                conditions_agree(&shown.conditions);
            }
            apply(&mut hub, &update);
        }
    }

    /// Rules 9 and 12: what is begun is of one product, and never beside a run under way, a Job,
    /// a pause or a mode that forbids it.
    #[test]
    fn a_run_begins_only_where_nothing_stands_against_it(moment in moment()) {
        let hub = served();
        let case = case(&hub, &moment);
        let NextAction::Begin(begin) = case.decide().next else { return Ok(()) };
        prop_assert!(case.run.as_ref().is_none_or(|run| !run.is_active()));
        prop_assert_eq!(&case.job, &Job::Absent);
        prop_assert!(!moment.paused && moment.settled && !moment.absent);
        prop_assert!(!matches!(moment.mode, "disable" | "dryrun"));
        prop_assert!(matches!(moment.observed, Some(Ok(_))));
        let intent = &begin.start.intent;
        let talos = intent.talos.is_some() || intent.nodes.values().any(|it| it.talos.is_some());
        prop_assert_ne!(talos, intent.kubernetes.is_some());
        prop_assert_eq!(talos, begin.product == Product::Talos);
    }
}
