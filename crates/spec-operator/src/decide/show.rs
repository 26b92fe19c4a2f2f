//! What the objects show: state, progress, versions as they were observed, and conditions.
//!
//! `Ready` is true only where everything is as wanted; `Reconciling` and `Stalled` are there only
//! while they are true, as kstatus expects. Every condition and the status have the generation
//! that was decided on, so that an old `Ready` is no answer to a new spec.

use std::collections::BTreeMap;

use spec_api::ReconcileMode;
use spec_api::condition::{ConditionType, Reason};
use spec_api::state::{ControlPlaneState, MachineState, WorkerState};
use upgrade_api::run::RunPhase;
use upgrade_core::product::Product;
use upgrade_core::version::Version;

use super::conditions::{Outcome, ShownCondition, kstatus, outcomes, progressing};
use super::facts::{NodeStage, Run};
use super::view::{Object, View};
use crate::adoption::Record;
use crate::unit::{Kind, Place};

/// What one object shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown<S> {
    /// Its state.
    pub state: S,
    /// The same in a sentence.
    pub message: String,
    /// How far its run is; empty if none is under way.
    pub progress: String,
    /// Its newest run; `None` leaves what is shown.
    pub run: Option<String>,
    /// The lowest Talos that was observed; `None` leaves what is shown.
    pub talos: Option<Version>,
    /// The lowest Kubernetes that was observed, of a control plane; `None` leaves what is shown.
    pub kubernetes: Option<Version>,
    /// The generation that all this is about.
    pub generation: Option<i64>,
    /// The conditions that change; others stay.
    pub conditions: Vec<ShownCondition>,
}

/// What all objects of a unit show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The control plane.
    pub control_plane: Shown<ControlPlaneState>,
    /// The pools, by name.
    pub workers: BTreeMap<String, Shown<WorkerState>>,
    /// The `TalosMachine` objects, by name.
    pub machines: BTreeMap<String, Shown<MachineState>>,
    /// What adoption records on each object. Written before the statuses.
    pub records: BTreeMap<Object, Record>,
}

/// What is going on with a unit.
#[derive(Clone, Debug)]
pub(super) struct Situation<'a> {
    reason: Reason,
    message: String,
    /// The run that is under way, paused or judged.
    run: Option<&'a Run>,
    kubernetes: Option<Outcome>,
}

impl<'a> Situation<'a> {
    pub(super) const fn new(reason: Reason, message: String) -> Self {
        Self { reason, message, run: None, kubernetes: None }
    }

    pub(super) fn upgrading(run: &'a Run, message: String) -> Self {
        let kubernetes = (run.product == Product::Kubernetes).then_some(Outcome::InProgress);
        Self { reason: Reason::Upgrading, message, run: Some(run), kubernetes }
    }

    pub(super) fn paused(run: &'a Run, by: &str) -> Self {
        let Run { product, to, .. } = run;
        let message =
            format!("The {product} upgrade to {to} is paused by {by} ({})", run.progress());
        Self { reason: Reason::Paused, ..Self::upgrading(run, message) }
    }

    pub(super) fn failed(run: &Run, message: String) -> Self {
        let kubernetes = (run.product == Product::Kubernetes).then_some(Outcome::Failed);
        Self { reason: Reason::Failed, message, run: None, kubernetes }
    }

    pub(super) fn kubernetes(self, outcome: Outcome) -> Self {
        Self { kubernetes: Some(outcome), ..self }
    }
}

/// What every object shows in a situation.
pub(super) fn update(view: &View<'_>, situation: &Situation<'_>) -> Update {
    let objects = view.facts.objects;
    let workers = objects.workers.iter().map(|worker| {
        let name = worker.metadata.name.clone().unwrap_or_default();
        let generation = worker.metadata.generation;
        let before = worker.status.as_ref().map_or("", |status| status.state.as_str());
        let shown = pool(view, situation, &name, before, generation);
        (name, shown)
    });
    let records = view.adoptions.iter();
    Update {
        control_plane: control_plane(view, situation),
        workers: workers.collect(),
        machines: machines(view, situation),
        records: records.map(|(object, it)| (object.clone(), it.record.clone())).collect(),
    }
}

fn control_plane(view: &View<'_>, situation: &Situation<'_>) -> Shown<ControlPlaneState> {
    let Situation { reason, message, run, kubernetes } = situation;
    let object = view.facts.objects.control_plane;
    let mut conditions = kstatus(*reason, message);
    conditions.push(progressing(*run, message));
    let outcome = kubernetes.map(|outcome| (outcome, message.clone())).or_else(|| past(view));
    conditions.extend(outcome.iter().flat_map(|(outcome, text)| outcomes(*outcome, text)));
    if *reason == Reason::Deleting {
        conditions.push(ShownCondition {
            kind: ConditionType::Deleting,
            holds: Some(true),
            reason: Reason::Deleting,
            message: message.clone(),
        });
    }
    let observed = view.observed();
    Shown {
        state: control_plane_state(view, situation),
        message: message.clone(),
        progress: run.map(Run::progress).unwrap_or_default(),
        run: view.facts.run.map(|run| run.name.clone()),
        talos: lowest(view, None),
        kubernetes: observed.map(|observed| observed.kubernetes.lowest.clone()),
        generation: object.metadata.generation,
        conditions,
    }
}

/// What came of the newest run, if it was one of Kubernetes and is over.
fn past(view: &View<'_>) -> Option<(Outcome, String)> {
    let run = view.facts.run.filter(|run| run.product == Product::Kubernetes)?;
    let to = &run.to;
    match run.phase {
        RunPhase::Completed => {
            Some((Outcome::Succeeded, format!("Kubernetes was upgraded to {to}")))
        }
        RunPhase::Cancelled => {
            Some((Outcome::Failed, format!("The upgrade of Kubernetes to {to} was stopped")))
        }
        RunPhase::Halted => Some((Outcome::Failed, run.message.clone())),
        RunPhase::Pending | RunPhase::Running | RunPhase::Paused => None,
    }
}

fn control_plane_state(view: &View<'_>, situation: &Situation<'_>) -> ControlPlaneState {
    use ControlPlaneState as State;
    match (situation.run, situation.kubernetes) {
        (_, Some(Outcome::InProgress)) => return State::UpgradingKubernetes,
        (_, Some(Outcome::Failed)) => return State::KubernetesUpgradeFailed,
        (Some(run), _) if touches(view, run, None) => return State::Upgrading,
        _ => {}
    }
    let status = view.facts.objects.control_plane.status.as_ref();
    let before = status.and_then(|status| State::parse(&status.state));
    match before {
        // It served before: a condition says what is the matter.
        Some(
            State::Ready
            | State::Upgrading
            | State::UpgradingKubernetes
            | State::KubernetesUpgradeFailed,
        ) => State::Ready,
        Some(State::Pending | State::Bootstrapped) | None => {
            let known = view.observed().is_some() && !is_unknown(situation.reason);
            match (known, view.is_imported() && situation.reason == Reason::Waiting) {
                (true, _) => State::Ready,
                (false, true) => State::Bootstrapped,
                (false, false) => State::Pending,
            }
        }
    }
}

/// Whether a reason says that not all machines are known.
const fn is_unknown(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::NotProvisioned | Reason::UnsupportedMode | Reason::Unreachable | Reason::Conflict
    )
}

/// Whether a run changes Talos on machines of a pool, or of the control plane, and is not done
/// with all of them.
fn touches(view: &View<'_>, run: &Run, pool: Option<&str>) -> bool {
    let machines = &view.facts.unit.machines;
    run.product == Product::Talos
        && run.nodes.iter().any(|(node, stage)| {
            let machine = view.matching.machine_of.get(node).map(|at| &machines[*at]);
            // Before the first observation of a new process the nodes are not known by machine.
            machine.is_none_or(|machine| machine.pool.as_deref() == pool)
                && (pool.is_none() || *stage != NodeStage::Done)
        })
}

fn lowest(view: &View<'_>, pool: Option<&str>) -> Option<Version> {
    let observed = view.observed()?;
    let nodes = view
        .matching
        .machine_of
        .iter()
        .filter(|(_, at)| view.facts.unit.machines[**at].pool.as_deref() == pool);
    nodes.filter_map(|(node, _)| observed.nodes.get(node)).map(|node| node.talos.clone()).min()
}

fn pool(
    view: &View<'_>,
    situation: &Situation<'_>,
    name: &str,
    before: &str,
    generation: Option<i64>,
) -> Shown<WorkerState> {
    let (reason, message) = pool_reason(view, situation, name);
    let run = situation.run.filter(|run| touches(view, run, Some(name)));
    let was_known =
        matches!(WorkerState::parse(before), Some(WorkerState::Ready | WorkerState::Upgrading));
    let state = if run.is_some() {
        WorkerState::Upgrading
    } else if was_known || (view.observed().is_some() && !is_unknown(reason)) {
        WorkerState::Ready
    } else {
        WorkerState::Pending
    };
    let mut conditions = kstatus(reason, &message);
    conditions.push(progressing(run, &message));
    Shown {
        state,
        progress: run.map(|run| pool_progress(view, run, name)).unwrap_or_default(),
        run: run.map(|run| run.name.clone()),
        talos: lowest(view, Some(name)),
        kubernetes: None,
        generation,
        conditions,
        message,
    }
}

fn pool_progress(view: &View<'_>, run: &Run, name: &str) -> String {
    let machines = &view.facts.unit.machines;
    let own = run.nodes.iter().filter(|(node, _)| {
        let at = view.matching.machine_of.get(*node);
        at.is_some_and(|at| machines[*at].pool.as_deref() == Some(name))
    });
    let stages: Vec<_> = own.map(|(_, stage)| stage).collect();
    let done = stages.iter().filter(|stage| ***stage == NodeStage::Done).count();
    format!("{done}/{}", stages.len())
}

/// What a pool is at: its own matters first, then those of the unit, unless it is as wanted and
/// they are no concern of it.
fn pool_reason(view: &View<'_>, situation: &Situation<'_>, name: &str) -> (Reason, String) {
    let unit = view.facts.unit;
    let shared = || (situation.reason, situation.message.clone());
    let own = |place: &Place| place.kind == Kind::TalosWorker && place.name == name;
    let problems = unit.problems.iter().chain(view.facts.conflicts).chain(&view.matching.problems);
    if let Some(problem) = { problems }.find(|problem| own(&problem.place)) {
        return (problem.reason(), problem.to_string());
    }
    if situation.run.is_some_and(|run| touches(view, run, Some(name))) {
        return shared();
    }
    if matches!(situation.reason, Reason::Deleting | Reason::Conflict) || view.observed().is_none()
    {
        return shared();
    }
    let held = view.adoptions.get(&(Kind::TalosWorker, name.to_owned())).map(|it| it.held.talos);
    if held == Some(true) {
        let message = "The pool runs another Talos than its spec says since another operator \
                       managed it; change the version, or set upgrade.vitistack.io/adopt=true";
        return (Reason::Adopted, message.to_owned());
    }
    let mut machines =
        unit.machines.iter().enumerate().filter(|(_, it)| it.pool.as_deref() == Some(name));
    if machines.clone().any(|(at, _)| view.matching.absent.contains(&at)) {
        let message = "A machine of the pool is no node of the cluster yet; let it join, or remove \
                       it from the list";
        return (Reason::NotProvisioned, message.to_owned());
    }
    if machines.all(|(at, machine)| machine.hold.is_none() && view.fits(at)) {
        return (Reason::Reconciled, "All machines of the pool run what is wanted".to_owned());
    }
    let worker = view.facts.objects.workers.iter();
    let mut worker = worker.filter(|it| it.metadata.name.as_deref() == Some(name));
    if worker.any(|it| it.reconcile_mode() != ReconcileMode::Reconcile) {
        return (
            Reason::Paused,
            format!("The pool is held by the annotation {}", spec_api::RECONCILE_MODE),
        );
    }
    match situation.reason {
        Reason::Reconciled | Reason::Adopted | Reason::Upgrading => {
            (Reason::Waiting, format!("The pool waits: {}", situation.message))
        }
        _ => shared(),
    }
}

fn machines(view: &View<'_>, situation: &Situation<'_>) -> BTreeMap<String, Shown<MachineState>> {
    let objects = &view.facts.objects.machines;
    let machines = view.facts.unit.machines.iter().enumerate();
    let shown = machines.filter_map(|(at, machine)| {
        let name = machine.object.clone()?;
        let object = objects.iter().find(|it| it.metadata.name.as_ref() == Some(&name))?;
        let before = object.status.as_ref().and_then(|status| MachineState::parse(&status.state));
        let shown = self::machine(view, situation, at, before, object.metadata.generation);
        Some((name, shown))
    });
    shown.collect()
}

fn machine(
    view: &View<'_>,
    situation: &Situation<'_>,
    at: usize,
    before: Option<MachineState>,
    generation: Option<i64>,
) -> Shown<MachineState> {
    let machine = &view.facts.unit.machines[at];
    let node = view.node_of(at);
    let run = view.facts.run.filter(|run| {
        run.product == Product::Talos && (run.is_active() || run.phase == RunPhase::Halted)
    });
    let at_node = run.zip(node).and_then(|(run, node)| run.nodes.get(node));
    let own = view.facts.unit.problems.iter().chain(&view.matching.problems);
    let problem = { own }.find(|problem| {
        let Place { kind, name, path } = &machine.place;
        problem.place.kind == *kind
            && problem.place.name == *name
            && problem.place.path.starts_with(path.as_str())
    });
    let (state, reason, message) = match (at_node, problem) {
        (Some(NodeStage::InFlight { step }), _) => {
            (MachineState::Upgrading, Reason::Upgrading, format!("Upgrading: {step}"))
        }
        (Some(NodeStage::Failed { why }), _) => {
            (MachineState::Failed, Reason::Failed, format!("The upgrade failed: {why}"))
        }
        (_, Some(problem)) => (known(before), problem.reason(), problem.to_string()),
        _ if view.observed().is_none() => {
            (known(before), situation.reason, situation.message.clone())
        }
        _ if view.matching.absent.contains(&at) => {
            let message = "The machine is no node of the cluster yet";
            (MachineState::Pending, Reason::NotProvisioned, message.to_owned())
        }
        _ if machine.hold.is_some() => {
            let message = format!("Held by the annotation {}", spec_api::RECONCILE_MODE);
            (MachineState::Available, Reason::Paused, message)
        }
        _ if view.fits(at) => {
            let message = "The machine runs what is wanted".to_owned();
            (MachineState::Available, Reason::Reconciled, message)
        }
        _ => (MachineState::Available, Reason::Waiting, "Waiting for its turn".to_owned()),
    };
    let observed = node.zip(view.observed()).and_then(|(node, observed)| observed.nodes.get(node));
    Shown {
        progress: match at_node {
            Some(NodeStage::InFlight { step }) => step.clone(),
            _ => String::new(),
        },
        run: run.filter(|_| at_node.is_some()).map(|run| run.name.clone()),
        talos: observed.map(|node| node.talos.clone()),
        kubernetes: None,
        generation,
        conditions: kstatus(reason, &message),
        state,
        message,
    }
}

/// The state of a machine of which nothing new is known.
fn known(before: Option<MachineState>) -> MachineState {
    match before {
        Some(MachineState::Available | MachineState::Upgrading | MachineState::Failed) => {
            MachineState::Available
        }
        Some(MachineState::Pending | MachineState::Orphaned) | None => MachineState::Pending,
    }
}
