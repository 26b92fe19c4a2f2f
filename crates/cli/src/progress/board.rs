//! The state of a run as its events tell it: who does what since when, who
//! waits for what, how far everything is. Pure; the time is an argument.

use std::collections::{BTreeMap, HashSet};

use upgrade_core::event::{Event, EventKind, StepProgress};
use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::journal::{Outcome, Phase, State};
use upgrade_core::plan::{Hop, Plan};
use upgrade_core::reason::{HaltReason, WaitReason};
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::{Action, StepId};
use upgrade_planner::estimate;

use crate::story;

/// As long as less than this much of the estimate has passed, the pace of the
/// run says more about luck than about the cluster.
const TELLING: SignedDuration = SignedDuration::from_secs(60);

/// A step that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Which.
    pub step: StepId,
    /// Since when.
    pub since: Timestamp,
    /// From 1.
    pub attempt: u32,
    /// What it says of itself.
    pub message: Option<String>,
}

/// Where a lane stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Something is done to it.
    Busy(Running),
    /// Something else has to happen first.
    Waits(String),
    /// A step failed.
    Failed(Action, String),
    /// Nothing is left to do.
    Done,
}

/// One node's lane, or the cluster's.
#[derive(Clone, Debug, Default)]
struct Lane {
    running: Vec<Running>,
    failed: Option<(Action, String)>,
    left: usize,
}

/// The whole run.
#[derive(Clone, Debug)]
pub struct Board {
    plan: Plan,
    nodes: Vec<Option<NodeName>>,
    lanes: BTreeMap<Option<NodeName>, Lane>,
    done: HashSet<StepId>,
    total: usize,
    wait: Option<WaitReason>,
    halted: Option<HaltReason>,
    began: Option<Timestamp>,
    whole: SignedDuration,
    remaining: SignedDuration,
    remaining_at: Option<Timestamp>,
}

impl Board {
    /// The board of a run that begins, or goes on where `state` stands.
    pub fn new(plan: &Plan, state: &State) -> Self {
        let steps: Vec<StepId> = plan.steps().collect();
        let is_done =
            |step: &&StepId| state.step(step).is_some_and(|known| known.phase == Phase::Done);
        let mut nodes: Vec<Option<NodeName>> = story::nodes(plan).into_iter().map(Some).collect();
        if steps.iter().any(|step| step.node.is_none()) {
            nodes.push(None);
        }
        let mut board = Self {
            plan: plan.clone(),
            lanes: nodes.iter().map(|node| (node.clone(), Lane::default())).collect(),
            nodes,
            done: steps.iter().filter(is_done).cloned().collect(),
            total: steps.len(),
            wait: None,
            halted: None,
            began: None,
            whole: SignedDuration::ZERO,
            remaining: SignedDuration::ZERO,
            remaining_at: None,
        };
        for step in &steps {
            if !board.done.contains(step)
                && let Some(lane) = board.lanes.get_mut(&step.node)
            {
                lane.left += 1;
            }
        }
        board.whole = board.rest();
        board.remaining = board.whole;
        board
    }

    /// Takes one more event in.
    pub fn apply(&mut self, event: &Event) {
        let at = event.at;
        self.began.get_or_insert(at);
        match &event.kind {
            EventKind::StepStarted { step, attempt } => {
                self.wait = None;
                if self.done.remove(step)
                    && let Some(lane) = self.lanes.get_mut(&step.node)
                {
                    lane.left += 1;
                }
                let running =
                    Running { step: step.clone(), since: at, attempt: *attempt, message: None };
                if let Some(lane) = self.lanes.get_mut(&step.node) {
                    lane.failed = None;
                    lane.running.push(running);
                }
            }
            EventKind::StepProgress { step, progress: StepProgress { message, .. } } => {
                let lane = self.lanes.get_mut(&step.node);
                let mut running = lane.into_iter().flat_map(|lane| &mut lane.running);
                if let Some(running) = running.find(|running| running.step == *step) {
                    running.message = Some(message.clone());
                }
            }
            EventKind::StepFinished { step, attempt: _, outcome } => {
                self.finished(at, step, outcome);
            }
            EventKind::Waiting { why, until: _ } => self.wait = Some(why.clone()),
            EventKind::Halted { why } => self.halted = Some(why.clone()),
            EventKind::Resumed { .. } => {
                self.halted = None;
                for lane in self.lanes.values_mut() {
                    lane.failed = None;
                }
            }
            _ => {}
        }
    }

    fn finished(&mut self, at: Timestamp, step: &StepId, outcome: &Outcome) {
        let Some(lane) = self.lanes.get_mut(&step.node) else { return };
        lane.running.retain(|running| running.step != *step);
        match outcome {
            Outcome::Failed { failure } => {
                lane.failed = Some((step.action, failure.to_string()));
            }
            Outcome::Done { .. } | Outcome::Skipped { .. } => {
                if self.done.insert(step.clone()) {
                    lane.left = lane.left.saturating_sub(1);
                }
                self.remaining = self.rest();
                self.remaining_at = Some(at);
            }
        }
    }

    /// How long the planner thinks the rest takes, on a middling day.
    fn rest(&self) -> SignedDuration {
        let mut rest = self.plan.clone();
        for hop in &mut rest.hops {
            let number = hop.number;
            for lane in hop.waves.iter_mut().flat_map(|wave| &mut wave.lanes) {
                let node = &lane.node;
                lane.steps.retain(|action| {
                    let id = StepId { hop: number, node: node.clone(), action: *action };
                    !self.done.contains(&id)
                });
            }
        }
        let span = estimate(&rest).total;
        (span.low + span.high) / 2
    }

    /// How many steps are done, and how many there are.
    pub fn progress(&self) -> (usize, usize) {
        (self.done.len(), self.total)
    }

    /// The hop under way: the first that is not done.
    pub fn hop(&self) -> Option<&Hop> {
        self.plan.hops.iter().find(|hop| {
            hop.lanes().flat_map(|lane| lane.steps.iter().map(move |action| (lane, action))).any(
                |(lane, action)| {
                    let id = StepId { hop: hop.number, node: lane.node.clone(), action: *action };
                    !self.done.contains(&id)
                },
            )
        })
    }

    /// How many hops there are.
    pub fn hops(&self) -> usize {
        self.plan.hops.len()
    }

    /// How much longer it takes: the planner's estimate of the rest, stretched
    /// by how it has kept to it so far.
    pub fn left(&self, now: Timestamp) -> Option<SignedDuration> {
        let began = self.began?;
        let (done, total) = self.progress();
        if done == total {
            return None;
        }
        let estimated = self.whole - self.remaining;
        let elapsed = self.remaining_at.unwrap_or(now).duration_since(began);
        let pace = if estimated < TELLING || elapsed <= SignedDuration::ZERO {
            1.0
        } else {
            elapsed.as_secs_f64() / estimated.as_secs_f64()
        };
        let left = self.remaining.as_secs_f64() * pace;
        let since = now.duration_since(self.remaining_at.unwrap_or(began)).as_secs_f64();
        SignedDuration::try_from_secs_f64((left - since).max(0.0)).ok()
    }

    /// The lanes in the order of the plan: nodes, then the cluster.
    pub fn nodes(&self) -> impl Iterator<Item = Option<&NodeName>> {
        self.nodes.iter().map(Option::as_ref)
    }

    /// Where a lane stands.
    pub fn stage(&self, node: Option<&NodeName>) -> Stage {
        let Some(lane) = self.lanes.get(&node.cloned()) else {
            return Stage::Done;
        };
        // The newest of several: pulls run beside other things.
        if let Some(running) = lane.running.iter().max_by_key(|running| running.since) {
            return Stage::Busy(running.clone());
        }
        if let Some((action, why)) = &lane.failed {
            return Stage::Failed(*action, why.clone());
        }
        if lane.left == 0 {
            return Stage::Done;
        }
        Stage::Waits(self.why(node))
    }

    /// Why nothing is done to a node right now.
    fn why(&self, node: Option<&NodeName>) -> String {
        if self.halted.is_some() {
            return "the run halts".to_owned();
        }
        if let Some(wait) = &self.wait
            && concerns(wait, node)
        {
            return wait.to_string();
        }
        let busy: Vec<&str> = self
            .nodes
            .iter()
            .filter(|other| {
                let lane = self.lanes.get(*other);
                lane.is_some_and(|lane| !lane.running.is_empty())
            })
            .map(|other| other.as_ref().map_or("the cluster", |name| name.0.as_str()))
            .collect();
        match busy.as_slice() {
            [] => "its turn comes".to_owned(),
            [one] => format!("after {one}"),
            [one, two] => format!("after {one} and {two}"),
            [one, rest @ ..] => format!("after {one} and {} more", rest.len()),
        }
    }

    /// Why the run as a whole waits, if it does.
    pub fn waits_for(&self) -> Option<&WaitReason> {
        self.wait.as_ref().filter(|wait| !matches!(wait, WaitReason::Running { .. }))
    }
}

fn concerns(wait: &WaitReason, node: Option<&NodeName>) -> bool {
    match wait {
        WaitReason::EtcdUnsafe { node: held, .. }
        | WaitReason::ControlPlaneDown { node: held, .. }
        | WaitReason::NodeUnknown { node: held, .. }
        | WaitReason::CordonLeft { node: held } => Some(held) == node,
        WaitReason::Backoff { step, .. } => step.node.as_ref() == node,
        WaitReason::Window { .. }
        | WaitReason::Paused { .. }
        | WaitReason::StaleObservation { .. }
        | WaitReason::NoRoom { .. } => true,
        WaitReason::Running { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn event(plan: &Plan, seconds: i64, kind: EventKind) -> Event {
        Event { at: sample::time(seconds), cluster: "prod".to_owned(), plan: plan.hash(), kind }
    }

    fn started(step: &StepId) -> EventKind {
        EventKind::StepStarted { step: step.clone(), attempt: 1 }
    }

    fn ended(step: &StepId) -> EventKind {
        let outcome = Outcome::Done { proof: None };
        EventKind::StepFinished { step: step.clone(), attempt: 1, outcome }
    }

    #[test]
    fn a_run_ends_with_everything_done() {
        let plan = sample::plan();
        let mut board = Board::new(&plan, &State::new(&plan));
        assert_eq!(board.progress().0, 0);
        assert!(board.hop().is_some_and(|hop| hop.number == 1));
        for (step, second) in plan.steps().zip((0..).step_by(20)) {
            board.apply(&event(&plan, second, started(&step)));
            assert!(matches!(board.stage(step.node.as_ref()), Stage::Busy(_)), "{step}");
            board.apply(&event(&plan, second + 10, ended(&step)));
        }
        let (done, total) = board.progress();
        assert_eq!(done, total);
        assert!(board.hop().is_none());
        assert_eq!(board.left(sample::time(9999)), None);
        assert!(board.nodes().all(|node| board.stage(node) == Stage::Done));
    }

    #[test]
    fn the_time_left_follows_the_pace() {
        let plan = sample::plan();
        let mut board = Board::new(&plan, &State::new(&plan));
        assert_eq!(board.left(sample::time(0)), None, "nothing began");
        let half: Vec<StepId> = plan.steps().take(plan.steps().count() / 2).collect();
        for step in &half {
            board.apply(&event(&plan, 0, started(step)));
            board.apply(&event(&plan, 10, ended(step)));
        }
        // Half of it took ten seconds, whatever the planner thought.
        let left = board.left(sample::time(10)).unwrap();
        assert!(left < SignedDuration::from_mins(2), "{left:?}");
        assert!(board.left(sample::time(12)).unwrap() < left, "it shrinks meanwhile");
        assert_eq!(board.left(sample::time(9999)), Some(SignedDuration::ZERO));
    }

    #[test]
    fn a_lane_says_why_it_waits() {
        let plan = sample::plan();
        let mut board = Board::new(&plan, &State::new(&plan));
        let (busy, other) = ("cp-2".into(), "cp-1".into());
        let wait = |board: &Board| match board.stage(Some(&other)) {
            Stage::Waits(why) => why,
            stage => panic!("{stage:?}"),
        };
        assert_eq!(wait(&board), "its turn comes");
        let step = StepId { hop: 1, node: Some(busy), action: Action::Drain };
        board.apply(&event(&plan, 0, started(&step)));
        assert_eq!(wait(&board), "after cp-2");
        let why = WaitReason::EtcdUnsafe { node: other.clone(), why: "a learner".to_owned() };
        let until = sample::time(900);
        board.apply(&event(&plan, 1, EventKind::Waiting { why, until }));
        assert!(wait(&board).contains("a learner"));
    }

    #[test]
    fn a_resumed_run_knows_what_was_done() {
        let plan = sample::plan();
        let entries = sample::killed(&plan);
        let state = State::fold(&plan, &entries).unwrap();
        let board = Board::new(&plan, &state);
        assert_eq!(board.progress().0, 6);
    }
}
