//! A small world with a referee, and functions that act in it: a run as seen from outside, step by
//! step.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube_sim::names::{NODES, PODS};
use kube_sim::{Write, object};
use serde_json::json;
use talos_proto::machine::apply_configuration_request::Mode;
use talos_proto::machine::{ApplyConfigurationRequest, RebootRequest, UpgradeRequest};
use talos_sim::kubernetes::Kubernetes;
use talos_sim::model::{
    Caller, ClusterSpec, EMPTY_SCHEMATIC, Fault, NodeIndex, NodeRole, NodeTruth, Request, Time,
    World,
};
use talos_sim::schedule::fault_text;
use upgrade_core::event::{Event, EventKind};
use upgrade_core::image::ImageRef;
use upgrade_core::intent::Intent;
use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::journal::{Entry, Outcome, Record};
use upgrade_core::plan::{Change, Group, Hop, Lane, Plan, RebootMode, Target, Versions, Wave};
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::{Action, StepId};
use upgrade_core::version::Version;
use upgrade_engine::drive::End;

use super::{Referee, Wanted, facts};
use crate::trace::{Act, ExternalAction, Fate, ProcessId, Question, TraceEvent, TraceKind, View};

/// The secret that must never appear in output.
pub(super) const SECRET: &str = "c2VjcmV0LW9mLXRoZS10ZXN0";

/// No breach.
pub(super) const NONE: [u8; 0] = [];

const FROM: Version = Version::new(1, 12, 11);
const TO: Version = Version::new(1, 13, 12);

/// A user who wants the next Talos minor.
pub(super) fn wanted() -> Wanted {
    Wanted {
        intent: Intent { talos: Some(TO), ..Intent::default() },
        policy: Policy::default(),
        secrets: vec![SECRET.to_owned()],
        rollback: false,
    }
}

/// An installer that keeps the nodes' content.
pub(super) fn installer() -> ImageRef {
    let text = format!("factory.talos.dev/metal-installer/{EMPTY_SCHEMATIC}:{}", TO.tag());
    text.parse().unwrap()
}

pub(super) struct Bench {
    pub(super) world: World,
    pub(super) kubernetes: Kubernetes,
    pub(super) referee: Referee,
    pub(super) at: Timestamp,
    plan: Arc<Plan>,
    started: bool,
    boots: Vec<String>,
}

impl Bench {
    pub(super) fn new(control_planes: usize, workers: usize) -> Self {
        Self::with(control_planes, workers, wanted())
    }

    pub(super) fn with(control_planes: usize, workers: usize, wanted: Wanted) -> Self {
        let at: Timestamp = "2026-11-15T20:00:00Z".parse().unwrap();
        let (world, kubernetes) = cluster(control_planes, workers, at);
        let spec = world.spec();
        let plan = Arc::new(plan(spec, &wanted));
        let view = View { world: &world, kubernetes: &kubernetes };
        let referee = Referee::new(wanted, at, &view);
        let boots = world.truths().map(|node| node.boot_id().to_owned()).collect();
        Self { world, kubernetes, referee, at, plan, started: false, boots }
    }

    pub(super) fn see(&mut self, what: TraceKind) {
        let view = View { world: &self.world, kubernetes: &self.kubernetes };
        self.referee.see(&TraceEvent { at: self.at, what }, &view);
    }

    pub(super) fn finish(&mut self, last: Option<&End>) {
        let view = View { world: &self.world, kubernetes: &self.kubernetes };
        self.referee.finish(self.at, &view, last);
    }

    /// The numbers of the broken rules.
    pub(super) fn broken(&self) -> Vec<u8> {
        let mut rules: Vec<u8> = self.referee.breaches().iter().map(|it| it.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    }

    #[track_caller]
    pub(super) fn assert_broken(&self, rules: &[u8]) {
        assert_eq!(self.broken(), rules, "{:#?}", self.referee.breaches());
    }

    /// Advances the time.
    pub(super) fn wait(&mut self, seconds: i64) {
        for _ in 0..seconds {
            self.at += SignedDuration::from_secs(1);
            self.follow();
        }
    }

    fn follow(&mut self) {
        let now = time(self.at);
        self.world.advance(now);
        self.kubernetes.follow(&mut self.world, now);
        for index in 0..self.boots.len() {
            let truth = self.world.truth(NodeIndex(index)).unwrap();
            if truth.is_on() && truth.boot_id() != self.boots[index] {
                self.boots[index] = truth.boot_id().to_owned();
                let node = truth.hostname().into();
                self.see(TraceKind::Boots { node });
            }
        }
    }

    pub(super) fn index(&self, node: &str) -> NodeIndex {
        self.world.find(node).unwrap()
    }

    pub(super) fn inject(&mut self, node: &str, fault: &Fault) {
        let action = ExternalAction::Breaks { node: node.into(), fault: fault_text(fault) };
        self.see(TraceKind::External { action });
        let node = self.index(node);
        self.world.inject(time(self.at), Some(node), fault);
        self.follow();
    }

    /// A kubelet registers on a machine without Talos.
    pub(super) fn register(&mut self, node: &str, version: &str) {
        let (now, version) = (time(self.at), version.parse().unwrap());
        self.kubernetes.join_foreign(now, node, "10.9.0.1", &version);
        self.wait(5);
    }

    /// Sets another version of Kubernetes in the configuration of a node.
    pub(super) fn move_kubernetes(&mut self, node: &str, from: &str, to: &str) {
        let node = self.index(node);
        let config = self.world.config_of(node).replace(from, to);
        let request = ApplyConfigurationRequest {
            data: config.into_bytes(),
            mode: Mode::NoReboot.into(),
            ..ApplyConfigurationRequest::default()
        };
        let request = Request::ApplyConfiguration(request);
        let _ = self.world.request(time(self.at), node, &Caller::admin(), request);
        self.follow();
    }

    /// Stages another configuration, as a user does.
    pub(super) fn stage_config(&mut self, node: &str) {
        self.see(TraceKind::External { action: ExternalAction::Stages { node: node.into() } });
        let node = self.index(node);
        let config = self.world.config_of(node).replace("debug: false", "debug: true");
        let request = ApplyConfigurationRequest {
            data: config.into_bytes(),
            mode: Mode::Staged.into(),
            ..ApplyConfigurationRequest::default()
        };
        let request = Request::ApplyConfiguration(request);
        let _ = self.world.request(time(self.at), node, &Caller::admin(), request);
    }

    /// Whether the control plane leads etcd.
    pub(super) fn leads(&self, node: &str) -> bool {
        self.world.etcd_truth().leader == Some(self.index(node))
    }

    /// Control planes, the leader last.
    pub(super) fn control_planes(&self) -> Vec<String> {
        let mut names: Vec<String> = (1..=5).map(|n| format!("cp-{n}")).collect();
        names.retain(|name| self.world.find(name).is_some());
        names.sort_by_key(|name| self.leads(name));
        names
    }

    pub(super) fn starts(&mut self, runner: ProcessId) {
        let fresh = !std::mem::replace(&mut self.started, true);
        let plan = Arc::clone(&self.plan);
        self.see(TraceKind::Starts { runner, plan, fresh });
        self.wrote(runner, Record::Began);
    }

    /// A process that has observed the cluster and taken its snapshot.
    pub(super) fn ready(&mut self, runner: ProcessId) {
        self.starts(runner);
        self.wait(1);
        self.observe(runner);
        self.act(runner, Act::Snapshot);
    }

    pub(super) fn wrote(&mut self, runner: ProcessId, record: Record) {
        let plan = serde_json::from_value(json!("ab")).unwrap();
        let entry = Entry { at: self.at, plan, runner: runner.to_string(), record };
        self.see(TraceKind::Wrote { runner, entry: Box::new(entry) });
    }

    pub(super) fn reported(&mut self, runner: ProcessId, kind: EventKind) {
        let plan = serde_json::from_value(json!("ab")).unwrap();
        let event = Event { at: self.at, cluster: "sim".to_owned(), plan, kind };
        self.see(TraceKind::Reported { runner, event: Box::new(event) });
    }

    pub(super) fn ask(&mut self, runner: ProcessId, question: Question, known: bool) {
        self.see(TraceKind::Asked { runner, question, answered: self.at, known });
    }

    pub(super) fn observe(&mut self, runner: ProcessId) {
        self.ask(runner, Question::Machines, true);
        let names: Vec<NodeName> = self.world.truths().map(|node| node.hostname().into()).collect();
        for name in names {
            self.ask(runner, Question::Facts(name), true);
        }
        self.ask(runner, Question::Etcd, true);
        self.ask(runner, Question::Nodes, true);
    }

    pub(super) fn begins(&mut self, runner: ProcessId, step: &str) {
        let step: StepId = step.parse().unwrap();
        self.wrote(runner, Record::Started { step, attempt: 1, evidence: None });
    }

    pub(super) fn ends(&mut self, runner: ProcessId, step: &str) {
        let step: StepId = step.parse().unwrap();
        let outcome = Outcome::Done { proof: None };
        self.wrote(runner, Record::Finished { step, attempt: 1, outcome });
    }

    /// An act arrives and is executed.
    pub(super) fn act(&mut self, runner: ProcessId, act: Act) {
        self.see(TraceKind::Act { runner, act: act.clone(), fate: Fate::Arrives });
        let now = time(self.at);
        match act {
            Act::Cordon { node, on } => self.cordon(&node.0, on),
            Act::Install { node, .. } => self.see(TraceKind::Installs { node }),
            Act::Reboot { node, .. } => {
                let node = self.index(&node.0);
                let request = Request::Reboot(RebootRequest::default());
                let _ = self.world.request(now, node, &Caller::admin(), request);
            }
            Act::Upgrade { node, image, .. } => {
                let node = self.index(&node.0);
                let request =
                    UpgradeRequest { image: image.to_string(), ..UpgradeRequest::default() };
                let request = Request::Upgrade(request);
                let _ = self.world.request(now, node, &Caller::admin(), request);
            }
            _ => {}
        }
        self.follow();
    }

    pub(super) fn cordon(&mut self, node: &str, on: bool) {
        let store = self.kubernetes.api_mut().store_mut();
        let _ = store.modify(&Write::by("test"), &NODES, "", node, |object| {
            object::set(object, &["spec", "unschedulable"], on);
        });
        self.follow();
    }

    /// Observes, begins a step, acts, and ends the step.
    pub(super) fn step(&mut self, runner: ProcessId, step: &str, act: Option<Act>) {
        self.wait(1);
        self.observe(runner);
        self.begins(runner, step);
        if let Some(act) = act {
            self.act(runner, act);
        }
        self.wait(1);
        self.ends(runner, step);
    }

    /// Cordons a node in accordance with all rules.
    pub(super) fn take(&mut self, runner: ProcessId, node: &str) {
        let act = Act::Cordon { node: node.into(), on: true };
        self.step(runner, &format!("1/{node}/cordon"), Some(act));
    }

    /// Removes its pods.
    pub(super) fn drain(&mut self, runner: ProcessId, node: &str) {
        self.wait(1);
        self.observe(runner);
        self.begins(runner, &format!("1/{node}/drain"));
        let view = View { world: &self.world, kubernetes: &self.kubernetes };
        let pods = facts::pods(&view, &node.into());
        for pod in pods.into_iter().filter(|pod| !pod.stays) {
            let (namespace, name) = pod.name.split_once('/').unwrap();
            let store = self.kubernetes.api_mut().store_mut();
            let options = kube_sim::store::DeleteOptions::now();
            let _ = store.delete(&Write::by("test"), &PODS, namespace, name, &options);
        }
        self.wait(60);
        self.ends(runner, &format!("1/{node}/drain"));
    }

    /// Upgrades it, and waits until it serves.
    pub(super) fn boot(&mut self, runner: ProcessId, node: &str) {
        self.boot_by(runner, node, RebootMode::Default);
    }

    /// The same with a reboot mode.
    pub(super) fn boot_by(&mut self, runner: ProcessId, node: &str, mode: RebootMode) {
        self.boot_until(runner, node, mode, |truth| {
            let controls = truth.role() == NodeRole::Worker || truth.api_server_answers();
            truth.is_ready() && controls
        });
    }

    /// Upgrades it, and waits until the machine reports itself ready, which is before its API
    /// server answers.
    pub(super) fn boot_until_ready(&mut self, runner: ProcessId, node: &str) {
        // A path to the method would have only one lifetime.
        let is_ready = |truth: &NodeTruth<'_>| truth.is_ready();
        self.boot_until(runner, node, RebootMode::Default, is_ready);
    }

    /// Upgrades it, and waits until it begins to boot.
    pub(super) fn boot_until_on(&mut self, runner: ProcessId, node: &str) {
        let is_on = |truth: &NodeTruth<'_>| truth.is_on();
        self.boot_until(runner, node, RebootMode::Default, is_on);
    }

    /// Upgrades it, and waits until it runs and its Node is ready, whatever the machine itself
    /// reports.
    pub(super) fn boot_until_up(&mut self, runner: ProcessId, node: &str) {
        let is_up = |truth: &NodeTruth<'_>| truth.is_running() && truth.kubelet().ready;
        self.boot_until(runner, node, RebootMode::Default, is_up);
    }

    /// Upgrades it, and waits until the condition holds.
    fn boot_until(
        &mut self,
        runner: ProcessId,
        node: &str,
        mode: RebootMode,
        back: impl Fn(&NodeTruth<'_>) -> bool,
    ) {
        self.wait(1);
        self.observe(runner);
        self.begins(runner, &format!("1/{node}/upgrade"));
        self.act(runner, Act::Upgrade { node: node.into(), image: installer(), mode });
        let before = self.boots.clone();
        let index = self.index(node);
        for _ in 0..600 {
            self.wait(1);
            let truth = self.world.truth(index).unwrap();
            if truth.boot_id() != before[index.0] && back(&truth) {
                break;
            }
        }
        self.ends(runner, &format!("1/{node}/upgrade"));
    }

    /// Verifies and uncordons it.
    pub(super) fn verify_and_uncordon(&mut self, runner: ProcessId, node: &str) {
        self.step(runner, &format!("1/{node}/verify"), None);
        let act = Act::Cordon { node: node.into(), on: false };
        self.step(runner, &format!("1/{node}/uncordon"), Some(act));
    }

    pub(super) fn ended(&mut self, runner: ProcessId, end: End) {
        self.see(TraceKind::Ends { runner, end: Ok(end) });
    }
}

/// A cluster of this size, cached: its first minutes take longer than a test.
fn cluster(control_planes: usize, workers: usize, at: Timestamp) -> (World, Kubernetes) {
    type Made = BTreeMap<(usize, usize), (World, Kubernetes)>;
    static MADE: Mutex<Made> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let new = || {
        let spec = ClusterSpec::new(control_planes, workers, &FROM, &Version::new(1, 34, 2));
        let world = World::new(&spec, 7, time(at));
        let kubernetes = Kubernetes::new(&world, 7, &[]).unwrap();
        (world, kubernetes)
    };
    made.entry((control_planes, workers)).or_insert_with(new).clone()
}

fn time(at: Timestamp) -> Time {
    Time::default().plus(Duration::try_from(at.duration_since(Timestamp::UNIX_EPOCH)).unwrap())
}

/// One hop for every node.
fn plan(spec: &ClusterSpec, wanted: &Wanted) -> Plan {
    let lane = |name: &str| Lane {
        node: Some(name.into()),
        pool: None,
        target: Target::Cluster,
        steps: [Action::Cordon, Action::Drain, Action::Upgrade, Action::Verify, Action::Uncordon]
            .map(Into::into)
            .to_vec(),
    };
    let lanes = spec.nodes.iter().map(|node| lane(&node.hostname)).collect();
    let versions = Versions { talos: Some(TO), kubernetes: None };
    Plan {
        format: 1,
        cluster: "sim".to_owned(),
        parent: None,
        rollback: wanted.rollback,
        from: Versions { talos: Some(FROM), kubernetes: None },
        to: versions.clone(),
        policy: wanted.policy.clone(),
        prune: Vec::new(),
        nodes: BTreeMap::new(),
        hops: vec![Hop {
            number: 1,
            change: Change::Talos { from: FROM, to: TO },
            versions,
            limit: 1,
            pool_limits: BTreeMap::new(),
            waves: vec![Wave { number: 1, group: Group::Workers, lanes }],
        }],
    }
}

/// A run that breaks no rule.
#[test]
fn a_legal_upgrade_breaks_no_rule() {
    let mut bench = Bench::new(3, 2);
    bench.ready(1);
    for node in ["worker-1", "worker-2"] {
        bench.take(1, node);
        bench.drain(1, node);
        bench.boot(1, node);
        bench.verify_and_uncordon(1, node);
    }
    // The leader goes last, after it was asked to move its leadership.
    for node in bench.control_planes() {
        if bench.leads(&node) {
            let index = bench.index(&node);
            let request = talos_proto::machine::EtcdForfeitLeadershipRequest::default();
            let request = Request::EtcdForfeitLeadership(request);
            let now = time(bench.at);
            let _ = bench.world.request(now, index, &Caller::admin(), request);
            bench.wait(10);
        }
        bench.take(1, &node);
        bench.drain(1, &node);
        bench.boot(1, &node);
        bench.verify_and_uncordon(1, &node);
    }
    bench.ended(1, End::Done);
    bench.finish(Some(&End::Done));
    bench.assert_broken(&[]);
    let talos = bench.world.truths().map(|node| node.installed().version.clone());
    assert_eq!(talos.collect::<Vec<_>>(), vec![TO; 5]);
}
