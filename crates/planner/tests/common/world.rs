//! A cluster that does what it is told, in memory, with a clock of its own.
//!
//! It knows nothing of how `decide` thinks. It checks the rules of the design at
//! every change of its own state, and it can lose the process that drives it at
//! any journal entry.

use std::collections::{BTreeMap, BTreeSet};

use upgrade_core::image::ImageRef;
use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::journal::{Entry, Evidence, Outcome, Proof, Record, State};
use upgrade_core::plan::{Change, Plan, Target};
use upgrade_core::reason::{Failure, FailureKind, HaltReason};
use upgrade_core::snapshot::{
    Component, EtcdFacts, Fact, MemberId, NodeName, Role, Snapshot, Stage,
};
use upgrade_core::step::{Action, StepId};
use upgrade_core::version::Version;
use upgrade_planner::decide::{Decision, Start, decide};

/// Where the process dies.
#[derive(Clone, Copy, Debug)]
pub enum Crash {
    /// Right after this journal entry was written, before anything is done.
    AfterEntry(usize),
    /// After the act that this entry announced, before its end is written.
    AfterAct(usize),
}

/// What goes wrong, by step name.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// The step fails this often, then works.
    Fails(FailureKind, u32),
    /// The node comes back on its old version.
    BootsBack,
    /// The node stays down.
    NeverReturns,
}

/// Changes the world behind everybody's back.
pub type Meddle = Box<dyn FnMut(&mut Snapshot, Timestamp)>;

struct InFlight {
    ends: Timestamp,
    step: StepId,
    attempt: u32,
    acted: bool,
}

pub struct World {
    pub now: Timestamp,
    pub truth: Snapshot,
    pub plan: Plan,
    pub entries: Vec<Entry>,
    pub state: State,
    pub crash: Option<Crash>,
    pub trouble: BTreeMap<String, Trouble>,
    /// How often each node was rebooted in each hop.
    pub reboots: BTreeMap<(u32, NodeName), usize>,
    pub most_workers_away: usize,
    /// Waits that were met, by key.
    pub waits: BTreeSet<String>,
    /// Something to do to the world before each decision.
    pub meddle: Option<Meddle>,
    down_at_start: usize,
    in_flight: Vec<InFlight>,
    failures: BTreeMap<StepId, u32>,
    boots: u64,
    snapshot_taken: BTreeSet<u32>,
    waking: Vec<(Timestamp, NodeName)>,
    rounds: usize,
}

/// How a run ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    Done,
    Halted(HaltReason),
    /// Nothing more happens by itself: paused, for example.
    Idle(String),
}

impl World {
    pub fn new(truth: Snapshot, plan: Plan) -> Self {
        Self {
            now: "2026-11-15T00:00:00Z".parse().unwrap(),
            state: State::new(&plan),
            down_at_start: truth.nodes_with(Role::Worker).filter(|(_, node)| !node.is_up()).count(),
            truth,
            plan,
            entries: vec![],
            crash: None,
            trouble: BTreeMap::new(),
            reboots: BTreeMap::new(),
            most_workers_away: 0,
            waits: BTreeSet::new(),
            meddle: None,
            in_flight: vec![],
            failures: BTreeMap::new(),
            boots: 0,
            snapshot_taken: BTreeSet::new(),
            waking: vec![],
            rounds: 0,
        }
    }

    /// Writes an entry; `true` if the process dies with it.
    pub fn write(&mut self, record: Record) -> bool {
        self.now += SignedDuration::from_millis(1);
        let entry = Entry {
            at: self.now,
            plan: self.state.plan().clone(),
            runner: "test".to_owned(),
            record,
        };
        self.state.apply(&entry).unwrap_or_else(|error| panic!("{error}\n{}", self.trace()));
        self.entries.push(entry);
        matches!(self.crash, Some(Crash::AfterEntry(at)) if at + 1 == self.entries.len())
    }

    /// The journal as text, for messages.
    pub fn trace(&self) -> String {
        let line = |entry: &Entry| format!("{} {:?}", entry.at, entry.record);
        self.entries.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Runs until the end, starting again after a crash.
    pub fn run(&mut self) -> End {
        loop {
            match self.process() {
                Some(end) => return end,
                None => self.restart(),
            }
        }
    }

    /// Runs until the process ends or is killed; `None` if it was killed.
    pub fn run_one_life(&mut self) -> Option<End> {
        let end = self.process();
        if end.is_none() {
            self.restart();
        }
        end
    }

    fn restart(&mut self) {
        self.crash = None;
        // Nothing of the old process is left but the journal; what it had set
        // in motion on the nodes goes on by itself.
        for flight in std::mem::take(&mut self.in_flight) {
            if flight.acted && matches!(flight.step.action, Action::Reboot | Action::Upgrade) {
                self.waking.push((flight.ends, flight.step.node.unwrap()));
            }
        }
        let entries = std::mem::take(&mut self.entries);
        self.state = State::fold(&self.plan, &entries).unwrap();
        self.entries = entries;
        self.now += SignedDuration::from_secs(5);
    }

    /// One life of the process; `None` if it was killed.
    fn process(&mut self) -> Option<End> {
        if self.write(Record::Began) {
            return None;
        }
        loop {
            self.rounds += 1;
            assert!(self.rounds < 100_000, "no end in sight\n{}", self.trace());
            self.wake();
            let snapshot = self.observe();
            match decide(&self.plan, &self.state, &snapshot, self.now) {
                Decision::Done => {
                    assert!(self.in_flight.is_empty());
                    return Some(End::Done);
                }
                Decision::Run(starts) => {
                    assert!(!starts.is_empty());
                    if self.begin_all(starts) {
                        return None;
                    }
                }
                Decision::Halt { reason, finish, .. } => {
                    if self.state.halted().is_none()
                        && self.write(Record::Halted { why: reason.clone() })
                    {
                        return None;
                    }
                    if finish.is_empty() {
                        return Some(End::Halted(reason));
                    }
                    if self.begin_all(finish) {
                        return None;
                    }
                }
                Decision::Wait { reason, until, gives_up } => {
                    assert!(until > self.now, "rule 11: {reason} until {until}");
                    let key = reason.key();
                    self.waits.insert(key.clone());
                    if gives_up
                        && self.state.waiting_since(&key).is_none()
                        && self.write(Record::Waiting { key: key.clone() })
                    {
                        return None;
                    }
                    if key == "paused" {
                        return Some(End::Idle(reason.to_string()));
                    }
                    if self.pass_time(until) {
                        return None;
                    }
                }
            }
        }
    }

    /// Lets time go by until something ends, or until the wait is over.
    fn pass_time(&mut self, until: Timestamp) -> bool {
        // A real engine looks again every now and then; so does this one.
        let look = self.now + SignedDuration::from_secs(30);
        let next = self.in_flight.iter().map(|flight| flight.ends).min().unwrap_or(look);
        self.now = self.now.max(next.min(until));
        self.wake();
        while let Some(at) = self.in_flight.iter().position(|flight| flight.ends <= self.now) {
            let flight = self.in_flight.remove(at);
            if self.end(flight) {
                return true;
            }
        }
        false
    }

    fn begin_all(&mut self, starts: Vec<Start>) -> bool {
        starts.into_iter().any(|start| self.begin(&start))
    }

    fn begin(&mut self, start: &Start) -> bool {
        let Start { step, attempt, look_first } = start.clone();
        let evidence = self.evidence(&step);
        let first = self.state.step(&step).unwrap().evidence.clone();
        let number = self.entries.len();
        if self.write(Record::Started { step: step.clone(), attempt, evidence }) {
            return true;
        }
        // Look first: did an earlier attempt reboot the node?
        let happened = match (&first, step.action) {
            (Some(Evidence::BootId(before)), Action::Reboot | Action::Upgrade) => {
                assert!(look_first, "rule 8: {step} must look first");
                self.talos(&step).boot_id != *before
            }
            _ => false,
        };
        if !happened {
            self.act(&step);
        }
        let ends = self.now + duration(step.action);
        self.in_flight.push(InFlight { ends, step, attempt, acted: !happened });
        matches!(self.crash, Some(Crash::AfterAct(at)) if at == number)
    }

    fn evidence(&self, step: &StepId) -> Option<Evidence> {
        let node = self.truth.nodes.get(step.node.as_ref()?)?;
        match step.action {
            Action::Reboot | Action::Upgrade => {
                Some(Evidence::BootId(node.talos.known()?.boot_id.clone()))
            }
            Action::Cordon => Some(Evidence::WasCordoned(node.kubernetes.known()?.unschedulable)),
            _ => None,
        }
    }

    fn talos(&mut self, step: &StepId) -> &mut upgrade_core::snapshot::TalosFacts {
        super::talos(&mut self.truth, &step.node.as_ref().unwrap().0)
    }

    /// What the act does to the world at once.
    fn act(&mut self, step: &StepId) {
        if let Some(node) = &step.node
            && step.action.is_disruptive()
            && self.truth.nodes[node].role == Role::ControlPlane
        {
            assert!(self.snapshot_taken.contains(&step.hop), "rule 3: {step}");
        }
        match step.action {
            Action::Cordon => {
                let node = step.node.clone().unwrap();
                super::kubernetes(&mut self.truth, &node.0).unschedulable = true;
            }
            Action::Reboot | Action::Upgrade => {
                let node = step.node.clone().unwrap();
                *self.reboots.entry((step.hop, node.clone())).or_default() += 1;
                self.talos(step).stage = Stage::Rebooting;
                super::kubernetes(&mut self.truth, &node.0).ready = false;
                self.lead_elsewhere(&node);
                self.boots += 1;
                let boots = self.boots;
                let back = self.trouble_at(step);
                let to = self.target(step);
                let facts = self.talos(step);
                facts.boot_id = format!("boot-{boots}");
                if !matches!(back, Some(Trouble::BootsBack)) {
                    facts.version = to;
                }
            }
            Action::Forfeit => {
                let node = step.node.clone().unwrap();
                self.lead_elsewhere(&node);
            }
            _ => {}
        }
        self.referee();
    }

    fn trouble_at(&self, step: &StepId) -> Option<Trouble> {
        let name = step.to_string();
        self.trouble.get(&name).cloned()
    }

    fn target(&self, step: &StepId) -> Version {
        self.plan.hops[step.hop as usize - 1].change.to().clone()
    }

    fn lead_elsewhere(&mut self, node: &NodeName) {
        let facts: &mut EtcdFacts = super::etcd(&mut self.truth);
        if facts.leader() == Some(node)
            && let Some(next) = facts.members.iter().find(|member| member.node != *node)
        {
            let id: MemberId = next.id;
            for member in &mut facts.members {
                if let Fact::Known(status) = &mut member.status {
                    status.leader = Some(id);
                    status.term += 1;
                }
            }
        }
    }

    /// Nodes that somebody rebooted come back by themselves.
    fn wake(&mut self) {
        let now = self.now;
        let due: Vec<NodeName> =
            self.waking.extract_if(.., |(at, _)| *at <= now).map(|(_, node)| node).collect();
        for node in due {
            self.up(&node);
        }
    }

    fn up(&mut self, node: &NodeName) {
        super::talos(&mut self.truth, &node.0).stage = Stage::Running;
        super::kubernetes(&mut self.truth, &node.0).ready = true;
    }

    /// A step ends: what it leaves, and what the journal says.
    fn end(&mut self, flight: InFlight) -> bool {
        let InFlight { step, attempt, .. } = flight;
        let outcome = self.outcome(&step);
        self.referee();
        self.write(Record::Finished { step, attempt, outcome })
    }

    fn outcome(&mut self, step: &StepId) -> Outcome {
        let failed = |kind, text: &str| Outcome::Failed { failure: Failure::new(kind, text) };
        match self.trouble_at(step) {
            Some(Trouble::Fails(kind, times)) => {
                let met = self.failures.entry(step.clone()).or_default();
                if *met < times {
                    *met += 1;
                    return failed(kind, "as the test wants it");
                }
            }
            Some(Trouble::NeverReturns) => {
                return failed(FailureKind::NeverReturned, "the node did not come back");
            }
            _ => {}
        }
        let to = self.target(step);
        match step.action {
            Action::SnapshotEtcd => {
                self.snapshot_taken.insert(step.hop);
                let proof = Proof::EtcdSnapshot {
                    file: format!("etcd-{}.snapshot", step.hop),
                    sha256: "00".to_owned(),
                    bytes: 1,
                };
                return Outcome::Done { proof: Some(proof) };
            }
            Action::Reboot | Action::Upgrade => self.up(&step.node.clone().unwrap()),
            Action::Verify if self.talos(step).version != to => {
                return failed(FailureKind::BootBack, "the node runs its old version");
            }
            Action::Uncordon => {
                let node = step.node.clone().unwrap();
                let found = self.state.found_cordoned(&node);
                super::kubernetes(&mut self.truth, &node.0).unschedulable = found;
            }
            action => {
                if let (Some(component), Some(node)) = (action.component(), &step.node) {
                    self.set(&node.clone(), component, &to);
                }
            }
        }
        Outcome::Done { proof: None }
    }

    fn set(&mut self, node: &NodeName, component: Component, to: &Version) {
        let node = self.truth.nodes.get_mut(node).unwrap();
        if let Fact::Known(images) = &mut node.images {
            let next = images[&component].with_tag(&to.tag());
            images.insert(component, next);
        }
        if let (Component::Kubelet, Fact::Known(facts)) = (component, &mut node.kubernetes) {
            facts.kubelet = to.clone();
        }
        let images = self.truth.nodes.values().filter_map(|node| node.images.known());
        let lowest = images.flat_map(|images| images.values()).filter_map(ImageRef::version).min();
        self.truth.kubernetes = Fact::Known(lowest.unwrap());
    }

    /// Installers keep track of what they installed only where a test looks.
    pub fn observe(&mut self) -> Snapshot {
        let now = self.now;
        if let Some(meddle) = &mut self.meddle {
            meddle(&mut self.truth, now);
        }
        self.now += SignedDuration::from_millis(1);
        let mut snapshot = self.truth.clone();
        snapshot.taken_at = self.now;
        self.now += SignedDuration::from_millis(1);
        snapshot
    }

    /// The rules, checked on the world itself.
    fn referee(&mut self) {
        let away = |role: Role| -> Vec<&NodeName> {
            let nodes = self.truth.nodes_with(role);
            nodes
                .filter(|(_, node)| {
                    let cordoned = node.kubernetes.known().is_some_and(|facts| facts.unschedulable);
                    !node.is_up() || cordoned
                })
                .map(|(name, _)| name)
                .collect()
        };
        let control_planes = away(Role::ControlPlane);
        assert!(control_planes.len() <= 1, "rule 1: {control_planes:?}\n{}", self.trace());
        let workers = away(Role::Worker).len();
        self.most_workers_away = self.most_workers_away.max(workers);
        let hop = self.plan.hops.first();
        if let Some(hop) = hop.filter(|hop| hop.pool_limits.is_empty()) {
            let os = matches!(hop.change, Change::Talos { .. });
            // Workers that were down before we came are not our doing.
            let limit = hop.limit.max(self.down_at_start);
            assert!(!os || workers <= limit, "rule 6: {workers}\n{}", self.trace());
        }
        self.armed_at_most_a_wave_ahead();
    }

    /// Nobody is armed beyond the wave after the one at hand.
    fn armed_at_most_a_wave_ahead(&self) {
        let done = |step: &StepId| {
            self.state
                .step(step)
                .is_some_and(|state| state.phase == upgrade_core::journal::Phase::Done)
        };
        for hop in &self.plan.hops {
            let current = hop.waves.iter().position(|wave| {
                wave.lanes.iter().any(|lane| {
                    lane.steps.iter().any(|action| {
                        let node = lane.node.clone();
                        !done(&StepId { hop: hop.number, node, action: *action })
                    })
                })
            });
            let Some(current) = current else { continue };
            let beyond = hop.waves.iter().skip(current + 2).flat_map(|wave| &wave.lanes);
            for lane in beyond.filter(|lane| matches!(lane.target, Target::Talos(_))) {
                let armed = self.state.armed().contains(lane.node.as_ref().unwrap());
                assert!(!armed, "armed too early: {:?}\n{}", lane.node, self.trace());
            }
            return;
        }
    }

    pub fn cordoned(&self) -> Vec<&NodeName> {
        let nodes = self.truth.nodes.iter();
        nodes
            .filter(|(_, node)| node.kubernetes.known().is_some_and(|facts| facts.unschedulable))
            .map(|(name, _)| name)
            .collect()
    }
}

fn duration(action: Action) -> SignedDuration {
    SignedDuration::from_secs(match action {
        Action::Pull => 45,
        Action::Install => 20,
        Action::Drain => 15,
        Action::Reboot => 60,
        Action::Upgrade => 80,
        Action::Verify => 30,
        Action::SnapshotEtcd => 5,
        _ => 1,
    })
}
