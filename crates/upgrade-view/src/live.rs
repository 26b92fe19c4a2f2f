//! A run as its events show it.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use upgrade_core::event::{Event, EventKind};
use upgrade_core::jiff;
use upgrade_core::journal::{Entry, Outcome, Phase, Record, State};
use upgrade_core::plan::Plan;
use upgrade_core::reason::WaitReason;
use upgrade_core::step::StepId;
use upgrade_planner::estimate;

use crate::run::RunView;

/// Until this much of the estimate has been worked off, the pace of a run depends more on luck
/// than on the cluster.
const SIGNIFICANT: SignedDuration = SignedDuration::from_secs(60);

/// What a run waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The reason.
    pub why: WaitReason,
    /// The deadline (rule 11).
    pub until: Timestamp,
}

/// What events say beyond the journal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay {
    pub(crate) messages: HashMap<StepId, String>,
    pub(crate) waiting: Option<Waiting>,
}

/// A run that this process follows by its events.
#[derive(Clone, Debug)]
pub struct LiveRun {
    plan: Arc<Plan>,
    state: State,
    overlay: Overlay,
    pace: Pace,
}

/// How well the run keeps to its estimate.
#[derive(Clone, Debug)]
struct Pace {
    began: Option<Timestamp>,
    /// The estimate for all that was left in the beginning.
    whole: SignedDuration,
    /// The estimate for what is left now.
    remaining: SignedDuration,
    measured_at: Option<Timestamp>,
}

impl LiveRun {
    /// A run that starts, or continues where `state` stands.
    pub fn new(plan: Arc<Plan>, state: State) -> Self {
        let whole = remaining(&plan, &state);
        let pace = Pace { began: None, whole, remaining: whole, measured_at: None };
        Self { plan, state, overlay: Overlay::default(), pace }
    }

    /// Where the run stands.
    pub fn view(&self) -> RunView<'_> {
        RunView::live(&self.plan, &self.state, &self.overlay)
    }

    /// Applies one more event.
    pub fn apply(&mut self, event: &Event) {
        let at = event.at;
        self.pace.began.get_or_insert(at);
        match &event.kind {
            EventKind::StepProgress { step, progress } => {
                let message = &progress.message;
                self.overlay.messages.insert(step.clone(), message.clone());
            }
            // Its own steps run: whatever gate was closed before is open, or no longer matters.
            EventKind::Waiting { why: WaitReason::Running { .. }, .. } => {
                self.overlay.waiting = None;
            }
            EventKind::Waiting { why, until } => {
                self.overlay.waiting = Some(Waiting { why: why.clone(), until: *until });
            }
            kind => {
                if let Some(record) = record(kind) {
                    self.fold(at, record);
                }
            }
        }
    }

    fn fold(&mut self, at: Timestamp, record: Record) {
        if let Record::Started { step, .. } | Record::Finished { step, .. } = &record {
            self.overlay.messages.remove(step);
        }
        if !matches!(record, Record::Finished { .. }) {
            self.overlay.waiting = None;
        }
        let worked = matches!(&record,
            Record::Finished { outcome, .. } if !matches!(outcome, Outcome::Failed { .. }));
        let plan = self.state.plan().clone();
        let entry = Entry { at, plan, runner: String::new(), record };
        // What does not fit is not shown; it is for the driver to refuse it.
        let _ = self.state.apply(&entry);
        if worked {
            self.pace.remaining = remaining(&self.plan, &self.state);
            self.pace.measured_at = Some(at);
        }
    }

    /// How much longer the run takes: the planner's estimate for what is left, stretched by
    /// how the run has kept to the estimate so far.
    pub fn left(&self, now: Timestamp) -> Option<SignedDuration> {
        let (done, total) = self.state.progress();
        let Pace { began, whole, remaining, measured_at } = self.pace;
        let began = began.filter(|_| done < total)?;
        let estimated = whole - remaining;
        let elapsed = measured_at.unwrap_or(now).duration_since(began);
        let pace = if estimated < SIGNIFICANT || elapsed <= SignedDuration::ZERO {
            1.0
        } else {
            elapsed.as_secs_f64() / estimated.as_secs_f64()
        };
        let left = remaining.as_secs_f64() * pace;
        let since = now.duration_since(measured_at.unwrap_or(began)).as_secs_f64();
        SignedDuration::try_from_secs_f64((left - since).max(0.0)).ok()
    }
}

/// The journal record that an event announces.
fn record(kind: &EventKind) -> Option<Record> {
    Some(match kind {
        EventKind::RunBegan { .. } => Record::Began,
        EventKind::StepStarted { step, attempt } => {
            Record::Started { step: step.clone(), attempt: *attempt, evidence: None }
        }
        EventKind::StepFinished { step, attempt, outcome } => {
            Record::Finished { step: step.clone(), attempt: *attempt, outcome: outcome.clone() }
        }
        EventKind::Halted { why } => Record::Halted { why: why.clone() },
        EventKind::Paused { by } => Record::Paused { by: by.clone() },
        EventKind::Resumed { by } => Record::Resumed { by: by.clone() },
        EventKind::Completed => Record::Completed,
        _ => return None,
    })
}

/// The planner's estimate for what is left, halfway between a good day and a bad one.
fn remaining(plan: &Plan, state: &State) -> SignedDuration {
    let mut rest = plan.clone();
    // The fold keeps its steps in plan order.
    let mut states = state.steps().iter();
    let lanes = rest.hops.iter_mut().flat_map(|hop| &mut hop.waves);
    for lane in lanes.flat_map(|wave| &mut wave.lanes) {
        lane.steps.retain(|_| states.next().is_none_or(|step| step.phase != Phase::Done));
    }
    let span = estimate(&rest).total;
    (span.low + span.high) / 2
}

#[cfg(test)]
mod tests {
    use upgrade_core::step::Action;

    use super::*;
    use crate::run::{Queued, Stage};
    use crate::test_fixtures::{self as fixtures, time};

    fn run() -> LiveRun {
        let plan = fixtures::plan();
        let state = State::new(&plan);
        LiveRun::new(Arc::new(plan), state)
    }

    fn apply(run: &mut LiveRun, seconds: i64, kind: EventKind) {
        let plan = run.view().plan().hash();
        run.apply(&Event { at: time(seconds), cluster: "prod".to_owned(), plan, kind });
    }

    fn started(step: &StepId) -> EventKind {
        EventKind::StepStarted { step: step.clone(), attempt: 1 }
    }

    fn ended(step: &StepId) -> EventKind {
        let outcome = Outcome::Done { proof: None };
        EventKind::StepFinished { step: step.clone(), attempt: 1, outcome }
    }

    fn stage<'a>(run: &'a LiveRun, step: &StepId) -> Stage<'a> {
        let nodes = run.view().nodes();
        nodes.iter().find(|node| node.node == step.node.as_ref()).expect("its node").stage()
    }

    #[test]
    fn a_run_ends_with_everything_done() {
        let mut run = run();
        assert_eq!(run.view().progress().0, 0);
        let steps: Vec<StepId> = fixtures::plan().steps().collect();
        for (step, second) in steps.iter().zip((0..).step_by(20)) {
            apply(&mut run, second, started(step));
            assert!(matches!(stage(&run, step), Stage::Running { .. }), "{step}");
            apply(&mut run, second + 10, ended(step));
        }
        let (done, total) = run.view().progress();
        assert_eq!(done, total);
        assert!(run.view().hop().is_none());
        assert_eq!(run.left(time(9999)), None);
    }

    #[test]
    fn events_and_journal_entries_lead_to_the_same_view() {
        let plan = fixtures::plan();
        for entries in [
            fixtures::whole(&plan),
            fixtures::killed(&plan, "1/cp-2/drain"),
            fixtures::halted(&plan, "1/cp-2/reboot"),
        ] {
            let mut run = run();
            for (count, entry) in entries.iter().enumerate() {
                apply(&mut run, count.try_into().unwrap(), event(&entry.record));
                let state = State::fold(&plan, &entries[..=count]).unwrap();
                let stored = RunView::new(&plan, &state);
                let live = run.view();
                assert_eq!(live.progress(), stored.progress());
                assert_eq!(live.result(), stored.result());
                for (live, stored) in live.nodes().iter().zip(stored.nodes()) {
                    let (live, stored) = (live.stage(), stored.stage());
                    assert_eq!(std::mem::discriminant(&live), std::mem::discriminant(&stored));
                }
            }
        }
    }

    fn event(record: &Record) -> EventKind {
        match record.clone() {
            Record::Began => EventKind::RunBegan {
                from: fixtures::plan().from,
                to: fixtures::plan().to,
                steps: 0,
            },
            Record::Started { step, attempt, .. } => EventKind::StepStarted { step, attempt },
            Record::Finished { step, attempt, outcome } => {
                EventKind::StepFinished { step, attempt, outcome }
            }
            Record::Halted { why } => EventKind::Halted { why },
            Record::Completed => EventKind::Completed,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_step_shows_its_newest_message_while_it_runs() {
        let mut run = run();
        let step: StepId = "1/cp-2/drain".parse().unwrap();
        let message = |run: &LiveRun| match stage(run, &step) {
            Stage::Running { step, .. } => step.message.map(str::to_owned),
            _ => None,
        };
        apply(&mut run, 0, started(&step));
        for text in ["3 pods left", "1 pod left"] {
            let kind = EventKind::StepProgress {
                step: step.clone(),
                progress: upgrade_core::event::StepProgress::text(text),
            };
            apply(&mut run, 1, kind);
            assert_eq!(message(&run).as_deref(), Some(text));
        }
        apply(&mut run, 2, ended(&step));
        assert_eq!(message(&run), None);
    }

    #[test]
    fn a_node_that_is_queued_has_a_reason() {
        let mut run = run();
        let other = "cp-1".into();
        let busy = "cp-2".into();
        let queued = |run: &LiveRun| {
            let view = run.view();
            let nodes = view.nodes();
            match view.queued(Some(&other), &nodes) {
                Queued::Waiting(why) => format!("waiting: {}", why.key()),
                queued => format!("{queued:?}"),
            }
        };
        assert_eq!(queued(&run), format!("{:?}", Queued::Next));
        let step = StepId::new(1, Some("cp-2".into()), Action::Drain);
        apply(&mut run, 0, started(&step));
        assert_eq!(queued(&run), format!("{:?}", Queued::Behind(vec![Some(&busy)])));
        let why = WaitReason::EtcdUnsafe { node: other.clone(), why: "a learner".to_owned() };
        apply(&mut run, 1, EventKind::Waiting { why: why.clone(), until: time(900) });
        assert_eq!(queued(&run), "waiting: etcd-unsafe/cp-1");
        assert_eq!(run.view().waiting(), Some(&Waiting { why, until: time(900) }));
        let why = WaitReason::Running { steps: vec![step], count: 1 };
        apply(&mut run, 2, EventKind::Waiting { why, until: time(900) });
        assert_eq!(run.view().waiting(), None);
    }

    #[test]
    fn the_time_left_follows_the_pace() {
        let mut run = run();
        assert_eq!(run.left(time(0)), None, "nothing began");
        let steps: Vec<StepId> = fixtures::plan().steps().collect();
        for step in &steps[..steps.len() / 2] {
            apply(&mut run, 0, started(step));
            apply(&mut run, 10, ended(step));
        }
        // Half of it took ten seconds, whatever the planner thought.
        let left = run.left(time(10)).unwrap();
        assert!(left < SignedDuration::from_mins(2), "{left:?}");
        assert!(run.left(time(12)).unwrap() < left, "it shrinks meanwhile");
        assert_eq!(run.left(time(9999)), Some(SignedDuration::ZERO));
    }
}
