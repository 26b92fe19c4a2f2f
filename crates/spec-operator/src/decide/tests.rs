//! Every rule of this front end, as facts and decisions.

mod jobs;
mod properties;
mod shown;
mod versions;

use std::collections::BTreeMap;

use serde_json::json;
use spec_api::condition::ConditionType;
use spec_api::state::{ControlPlaneState, WorkerState};
use upgrade_api::annotation;
use upgrade_api::run::RunPhase;
use upgrade_controller::front_end::Releases;
use upgrade_controller::steering::Steering;
use upgrade_core::catalogue::Catalogue;
use upgrade_core::matrix::Matrix;
use upgrade_core::policy::Policy;
use upgrade_core::product::{PerProduct, Product};
use upgrade_core::version::Version;

use super::*;
use crate::asks::Asked;
use crate::keys;
use crate::path::Observed;
use crate::test_objects::{Hub, observed};
use crate::unit::{Kind, Place, Problem, ProblemKind};

/// A cluster at rest, to be changed by each test.
struct Case {
    hub: Hub,
    observed: Option<Result<Observed, &'static str>>,
    run: Option<Run>,
    job: Job,
    process: Process,
    settled: bool,
    conflicts: Vec<Problem>,
}

const OPERATOR: Process = Process::Operator { inline: false };
const INLINE: Process = Process::Operator { inline: true };

fn version(text: &str) -> Version {
    text.parse().expect("a version")
}

/// A cluster that this operator has served before.
fn served() -> Hub {
    let mut hub = Hub::usual();
    let status = json!({"state": "Ready", "observedGeneration": 1});
    hub.control_planes[0].status = serde_json::from_value(status.clone()).expect("readable");
    hub.workers[0].status = serde_json::from_value(status).expect("readable");
    hub
}

impl Case {
    fn new() -> Self {
        Self {
            hub: served(),
            observed: Some(Ok(observed("1.13.9", "1.35.0"))),
            run: None,
            job: Job::Absent,
            process: OPERATOR,
            settled: true,
            conflicts: Vec::new(),
        }
    }

    /// Talos has to be upgraded.
    fn talos() -> Self {
        Self { observed: Some(Ok(observed("1.13.8", "1.35.0"))), ..Self::new() }
    }

    /// Kubernetes has to be upgraded.
    fn kubernetes() -> Self {
        Self { observed: Some(Ok(observed("1.13.9", "1.34.0"))), ..Self::new() }
    }

    /// A run of a product that was begun for the present specs.
    fn run(mut self, product: Product, phase: RunPhase) -> Self {
        let to = match product {
            Product::Talos => "1.13.9",
            Product::Kubernetes => "1.35.0",
        };
        let stage = |name: &str, stage| (name.into(), stage);
        let in_flight = NodeStage::InFlight { step: "drain".to_owned() };
        self.run = Some(Run {
            name: "prod-1".to_owned(),
            product,
            from: PerProduct {
                talos: Some(version("1.13.8")),
                kubernetes: Some(version("1.34.0")),
            },
            to: version(to),
            rollback: false,
            phase,
            message: "draining cp-2".to_owned(),
            done: 1,
            total: 5,
            nodes: BTreeMap::from([
                stage("cp-1", NodeStage::Done),
                stage("cp-2", in_flight),
                stage("cp-3", NodeStage::Pending),
                stage("blue-1", NodeStage::Pending),
                stage("blue-2", NodeStage::Pending),
            ]),
            asked: Some(self.asked()),
        });
        self
    }

    fn asked(&self) -> Asked {
        Asked::of(&self.hub.objects(), &self.hub.unit(), self.steering().rollback, self.retry())
    }

    fn annotations(&self) -> BTreeMap<String, String> {
        self.hub.control_planes[0].metadata.annotations.clone().unwrap_or_default()
    }

    fn steering(&self) -> Steering {
        Steering::from_annotations(&self.annotations())
    }

    fn retry(&self) -> Option<String> {
        self.annotations().get(keys::RETRY).cloned()
    }

    fn annotate(mut self, key: &str, value: &str) -> Self {
        let annotations = self.hub.control_planes[0].metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    fn state(mut self, state: &str) -> Self {
        self.hub.control_planes[0].status.get_or_insert_default().state = state.to_owned();
        self
    }

    fn job(mut self, job: Job) -> Self {
        self.job = job;
        self
    }

    fn process(mut self, process: Process) -> Self {
        self.process = process;
        self
    }

    fn versions(mut self, talos: &str, kubernetes: &str) -> Self {
        let spec = &mut self.hub.control_planes[0].spec;
        (spec.version, spec.kube_version) = (Some(talos.to_owned()), Some(kubernetes.to_owned()));
        self.hub.workers[0].spec.version = Some(talos.to_owned());
        self
    }

    fn decide(&self) -> Decision {
        let (matrix, catalogue) = (Matrix::builtin(), Catalogue::builtin());
        let retry = self.retry();
        decide(&Facts {
            objects: &self.hub.objects(),
            unit: &self.hub.unit(),
            conflicts: &self.conflicts,
            steering: &self.steering(),
            retry: retry.as_deref(),
            base: &Policy::default(),
            observed: self.observed.as_ref().map(|observed| observed.as_ref().map_err(|why| *why)),
            run: self.run.as_ref(),
            job: &self.job,
            process: self.process,
            settled: self.settled,
            releases: Releases { matrix: &matrix, catalogue: &catalogue },
        })
    }

    #[track_caller]
    fn shown(&self) -> (Update, NextAction) {
        let decision = self.decide();
        (decision.update.expect("something is shown"), decision.next)
    }

    /// State, reason of `Ready` and next action.
    #[track_caller]
    fn outcome(&self) -> (ControlPlaneState, Reason, NextAction) {
        let (update, next) = self.shown();
        (update.control_plane.state, reason(&update), next)
    }

    #[track_caller]
    fn begins(&self) -> Begin {
        match self.decide().next {
            NextAction::Begin(begin) => *begin,
            other => panic!("{other:?}"),
        }
    }
}

fn reason(update: &Update) -> Reason {
    condition(&update.control_plane.conditions, ConditionType::Ready).reason
}

fn condition(conditions: &[ShownCondition], kind: ConditionType) -> &ShownCondition {
    conditions.iter().find(|condition| condition.kind == kind).expect("shown")
}

use ControlPlaneState as State;

#[test]
fn a_cluster_as_wanted_is_at_rest() {
    let (update, next) = Case::new().shown();
    assert_eq!(next, NextAction::Idle);
    assert_eq!((update.control_plane.state, reason(&update)), (State::Ready, Reason::Reconciled));
    assert_eq!(update.workers["blue"].state, WorkerState::Ready);
    assert_eq!(update.control_plane.talos, Some(version("1.13.9")));
    assert_eq!(update.control_plane.kubernetes, Some(version("1.35.0")));
}

#[test]
fn a_newer_version_begins_a_run() {
    let begin = Case::talos().begins();
    assert_eq!((begin.product, begin.to, begin.by_job), (Product::Talos, version("1.13.9"), false));
    assert_eq!(begin.start.intent.talos, Some(version("1.13.9")));
    assert_eq!(begin.start.intent.kubernetes, None);
    assert!(begin.start.policy.expect("valid").workers.pools.contains_key("blue"));
    let (state, reason, _) = Case::talos().outcome();
    assert_eq!((state, reason), (State::Ready, Reason::Waiting), "nothing runs yet");
    let unsettled = Case { settled: false, ..Case::talos() };
    assert_eq!(unsettled.decide().next, NextAction::Settle);
}

#[test]
fn kubernetes_is_upgraded_by_a_job_or_by_the_operator() {
    for (process, by_job) in [(OPERATOR, true), (INLINE, false), (Process::Job, false)] {
        let begin = Case::kubernetes().process(process).begins();
        assert_eq!((begin.product, begin.by_job), (Product::Kubernetes, by_job), "{process:?}");
        assert_eq!(begin.start.intent.kubernetes, Some(version("1.35.0")));
        assert_eq!(begin.start.intent.talos, None);
    }
    // A Job upgrades no nodes.
    let (_, reason, next) = Case::talos().process(Process::Job).outcome();
    assert_eq!((reason, next), (Reason::Refused, NextAction::Idle));
}

#[test]
fn both_versions_are_one_stretch_after_the_other() {
    let mut case = Case::new().versions("v1.14.1", "v1.36.0");
    case.observed = Some(Ok(observed("1.13.9", "1.35.0")));
    let first = case.begins();
    case.observed = Some(Ok(observed("1.14.1", "1.35.0")));
    let second = case.begins();
    assert_eq!((first.product, second.product), (Product::Talos, Product::Kubernetes));
    assert_eq!((first.to, second.to), (version("1.14.1"), version("1.36.0")));
}

#[test]
fn a_run_goes_on_while_the_user_asks_for_it() {
    for phase in [RunPhase::Pending, RunPhase::Running, RunPhase::Paused] {
        let case = Case::talos().run(Product::Talos, phase);
        assert_eq!(case.outcome(), (State::Upgrading, Reason::Upgrading, NextAction::Drive));
    }
    let unknown = || {
        let mut case = Case::talos().run(Product::Talos, RunPhase::Running);
        case.run.as_mut().expect("a run").asked = None;
        case.versions("v1.13.8", "v1.35.0")
    };
    assert_eq!(unknown().decide().next, NextAction::Drive, "what is not known did not happen");
}

#[test]
fn the_users_word_holds_while_it_runs() {
    // Rule 12.
    let running = || Case::talos().run(Product::Talos, RunPhase::Running);
    assert_eq!(running().versions("v1.13.8", "v1.35.0").decide().next, NextAction::Cancel);
    assert_eq!(running().versions("latest", "v1.35.0").decide().next, NextAction::Cancel);
    let other = running().versions("v1.13.9", "v1.36.0");
    assert_eq!(other.decide().next, NextAction::Drive, "the other product comes later");
    let mut held = running();
    held.hub.hold_worker(0);
    assert_eq!(held.decide().next, NextAction::Cancel);
    let paused = running().annotate(annotation::PAUSE, "anna");
    let (state, reason, next) = paused.outcome();
    assert_eq!((state, reason), (State::Upgrading, Reason::Paused));
    assert_eq!(next, NextAction::Pause { by: "anna".to_owned() });
    for mode in ["disable", "dryrun"] {
        let off = running().annotate(spec_api::RECONCILE_MODE, mode);
        let (_, reason, next) = off.outcome();
        assert_eq!(reason, Reason::Paused, "{mode}");
        assert!(matches!(next, NextAction::Pause { .. }), "{mode}");
        let by_job = Case::kubernetes().run(Product::Kubernetes, RunPhase::Running);
        let by_job = by_job.job(Job::Running).annotate(spec_api::RECONCILE_MODE, mode);
        assert_eq!(by_job.decide().next, NextAction::WaitForJob, "its process reads the same");
    }
}

#[test]
fn a_pause_or_a_mode_keeps_a_run_from_beginning() {
    let paused = Case::talos().annotate(annotation::PAUSE, "true");
    assert_eq!(paused.outcome(), (State::Ready, Reason::Paused, NextAction::Idle));
    let off = Case::talos().annotate(spec_api::RECONCILE_MODE, "disable");
    assert_eq!(off.decide(), Decision { update: None, next: NextAction::Idle });
    let dry = Case::talos().annotate(spec_api::RECONCILE_MODE, "dryrun").decide();
    let NextAction::Preview(preview) = dry.next else { panic!("{:?}", dry.next) };
    assert_eq!((preview.product, preview.to), (Product::Talos, version("1.13.9")));
    let rest = Case::new().annotate(spec_api::RECONCILE_MODE, "dryrun");
    assert_eq!(rest.outcome(), (State::Ready, Reason::Reconciled, NextAction::Idle));
    let wrong = Case::talos().annotate(annotation::ORDER, "random");
    assert_eq!(wrong.outcome(), (State::Ready, Reason::Refused, NextAction::Idle));
}

#[test]
fn a_common_machine_stops_both_units() {
    // Rule 9.
    let place = Place::new(Kind::TalosControlPlane, "prod", "spec.metalSpec.machines[0]");
    let kind = ProblemKind::OtherUnit {
        address: "10.0.0.1".parse().expect("an address"),
        namespace: "other".to_owned(),
        name: "stage".to_owned(),
    };
    let conflicts = || vec![Problem::new(place.clone(), kind.clone())];
    let idle = Case { conflicts: conflicts(), ..Case::talos() };
    assert_eq!(idle.outcome(), (State::Ready, Reason::Conflict, NextAction::Idle));
    let case = Case::talos().run(Product::Talos, RunPhase::Running);
    let running = Case { conflicts: conflicts(), ..case };
    assert!(matches!(running.decide().next, NextAction::Pause { .. }));
}

#[test]
fn a_failure_stays_until_the_user_says_something() {
    // Rule 5.
    let failed = |product| {
        let case = match product {
            Product::Talos => Case::talos(),
            Product::Kubernetes => Case::kubernetes(),
        };
        case.run(product, RunPhase::Halted)
    };
    let expected = (State::Ready, Reason::Failed, NextAction::Idle);
    assert_eq!(failed(Product::Talos).outcome(), expected);
    let expected = (State::KubernetesUpgradeFailed, Reason::Failed, NextAction::EndJob);
    assert_eq!(failed(Product::Kubernetes).job(Job::Ended).outcome(), expected);
    let closed = Decision { update: None, next: NextAction::Close };
    for case in [
        failed(Product::Talos).annotate(keys::RETRY, "1"),
        failed(Product::Talos).versions("v1.13.8", "v1.35.0"),
        failed(Product::Kubernetes).versions("v1.13.9", "v1.34.0"),
    ] {
        assert_eq!(case.decide(), closed);
    }
    let other = failed(Product::Kubernetes).versions("v1.13.8", "v1.35.0");
    assert_eq!(other.decide().next, NextAction::Idle, "another product's version is no word on it");
    let mut again = failed(Product::Talos).annotate(keys::RETRY, "1");
    again.run.as_mut().expect("a run").phase = RunPhase::Cancelled;
    assert_eq!(again.begins().product, Product::Talos);
}

#[test]
fn a_cluster_that_was_not_seen_is_observed_first() {
    let mut case = Case::talos();
    case.observed = None;
    assert_eq!(case.decide(), Decision { update: None, next: NextAction::Observe });
    case.hub.control_planes[0].status = None;
    assert_eq!(case.outcome(), (State::Pending, Reason::Waiting, NextAction::Observe));
    let imported = case.annotate(spec_api::RECONCILE_MODE, "import");
    assert_eq!(imported.outcome(), (State::Bootstrapped, Reason::Waiting, NextAction::Observe));
    // Rule 10.
    let mut away = Case::talos();
    away.observed = Some(Err("no answer within 10 s"));
    assert_eq!(away.outcome(), (State::Ready, Reason::Unreachable, NextAction::Idle));
}

#[test]
fn an_address_that_is_not_known_yet_starts_nothing_and_stops_nothing() {
    // Rule 10.
    let mut case = Case::talos();
    let metal = case.hub.workers[0].spec.metal_spec.as_mut().expect("machines");
    metal.machines[1].address = None;
    metal.machines[1].machine_ref =
        Some(serde_json::from_value(json!({"kind": "Server", "name": "a"})).expect("readable"));
    assert_eq!(case.outcome(), (State::Ready, Reason::Waiting, NextAction::Idle));
    let running = case.run(Product::Talos, RunPhase::Running);
    assert_eq!(running.decide().next, NextAction::Drive);
}

#[test]
fn machines_that_are_no_nodes_are_waited_for() {
    let without = |names: &[&str]| {
        let mut now = observed("1.13.8", "1.35.0");
        now.nodes.retain(|name, _| !names.contains(&name.0.as_str()));
        let mut case = Case { observed: Some(Ok(now)), ..Case::talos() };
        case.hub.control_planes[0].status = None;
        case
    };
    // Rule 10.
    let expected = (State::Pending, Reason::NotProvisioned, NextAction::Idle);
    assert_eq!(without(&["cp-2"]).outcome(), expected);
    assert_eq!(without(&["cp-1", "cp-2", "cp-3", "blue-1", "blue-2"]).outcome(), expected);
    let joining = without(&["blue-2"]);
    assert_eq!(joining.begins().product, Product::Talos, "workers may join later");
    let (update, _) = joining.shown();
    let pool = condition(&update.workers["blue"].conditions, ConditionType::Ready);
    assert_eq!(pool.reason, Reason::NotProvisioned);
}

#[test]
fn an_object_that_is_deleted_is_left_in_a_safe_state() {
    // Rule 12.
    let deleted = |mut case: Case| {
        let time = serde_json::from_value(json!("2026-01-01T00:00:00Z")).expect("a time");
        case.hub.control_planes[0].metadata.deletion_timestamp = time;
        case
    };
    let idle = deleted(Case::talos());
    let (update, next) = idle.shown();
    assert_eq!((reason(&update), next), (Reason::Deleting, NextAction::Release));
    let deleting = condition(&update.control_plane.conditions, ConditionType::Deleting);
    assert_eq!(deleting.holds, Some(true));
    let running = Case::talos().run(Product::Talos, RunPhase::Running);
    assert_eq!(deleted(running).decide().next, NextAction::Cancel);
    let by_job = || Case::kubernetes().run(Product::Kubernetes, RunPhase::Running);
    assert_eq!(deleted(by_job().job(Job::Running)).decide().next, NextAction::WaitForJob);
    assert_eq!(deleted(by_job().job(Job::Ended)).decide().next, NextAction::EndJob);
    assert_eq!(deleted(by_job()).decide().next, NextAction::Cancel, "no other process is left");
    let own = deleted(by_job().job(Job::Running).process(Process::Job));
    assert_eq!(own.decide().next, NextAction::Cancel);
    assert_eq!(deleted(Case::new().job(Job::Ended)).decide().next, NextAction::EndJob);
    let off = Case::talos().annotate(spec_api::RECONCILE_MODE, "disable");
    assert_eq!(deleted(off).decide().next, NextAction::Release, "it would stay for ever");
}
