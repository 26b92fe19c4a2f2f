//! The fold of a plan's journal: what is remembered, and nothing else.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use jiff::Timestamp;
use thiserror::Error;

use super::armed::ArmedNodes;
use super::{Armed, Arming, Entry, Evidence, Outcome, Proof, Record};
use crate::plan::{Plan, PlanHash};
use crate::reason::{Failure, FailureKind, HaltReason};
use crate::snapshot::NodeName;
use crate::step::{Action, StepId, StepKind};

/// The key of a wait that the clock ends, during which no deadline runs.
const WINDOW: &str = "window";

/// Where a step stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not begun.
    Pending,
    /// Under way in the process that has the run.
    Running {
        /// Since when.
        since: Timestamp,
    },
    /// Begun by a process that is gone; it may or may not have acted (rule 8).
    InDoubt,
    /// Ended well: done or skipped.
    Done,
    /// Ended badly.
    Failed {
        /// When.
        at: Timestamp,
        /// How.
        failure: Failure,
    },
}

/// All that is remembered of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepState {
    /// Attempts begun so far; the latest one's number.
    pub attempts: u32,
    /// Attempts begun since a user last resumed the run.
    pub tried: u32,
    /// Where it stands.
    pub phase: Phase,
    /// What was true before the latest attempt.
    pub evidence: Option<Evidence>,
}

/// An entry that does not fit the journal before it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FoldError {
    /// Rule 9.
    #[error("the entry belongs to plan {found}, the journal to plan {expected}")]
    OtherPlan {
        /// The journal's.
        expected: PlanHash,
        /// The entry's.
        found: PlanHash,
    },
    /// Not a step of this plan.
    #[error("the plan has no step {0}")]
    UnknownStep(StepId),
    /// A step ended that was not under way, or another attempt of it is.
    #[error("{step} ended its attempt {attempt}, which was not under way")]
    NotRunning {
        /// Which.
        step: StepId,
        /// The attempt.
        attempt: u32,
    },
    /// A step began while it was under way, or after its end (rule 8).
    #[error("{0} began although it was under way or done")]
    BeganTwice(StepId),
}

/// The fold of a plan's journal.
#[derive(Clone, Debug)]
pub struct State {
    plan: PlanHash,
    index: HashMap<StepId, usize>,
    actions: Vec<Action>,
    /// Where the lane of each step begins and ends among all steps.
    lanes: Vec<Range<usize>>,
    steps: Vec<StepState>,
    armed: ArmedNodes,
    cordons: BTreeMap<NodeName, bool>,
    /// Cordons of an earlier run that are not lifted yet.
    inherited: BTreeSet<NodeName>,
    /// Whether it was written down what is taken over.
    took_over: bool,
    snapshots: BTreeMap<u32, Proof>,
    waiting: BTreeMap<String, Timestamp>,
    paused: Option<String>,
    halted: Option<HaltReason>,
    completed: bool,
    observe_after: Option<Timestamp>,
    last_at: Option<Timestamp>,
}

impl State {
    /// The state of a plan of which nothing was done yet.
    pub fn new(plan: &Plan) -> Self {
        let ids: Vec<StepId> = plan.steps().collect();
        let pending = StepState { attempts: 0, tried: 0, phase: Phase::Pending, evidence: None };
        Self {
            plan: plan.hash(),
            actions: ids.iter().map(|id| id.action).collect(),
            lanes: lanes_of(plan),
            steps: vec![pending; ids.len()],
            index: ids.into_iter().enumerate().map(|(position, id)| (id, position)).collect(),
            armed: ArmedNodes::new(plan),
            cordons: BTreeMap::new(),
            inherited: BTreeSet::new(),
            took_over: false,
            snapshots: BTreeMap::new(),
            waiting: BTreeMap::new(),
            paused: None,
            halted: None,
            completed: false,
            observe_after: None,
            last_at: None,
        }
    }

    /// Folds a whole journal.
    pub fn fold<'a>(
        plan: &Plan,
        entries: impl IntoIterator<Item = &'a Entry>,
    ) -> Result<Self, FoldError> {
        let mut state = Self::new(plan);
        for entry in entries {
            state.apply(entry)?;
        }
        Ok(state)
    }

    /// Takes one more entry in. An entry that does not fit changes nothing.
    pub fn apply(&mut self, entry: &Entry) -> Result<(), FoldError> {
        let Entry { at, plan, runner: _, record } = entry;
        if *plan != self.plan {
            return Err(FoldError::OtherPlan { expected: self.plan.clone(), found: plan.clone() });
        }
        match record {
            Record::Began => self.took_over(*at),
            Record::Inherited { cordons, armed } => {
                self.inherited.extend(cordons.iter().cloned());
                self.armed.inherit(armed);
                self.took_over = true;
            }
            Record::Lifted { node } => {
                self.inherited.remove(node);
            }
            Record::Started { step, attempt, evidence } => {
                self.started(*at, step, *attempt, evidence.as_ref())?;
            }
            Record::Finished { step, attempt, outcome } => {
                self.finished(*at, step, *attempt, outcome)?;
            }
            Record::Waiting { key } => self.waits(*at, key),
            Record::Paused { by } => self.paused = Some(by.clone()),
            Record::Resumed { by: _ } => self.resumed(),
            Record::Halted { why } => self.halted = Some(why.clone()),
            Record::Completed => self.completed = true,
        }
        self.last_at = self.last_at.max(Some(*at));
        Ok(())
    }

    fn took_over(&mut self, at: Timestamp) {
        for step in &mut self.steps {
            if matches!(step.phase, Phase::Running { .. }) {
                step.phase = Phase::InDoubt;
            }
        }
        // Whatever the former process did, this one has not seen it (rule 2).
        self.observe_after = Some(at);
    }

    /// What is waited for, each since it was first met. Two gates that close in
    /// turn are both remembered: their deadlines run until something begins, or
    /// until the clock's own wait for a window stops them (rule 11).
    fn waits(&mut self, at: Timestamp, key: &str) {
        if key == WINDOW {
            self.waiting.clear();
        } else {
            self.waiting.entry(key.to_owned()).or_insert(at);
        }
    }

    fn resumed(&mut self) {
        self.paused = None;
        self.halted = None;
        self.waiting.clear();
        for step in &mut self.steps {
            step.tried = 0;
            if matches!(step.phase, Phase::Failed { .. }) {
                // Not pending: a failed act may have happened, so the next attempt has to
                // check first (rules 5 and 8).
                step.phase = Phase::InDoubt;
            }
        }
    }

    fn started(
        &mut self,
        at: Timestamp,
        id: &StepId,
        attempt: u32,
        evidence: Option<&Evidence>,
    ) -> Result<(), FoldError> {
        let step = self.step_mut(id)?;
        if matches!(step.phase, Phase::Running { .. } | Phase::Done) {
            return Err(FoldError::BeganTwice(id.clone()));
        }
        step.attempts = attempt;
        step.tried += 1;
        step.phase = Phase::Running { since: at };
        // Taking up a step in doubt must not forget what was true before its
        // first attempt: that is the proof of whether it happened.
        if step.evidence.is_none() {
            step.evidence = evidence.cloned();
        }
        let boot_id = step.evidence.as_ref().and_then(Evidence::boot_id).map(str::to_owned);
        self.waiting.clear();
        self.armed.started(id, boot_id.as_deref());
        if let (Some(node), Action::Cordon, Some(Evidence::WasCordoned(found))) =
            (&id.node, id.action, evidence)
        {
            // The evidence of the first attempt counts: a second attempt may find our
            // own cordon.
            self.cordons.entry(node.clone()).or_insert(*found);
            self.inherited.remove(node);
        }
        Ok(())
    }

    fn finished(
        &mut self,
        at: Timestamp,
        id: &StepId,
        attempt: u32,
        outcome: &Outcome,
    ) -> Result<(), FoldError> {
        let step = self.step_mut(id)?;
        if !matches!(step.phase, Phase::Running { .. }) || step.attempts != attempt {
            return Err(FoldError::NotRunning { step: id.clone(), attempt });
        }
        step.phase = match outcome {
            Outcome::Done { .. } | Outcome::Skipped { .. } => Phase::Done,
            Outcome::Failed { failure } => Phase::Failed { at, failure: failure.clone() },
        };
        let well = step.phase == Phase::Done;
        if let (Some(node), Action::Cordon, Outcome::Skipped { .. }) =
            (&id.node, id.action, outcome)
            && let Some(found) = self.cordons.get_mut(node)
        {
            // Another user cordoned it after the first attempt began.
            *found = true;
        }
        if id.action.is_disruptive() {
            self.observe_after = self.observe_after.max(Some(at));
        }
        if let Outcome::Done { proof: Some(proof @ Proof::EtcdSnapshot { .. }) } = outcome {
            self.snapshots.insert(id.hop, proof.clone());
        }
        if let (Some(node), Outcome::Failed { failure }) = (&id.node, outcome)
            && failure.kind == FailureKind::BootBack
        {
            // The boot loader has gone back for good: the next boot is into the
            // version that runs.
            self.armed.booted(node);
        } else {
            self.armed.finished(id, outcome);
        }
        if let (Some(node), true, Action::Uncordon) = (&id.node, well, id.action) {
            self.cordons.remove(node);
            self.gave_up(id);
        }
        Ok(())
    }

    /// A node that is uncordoned before it was verified takes workloads again. If the run is
    /// resumed later, the node has to be cordoned and drained again, and may lead etcd again by
    /// then (rule 1). A reboot that may have happened stays in doubt (rule 8).
    fn gave_up(&mut self, uncordon: &StepId) {
        let Some(position) = self.index.get(uncordon) else { return };
        let lane = self.lanes[*position].clone();
        let mut checks = lane.clone().filter(|step| self.actions[*step] == Action::Verify);
        if checks.all(|step| self.steps[step].phase == Phase::Done) {
            return;
        }
        for position in lane {
            if self.actions[position].kind() != StepKind::Drain {
                continue;
            }
            let step = &mut self.steps[position];
            // The next attempt checks again whose cordon the node has, also after
            // an attempt that failed (rule 7).
            step.evidence = None;
            if !matches!(step.phase, Phase::Failed { .. }) {
                step.phase = Phase::Pending;
            }
        }
    }

    fn step_mut(&mut self, id: &StepId) -> Result<&mut StepState, FoldError> {
        match self.index.get(id) {
            Some(position) => Ok(&mut self.steps[*position]),
            None => Err(FoldError::UnknownStep(id.clone())),
        }
    }

    /// The plan this state belongs to.
    pub fn plan(&self) -> &PlanHash {
        &self.plan
    }

    /// What is remembered of a step.
    pub fn step(&self, id: &StepId) -> Option<&StepState> {
        self.index.get(id).map(|position| &self.steps[*position])
    }

    /// What is remembered of all steps, in plan order.
    pub fn steps(&self) -> &[StepState] {
        &self.steps
    }

    /// How many steps are done, and how many there are.
    pub fn progress(&self) -> (usize, usize) {
        let done = self.steps.iter().filter(|step| step.phase == Phase::Done).count();
        (done, self.actions.len())
    }

    /// Nodes that an installer ran on and that have not booted since, those of
    /// earlier runs included.
    pub fn armed(&self) -> &BTreeMap<NodeName, Armed> {
        self.armed.nodes()
    }

    /// Nodes whose next boot is into another version, or may be. All others are
    /// not armed.
    pub fn next_boots(&self) -> Vec<(NodeName, Arming)> {
        self.armed.next_boots()
    }

    /// What this run leaves armed (rule 5). `inherited` are those of an earlier run
    /// that it was told of; it may have died before it wrote them down.
    pub fn armed_left(&self, inherited: &BTreeMap<NodeName, Armed>) -> BTreeMap<NodeName, Armed> {
        let mut left = if self.took_over { BTreeMap::new() } else { inherited.clone() };
        left.extend(self.armed().iter().map(|(node, armed)| (node.clone(), armed.clone())));
        left
    }

    /// Nodes that we cordoned and have not uncordoned (rule 7).
    pub fn our_cordons(&self) -> impl Iterator<Item = &NodeName> {
        self.cordons.iter().filter(|(_, found)| !**found).map(|(node, _)| node)
    }

    /// Nodes that an earlier run cordoned, and that were not uncordoned since.
    pub fn inherited_cordons(&self) -> &BTreeSet<NodeName> {
        &self.inherited
    }

    /// Whether it was written down which cordons and armed nodes of an earlier run
    /// are taken over. From then on the journal knows what became of each.
    pub fn has_inherited(&self) -> bool {
        self.took_over
    }

    /// Nodes whose cordon is still ours to lift when this run is left as it is
    /// (rule 7). `inherited` are those of an earlier run that it was told of; it may have
    /// died before it wrote them down.
    pub fn cordons_left(&self, inherited: &BTreeSet<NodeName>) -> BTreeSet<NodeName> {
        if self.completed {
            return BTreeSet::new();
        }
        let inherited = if self.took_over { &self.inherited } else { inherited };
        self.our_cordons().chain(inherited).cloned().collect()
    }

    /// Whether the node had a cordon that is not ours before its lane started.
    pub fn found_cordoned(&self, node: &NodeName) -> bool {
        self.cordons.get(node).copied().unwrap_or(false)
    }

    /// The snapshot taken for a hop (rule 3).
    pub fn snapshot(&self, hop: u32) -> Option<&Proof> {
        self.snapshots.get(&hop)
    }

    /// Since when the run waits for the thing with this key.
    pub fn waiting_since(&self, key: &str) -> Option<Timestamp> {
        self.waiting.get(key).copied()
    }

    /// Whether the run waits for anything that has a deadline.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// What paused the run.
    pub fn paused(&self) -> Option<&str> {
        self.paused.as_deref()
    }

    /// Why the run stopped.
    pub fn halted(&self) -> Option<&HaltReason> {
        self.halted.as_ref()
    }

    /// Whether everything was done.
    pub fn completed(&self) -> bool {
        self.completed
    }

    /// The time of the latest entry, by the clock of the process that wrote it.
    pub fn last_at(&self) -> Option<Timestamp> {
        self.last_at
    }

    /// An observation must be newer than this before anything more is
    /// disrupted (rule 2).
    pub fn observe_after(&self) -> Option<Timestamp> {
        self.observe_after
    }
}

/// For each step of a plan, its lane: where that begins and ends among all steps.
fn lanes_of(plan: &Plan) -> Vec<Range<usize>> {
    let mut lanes = Vec::new();
    for (_, lane) in plan.lanes() {
        let range = lanes.len()..lanes.len() + lane.steps.len();
        lanes.resize(range.end, range);
    }
    lanes
}
