//! A cluster that does what it is asked, in memory, with a clock of its own.
//!
//! It knows nothing of how `decide` thinks. It checks the rules of the design at
//! every change of its own state, and it can lose the process that drives it at
//! any journal entry.

mod acts;
mod referee;

use std::collections::{BTreeMap, BTreeSet};

use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::journal::{Entry, Record, State};
use upgrade_core::plan::Plan;
use upgrade_core::reason::{FailureKind, HaltReason};
use upgrade_core::snapshot::{NodeName, Role, Snapshot};
use upgrade_core::step::{Action, StepId};
use upgrade_planner::decide::{Decision, Start, Tried, decide};

/// Where the process dies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Crash {
    /// Right after this journal entry was written, before anything is done.
    AfterEntry(usize),
    /// After the act that this entry announced, before its end is written.
    AfterAct(usize),
}

/// What goes wrong, by step name.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// The step fails this often, then works.
    Fails(FailureKind, u32),
    /// The node comes back on its old version.
    BootsBack,
    /// The node stays down.
    NeverReturns,
}

/// Changes the world behind everybody's back.
pub(crate) type Disturb = Box<dyn FnMut(&mut Snapshot, Timestamp)>;

struct InFlight {
    ends: Timestamp,
    step: StepId,
    attempt: u32,
    acted: bool,
}

pub(crate) struct World {
    pub(crate) now: Timestamp,
    pub(crate) truth: Snapshot,
    pub(crate) plan: Plan,
    pub(crate) entries: Vec<Entry>,
    pub(crate) state: State,
    pub(crate) tried: Tried,
    pub(crate) crash: Option<Crash>,
    pub(crate) trouble: BTreeMap<String, Trouble>,
    /// How often each node was rebooted in each hop.
    pub(crate) reboots: BTreeMap<(u32, NodeName), usize>,
    pub(crate) most_workers_away: usize,
    /// Waits that were met, by key.
    pub(crate) waits: BTreeSet<String>,
    /// Something to do to the world before each decision.
    pub(crate) disturb: Option<Disturb>,
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
pub(crate) enum End {
    Done,
    Halted(HaltReason),
    /// Nothing more happens by itself: paused, for example.
    Idle(String),
}

impl World {
    pub(crate) fn new(truth: Snapshot, plan: Plan) -> Self {
        Self {
            now: "2026-11-15T00:00:00Z".parse().unwrap(),
            state: State::new(&plan),
            tried: Tried::default(),
            down_at_start: truth.nodes_with(Role::Worker).filter(|(_, node)| !node.is_up()).count(),
            truth,
            plan,
            entries: vec![],
            crash: None,
            trouble: BTreeMap::new(),
            reboots: BTreeMap::new(),
            most_workers_away: 0,
            waits: BTreeSet::new(),
            disturb: None,
            in_flight: vec![],
            failures: BTreeMap::new(),
            boots: 0,
            snapshot_taken: BTreeSet::new(),
            waking: vec![],
            rounds: 0,
        }
    }

    /// Writes an entry; `true` if the process dies with it.
    pub(crate) fn write(&mut self, record: Record) -> bool {
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
    pub(crate) fn trace(&self) -> String {
        let line = |entry: &Entry| format!("{} {:?}", entry.at, entry.record);
        self.entries.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Runs until the end, starting again after a crash.
    pub(crate) fn run(&mut self) -> End {
        loop {
            match self.process() {
                Some(end) => return end,
                None => self.restart(),
            }
        }
    }

    /// Runs until the process ends or is killed; `None` if it was killed.
    pub(crate) fn run_one_life(&mut self) -> Option<End> {
        let end = self.process();
        if end.is_none() {
            self.restart();
        }
        end
    }

    fn restart(&mut self) {
        self.crash = None;
        self.tried = Tried::default();
        // Only the journal is left of the old process; what it had started on
        // the nodes continues by itself.
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
            match self.decided(&snapshot) {
                Decision::Lift(lifts) => panic!("tried on this observation already: {lifts:?}"),
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
                Decision::Wait { reason, until, gives_up, .. } => {
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

    /// What is decided once cordons of an earlier run were tried: the API server of this world
    /// refuses to lift any.
    fn decided(&mut self, snapshot: &Snapshot) -> Decision {
        match decide(&self.plan, &self.state, &self.tried, snapshot, self.now) {
            Decision::Lift(_) => {
                self.tried.lifted_on = Some(snapshot.taken_at);
                decide(&self.plan, &self.state, &self.tried, snapshot, self.now)
            }
            decision => decision,
        }
    }

    /// Lets time go by until something ends, or until the wait is over.
    fn pass_time(&mut self, until: Timestamp) -> bool {
        // A real engine observes again from time to time; so does this one.
        let poll = self.now + SignedDuration::from_secs(30);
        let next = self.in_flight.iter().map(|flight| flight.ends).min().unwrap_or(poll);
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

    /// Observes the world. A test may change the world right before.
    fn observe(&mut self) -> Snapshot {
        let now = self.now;
        if let Some(disturb) = &mut self.disturb {
            disturb(&mut self.truth, now);
        }
        self.now += SignedDuration::from_millis(1);
        let mut snapshot = self.truth.clone();
        snapshot.taken_at = self.now;
        self.now += SignedDuration::from_millis(1);
        snapshot
    }

    pub(crate) fn cordoned(&self) -> Vec<&NodeName> {
        let nodes = self.truth.nodes.iter();
        nodes
            .filter(|(_, node)| node.kubernetes.known().is_some_and(|facts| facts.unschedulable))
            .map(|(name, _)| name)
            .collect()
    }
}
