//! The journal: memory for what cannot be observed.
//!
//! Entries are appended and synced before an act and after it, so that a process
//! killed at any instant is followed by one that knows what may have happened
//! (rule 8). [`State`] is the fold of all entries of one plan.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::plan::{Plan, PlanHash};
use crate::reason::{Failure, HaltReason};
use crate::snapshot::NodeName;
use crate::step::{Action, StepId};

/// What was true right before an act, for telling later whether it happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// The boot ID before a reboot.
    BootId(String),
    /// Whether the node was cordoned before we came (rule 7).
    WasCordoned(bool),
}

/// What a finished step leaves behind that cannot be observed later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Proof {
    /// A verified etcd snapshot (rule 3).
    EtcdSnapshot {
        /// Where it lies.
        file: String,
        /// Its SHA-256.
        sha256: String,
        /// Its size.
        bytes: u64,
    },
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// It did its work.
    Done {
        /// What to remember of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proof: Option<Proof>,
    },
    /// There was nothing to do.
    Skipped {
        /// Why.
        why: String,
    },
    /// It failed.
    Failed {
        /// How.
        failure: Failure,
    },
}

/// One thing worth remembering.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub enum Record {
    /// A process took the run over. What was started before and has no end is
    /// in doubt from here on.
    Began,
    /// A step is about to act.
    Started {
        /// Which.
        step: StepId,
        /// From 1.
        attempt: u32,
        /// What was true before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence: Option<Evidence>,
    },
    /// A step ended.
    Finished {
        /// Which.
        step: StepId,
        /// The attempt that ended.
        attempt: u32,
        /// How.
        #[serde(flatten)]
        outcome: Outcome,
    },
    /// The run began to wait for something that has a deadline.
    Waiting {
        /// The [`key`](crate::reason::WaitReason::key) of what is waited for.
        key: String,
    },
    /// A person asked for a pause (rule 12).
    Paused {
        /// Who.
        by: String,
    },
    /// A person asked to go on, after a pause or a halt.
    Resumed {
        /// Who.
        by: String,
    },
    /// The run stopped until a person acts.
    Halted {
        /// Why. Named apart from the field that tags a reason's own kind.
        why: HaltReason,
    },
    /// Everything planned is done.
    Completed,
}

/// A record with its time and its plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When it was written.
    pub at: Timestamp,
    /// The plan it belongs to (rule 9).
    pub plan: PlanHash,
    /// The process that wrote it.
    pub runner: String,
    /// What happened.
    #[serde(flatten)]
    pub record: Record,
}

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
    /// Attempts begun since a person last said to go on.
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
    steps: Vec<StepState>,
    armed: BTreeSet<NodeName>,
    cordons: BTreeMap<NodeName, bool>,
    snapshots: BTreeMap<u32, Proof>,
    waiting: Option<(String, Timestamp)>,
    paused: Option<String>,
    halted: Option<HaltReason>,
    completed: bool,
    observe_after: Option<Timestamp>,
}

impl State {
    /// The state of a plan of which nothing was done yet.
    pub fn new(plan: &Plan) -> Self {
        let ids: Vec<StepId> = plan.steps().collect();
        let pending = StepState { attempts: 0, tried: 0, phase: Phase::Pending, evidence: None };
        Self {
            plan: plan.hash(),
            actions: ids.iter().map(|id| id.action).collect(),
            steps: vec![pending; ids.len()],
            index: ids.into_iter().enumerate().map(|(position, id)| (id, position)).collect(),
            armed: BTreeSet::new(),
            cordons: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            waiting: None,
            paused: None,
            halted: None,
            completed: false,
            observe_after: None,
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
            Record::Started { step, attempt, evidence } => {
                self.started(*at, step, *attempt, evidence.as_ref())?;
            }
            Record::Finished { step, attempt, outcome } => {
                self.finished(*at, step, *attempt, outcome)?;
            }
            Record::Waiting { key } => self.waiting = Some((key.clone(), *at)),
            Record::Paused { by } => self.paused = Some(by.clone()),
            Record::Resumed { by: _ } => self.resumed(),
            Record::Halted { why } => self.halted = Some(why.clone()),
            Record::Completed => self.completed = true,
        }
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
        self.waiting = None;
    }

    fn resumed(&mut self) {
        self.paused = None;
        self.halted = None;
        self.waiting = None;
        for step in &mut self.steps {
            step.tried = 0;
            if matches!(step.phase, Phase::Failed { .. }) {
                // Not pending: a failed act may have happened all the same, and
                // whoever takes it up again must look first (rules 5 and 8).
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
        self.waiting = None;
        if let Some(node) = &id.node {
            match (id.action, evidence) {
                (Action::Install | Action::Upgrade, _) => {
                    self.armed.insert(node.clone());
                }
                (Action::Cordon, Some(Evidence::WasCordoned(found))) => {
                    // The first look counts: on a second attempt the cordon we
                    // find is our own.
                    self.cordons.entry(node.clone()).or_insert(*found);
                }
                _ => {}
            }
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
        if id.action.is_disruptive() {
            self.observe_after = self.observe_after.max(Some(at));
        }
        if let Outcome::Done { proof: Some(proof @ Proof::EtcdSnapshot { .. }) } = outcome {
            self.snapshots.insert(id.hop, proof.clone());
        }
        if let (Some(node), true) = (&id.node, well) {
            match id.action {
                Action::Verify => {
                    self.armed.remove(node);
                }
                Action::Uncordon => {
                    self.cordons.remove(node);
                    self.gave_up(id.hop, node);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Lifting a cordon before its node was verified gives the node back to the
    /// cluster: should the run go on later, it has to be cordoned and drained
    /// anew. What may have rebooted keeps its doubt (rule 8).
    fn gave_up(&mut self, hop: u32, node: &NodeName) {
        let id = |action| StepId { hop, node: Some(node.clone()), action };
        if self.step(&id(Action::Verify)).is_none_or(|step| step.phase == Phase::Done) {
            return;
        }
        for action in [Action::Cordon, Action::Drain, Action::Uncordon] {
            if let Ok(step) = self.step_mut(&id(action))
                && !matches!(step.phase, Phase::Failed { .. })
            {
                step.phase = Phase::Pending;
                step.evidence = None;
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

    /// Nodes whose inactive slot holds the new version, or may hold it.
    pub fn armed(&self) -> &BTreeSet<NodeName> {
        &self.armed
    }

    /// Nodes that we cordoned and have not uncordoned (rule 7).
    pub fn our_cordons(&self) -> impl Iterator<Item = &NodeName> {
        self.cordons.iter().filter(|(_, found)| !**found).map(|(node, _)| node)
    }

    /// Whether the node was cordoned by somebody else before we came.
    pub fn found_cordoned(&self, node: &NodeName) -> bool {
        self.cordons.get(node).copied().unwrap_or(false)
    }

    /// The snapshot taken for a hop (rule 3).
    pub fn snapshot(&self, hop: u32) -> Option<&Proof> {
        self.snapshots.get(&hop)
    }

    /// Since when the run waits for the thing with this key.
    pub fn waiting_since(&self, key: &str) -> Option<Timestamp> {
        self.waiting.as_ref().filter(|(waiting, _)| waiting == key).map(|(_, since)| *since)
    }

    /// Who paused the run.
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

    /// An observation must be newer than this before anything more is
    /// disrupted (rule 2).
    pub fn observe_after(&self) -> Option<Timestamp> {
        self.observe_after
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Change, Group, Hop, Lane, PLAN_FORMAT, Target, Versions, Wave};
    use crate::policy::Policy;
    use crate::reason::FailureKind;
    use crate::version::Version;

    fn plan() -> Plan {
        let lane = Lane {
            node: Some("w-1".into()),
            pool: None,
            target: Target::Cluster,
            steps: vec![
                Action::Install,
                Action::Cordon,
                Action::Drain,
                Action::Reboot,
                Action::Verify,
                Action::Uncordon,
            ],
        };
        Plan {
            format: PLAN_FORMAT,
            cluster: "prod".to_owned(),
            parent: None,
            rollback: false,
            from: Versions::default(),
            to: Versions::default(),
            policy: Policy::default(),
            hops: vec![Hop {
                number: 1,
                change: Change::Talos { from: Version::new(1, 13, 1), to: Version::new(1, 13, 2) },
                versions: Versions::default(),
                limit: 1,
                pool_limits: BTreeMap::new(),
                waves: vec![Wave { number: 1, group: Group::Workers, lanes: vec![lane] }],
            }],
        }
    }

    fn step(action: Action) -> StepId {
        StepId { hop: 1, node: Some("w-1".into()), action }
    }

    struct Writer {
        state: State,
        clock: i64,
        entries: Vec<Entry>,
    }

    impl Writer {
        fn new() -> Self {
            Self { state: State::new(&plan()), clock: 0, entries: vec![] }
        }

        fn write(&mut self, record: Record) -> Result<(), FoldError> {
            self.clock += 1;
            let entry = Entry {
                at: Timestamp::from_second(self.clock).unwrap(),
                plan: self.state.plan().clone(),
                runner: "test".to_owned(),
                record,
            };
            let result = self.state.apply(&entry);
            self.entries.push(entry);
            result
        }

        fn start(&mut self, action: Action, evidence: Option<Evidence>) {
            let attempt = self.state.step(&step(action)).unwrap().attempts + 1;
            self.write(Record::Started { step: step(action), attempt, evidence }).unwrap();
        }

        fn end(&mut self, action: Action, outcome: Outcome) {
            let attempt = self.state.step(&step(action)).unwrap().attempts;
            self.write(Record::Finished { step: step(action), attempt, outcome }).unwrap();
        }

        fn phase(&self, action: Action) -> &Phase {
            &self.state.step(&step(action)).unwrap().phase
        }
    }

    fn failed() -> Outcome {
        Outcome::Failed { failure: Failure::new(FailureKind::Drain, "pods remain") }
    }

    const DONE: Outcome = Outcome::Done { proof: None };

    #[test]
    fn a_takeover_puts_what_was_under_way_in_doubt() {
        // Rule 8.
        let mut journal = Writer::new();
        journal.start(Action::Reboot, Some(Evidence::BootId("a".to_owned())));
        journal.write(Record::Began).unwrap();
        assert_eq!(*journal.phase(Action::Reboot), Phase::InDoubt);
        journal.start(Action::Reboot, Some(Evidence::BootId("b".to_owned())));
        let evidence = journal.state.step(&step(Action::Reboot)).unwrap().evidence.clone();
        assert_eq!(evidence, Some(Evidence::BootId("a".to_owned())), "the first look counts");
    }

    #[test]
    fn arming_is_remembered_until_verified() {
        let mut journal = Writer::new();
        journal.start(Action::Install, None);
        assert!(journal.state.armed().contains(&"w-1".into()), "from the start of the act");
        journal.end(Action::Install, DONE);
        journal.start(Action::Verify, None);
        journal.end(Action::Verify, DONE);
        assert!(journal.state.armed().is_empty());
    }

    #[test]
    fn only_our_own_cordons_are_ours() {
        // Rule 7.
        for found in [false, true] {
            let mut journal = Writer::new();
            journal.start(Action::Cordon, Some(Evidence::WasCordoned(found)));
            journal.write(Record::Began).unwrap();
            // The second look finds the cordon that we set ourselves.
            journal.start(Action::Cordon, Some(Evidence::WasCordoned(true)));
            journal.end(Action::Cordon, DONE);
            assert_eq!(journal.state.our_cordons().count(), usize::from(!found));
            assert_eq!(journal.state.found_cordoned(&"w-1".into()), found);
        }
    }

    #[test]
    fn a_node_given_back_is_cordoned_and_drained_anew() {
        // Rules 7 and 8.
        let mut journal = Writer::new();
        journal.start(Action::Cordon, Some(Evidence::WasCordoned(false)));
        journal.end(Action::Cordon, DONE);
        journal.start(Action::Drain, None);
        journal.end(Action::Drain, failed());
        journal.start(Action::Uncordon, None);
        journal.end(Action::Uncordon, DONE);
        assert_eq!(*journal.phase(Action::Cordon), Phase::Pending);
        assert_eq!(*journal.phase(Action::Uncordon), Phase::Pending);
        assert!(matches!(journal.phase(Action::Drain), Phase::Failed { .. }));
        journal.write(Record::Resumed { by: "ada".to_owned() }).unwrap();
        assert_eq!(*journal.phase(Action::Drain), Phase::InDoubt);
        assert_eq!(journal.state.step(&step(Action::Drain)).unwrap().tried, 0);
    }

    #[test]
    fn entries_that_do_not_fit_are_refused_and_change_nothing() {
        // Rules 8 and 9.
        let mut journal = Writer::new();
        journal.start(Action::Drain, None);
        let again = Record::Started { step: step(Action::Drain), attempt: 2, evidence: None };
        assert_eq!(journal.write(again), Err(FoldError::BeganTwice(step(Action::Drain))));
        let other = Record::Finished { step: step(Action::Drain), attempt: 7, outcome: DONE };
        assert!(matches!(journal.write(other), Err(FoldError::NotRunning { attempt: 7, .. })));
        journal.end(Action::Drain, DONE);
        let after = Record::Started { step: step(Action::Drain), attempt: 2, evidence: None };
        assert!(journal.write(after).is_err());
        let unknown = Record::Started { step: step(Action::Forfeit), attempt: 1, evidence: None };
        assert!(matches!(journal.write(unknown), Err(FoldError::UnknownStep(_))));

        let foreign = Entry {
            at: Timestamp::UNIX_EPOCH,
            plan: serde_json::from_str("\"cafe\"").unwrap(),
            runner: "other".to_owned(),
            record: Record::Completed,
        };
        assert!(matches!(journal.state.apply(&foreign), Err(FoldError::OtherPlan { .. })));
        assert!(!journal.state.completed());
    }

    #[test]
    fn only_disruption_makes_an_observation_stale() {
        // Rule 2.
        let mut journal = Writer::new();
        journal.start(Action::Install, None);
        journal.end(Action::Install, DONE);
        assert_eq!(journal.state.observe_after(), None);
        journal.start(Action::Reboot, None);
        journal.end(Action::Reboot, DONE);
        assert_eq!(journal.state.observe_after(), Some(journal.entries.last().unwrap().at));
    }

    #[test]
    fn the_fold_of_json_lines_is_the_same_state() {
        let mut journal = Writer::new();
        journal.write(Record::Began).unwrap();
        journal.start(Action::Cordon, Some(Evidence::WasCordoned(false)));
        journal.end(Action::Cordon, DONE);
        journal.write(Record::Waiting { key: "etcd-unsafe/cp-1".to_owned() }).unwrap();
        journal.start(Action::Drain, None);
        journal.end(Action::Drain, failed());
        let why = HaltReason::StepFailed {
            step: step(Action::Drain),
            attempt: 1,
            failure: Failure::new(FailureKind::Drain, "pods remain"),
        };
        journal.write(Record::Halted { why: why.clone() }).unwrap();
        let lines: Vec<String> =
            journal.entries.iter().map(|entry| serde_json::to_string(entry).unwrap()).collect();
        let read: Vec<Entry> =
            lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read, journal.entries);
        let state = State::fold(&plan(), &read).unwrap();
        assert_eq!(state.steps(), journal.state.steps());
        assert_eq!(state.halted(), Some(&why));
        assert_eq!(state.progress(), (1, 6));
    }
}
