//! Starts steps, and records their ends.

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use tokio::task::{Id, JoinError, JoinSet};
use upgrade_core::event::{Event, EventKind, StepProgress};
use upgrade_core::jiff;
use upgrade_core::journal::{Effect, Evidence, Outcome, Record};
use upgrade_core::plan::PlanHash;
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::secret::scrub;
use upgrade_core::step::{Action, StepId};
use upgrade_core::text::panic_text;
use upgrade_planner::decide::{Start, Unread};

use super::{DriveError, Driver, Wakeup};
use crate::control::Command;
use crate::events::EventSink;
use crate::io::{Clock as _, Io, IoError, Kubernetes as _, Machines as _, ProgressSink};
use crate::journal::Journal;
use crate::observe::limited;
use crate::steps::Step;
use crate::steps::rescheduling::EvictedOwners;

/// The shortest time between two progress events of a step.
const PROGRESS: SignedDuration = SignedDuration::from_millis(250);

/// The steps in progress.
#[derive(Default)]
pub(super) struct RunningSteps {
    tasks: JoinSet<Outcome>,
    steps: HashMap<Id, (StepId, u32)>,
    ended: Vec<(StepId, u32, Outcome)>,
    evicted_owners: Arc<EvictedOwners>,
}

impl RunningSteps {
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.ended.is_empty()
    }

    /// Returns when a step ends. Dropping the future loses nothing.
    pub(super) async fn next_end(&mut self) {
        if !self.ended.is_empty() {
            return;
        }
        let Some(ended) = self.tasks.join_next_with_id().await else {
            return pending().await;
        };
        self.complete(ended);
    }

    fn complete(&mut self, ended: Result<(Id, Outcome), JoinError>) {
        let (id, outcome) = match ended {
            Ok(ended) => ended,
            Err(error) => (error.id(), panicked(error)),
        };
        if let Some((step, attempt)) = self.steps.remove(&id) {
            self.ended.push((step, attempt, outcome));
        }
    }

    /// All that have ended.
    fn ended(&mut self) -> Vec<(StepId, u32, Outcome)> {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.complete(ended);
        }
        std::mem::take(&mut self.ended)
    }
}

/// A step that panicked has failed; how far it came is not known.
fn panicked(error: JoinError) -> Outcome {
    let why = match error.try_into_panic() {
        Ok(panic) => panic_text(&*panic).to_owned(),
        Err(_) => "it was cancelled".to_owned(),
    };
    let text = format!("this program failed inside the step: {why}");
    Outcome::Failed { failure: Failure::new(FailureKind::Refused, &text) }
}

impl<I: Io, J: Journal> Driver<I, J> {
    /// Journals the end of every step that has ended.
    pub(super) async fn record_ended_steps(&mut self) -> Result<(), DriveError> {
        for (step, attempt, outcome) in self.running.ended() {
            let record = Record::Finished { step: step.clone(), attempt, outcome: outcome.clone() };
            self.write(record).await?;
            self.emit(EventKind::StepFinished { step, attempt, outcome });
        }
        Ok(())
    }

    /// Starts steps: the evidence is read, then journaled, then the step acts.
    pub(super) async fn start(&mut self, starts: Vec<Start>) -> Result<Wakeup, DriveError> {
        let now = self.now();
        let old = self.observation.is_old(now);
        let held = |start: &Start| self.tried.held_until(&start.step, now);
        let (ready, rest): (Vec<Start>, Vec<Start>) = starts.into_iter().partition(|start| {
            held(start).is_none() && !(old && start.step.action.needs_observation())
        });
        if ready.is_empty() {
            // Rule 2, or evidence that could not be read a moment ago.
            if let Some(again) = rest.iter().filter_map(held).min()
                && let Wakeup::Stop = self.sleep(again).await
            {
                return Ok(Wakeup::Stop);
            }
            return self.refresh().await;
        }
        let mut control = self.control.clone();
        let read = join_all(ready.iter().map(|start| self.evidence(start)));
        let read = tokio::select! {
            biased;
            read = read => read,
            // An error: every sender is gone.
            Ok(_) = control.wait_for(|command| *command == Command::Stop) => return Ok(Wakeup::Stop),
        };
        for (start, evidence) in ready.into_iter().zip(read) {
            match evidence {
                Ok(evidence) => self.run_step(start, evidence).await?,
                Err(error) => self.evidence_unreadable(start, &error).await?,
            }
        }
        Ok(Wakeup::Decide)
    }

    /// What is true right before the act, so that a later process can tell whether it was carried
    /// out (rule 8), and whose cordon it is (rule 7).
    async fn evidence(&self, start: &Start) -> Result<Option<Evidence>, IoError> {
        let (Some(node), action) = (&start.step.node, start.step.action) else {
            return Ok(None);
        };
        if self.state.step(&start.step).is_some_and(|step| step.evidence.is_some()) {
            // What was true before the first attempt is what counts.
            return Ok(None);
        }
        let unknown = || {
            let text = format!("{node} was not in the last observation");
            IoError::new(FailureKind::Unavailable, &text)
        };
        if action.boots() || matches!(action, Action::Install | Action::SetKubelet) {
            let machine = self.observation.machines.iter().find(|machine| machine.name == *node);
            let machine = machine.ok_or_else(unknown)?;
            let facts = limited(&*self.io, self.io.machines().facts(machine)).await?;
            return Ok(Some(match action {
                Action::Install => Evidence::BootId(facts.boot_id),
                Action::SetKubelet => Evidence::Unmet(facts.unmet),
                _ => Evidence::before_boot(facts),
            }));
        }
        if action == Action::Cordon {
            let nodes = match limited(&*self.io, self.io.kubernetes().nodes()).await {
                // A rollback does not wait for Kubernetes (rule 12).
                Err(_) if start.best_effort => return Ok(None),
                nodes => nodes?,
            };
            let facts = nodes.get(node).ok_or_else(unknown)?;
            let ours = self.state.inherited_cordons().contains(node);
            let ours = ours && facts.marked;
            return Ok(Some(Evidence::WasCordoned(facts.unschedulable && !ours)));
        }
        Ok(None)
    }

    /// Journals that a step starts, then starts it.
    async fn run_step(
        &mut self,
        start: Start,
        evidence: Option<Evidence>,
    ) -> Result<(), DriveError> {
        let Start { step: id, attempt, in_doubt, best_effort } = start;
        self.tried.began(&id);
        // As it was before this step started.
        let armed = id.node.as_ref().and_then(|node| self.state.armed().get(node).cloned());
        self.write(Record::Started { step: id.clone(), attempt, evidence }).await?;
        self.emit(EventKind::StepStarted { step: id.clone(), attempt });
        let limit = id.action.timeout(&self.plan.policy);
        let now = self.io.clock().now();
        let step = Step {
            io: Arc::clone(&self.io),
            plan: Arc::clone(&self.plan),
            guard: Arc::clone(&self.guard),
            in_doubt,
            best_effort,
            evidence: self.evidence_of(&id),
            armed,
            found_cordoned: self.found_cordoned(&id),
            machines: Arc::clone(&self.observation.machines),
            evicted_owners: Arc::clone(&self.running.evicted_owners),
            deadline: now.saturating_add(limit).unwrap_or(Timestamp::MAX),
            progress: Arc::new(ProgressReporter {
                io: Arc::clone(&self.io),
                ahead: self.ahead,
                events: Arc::clone(&self.events),
                cluster: self.plan.cluster.clone(),
                plan: self.state.plan().clone(),
                step: id.clone(),
                last: Mutex::new(None),
            }),
            last_message: Mutex::default(),
            id: id.clone(),
        };
        let task = self.running.tasks.spawn(step.run());
        self.running.steps.insert(task.id(), (id, attempt));
        Ok(())
    }

    /// Whether the cordon of the step's node was set by another user (rule 7). A cordon that we
    /// never set is not ours to lift either.
    fn found_cordoned(&self, id: &StepId) -> bool {
        let Some(node) = &id.node else { return false };
        match id.action {
            Action::Uncordon => !self.state.our_cordons().any(|ours| ours == node),
            _ => self.state.found_cordoned(node),
        }
    }

    /// What was true before a step; before the reboot that it verifies, for a
    /// verification and for the soak after it.
    fn evidence_of(&self, id: &StepId) -> Option<Evidence> {
        let of = |id: &StepId| self.state.step(id).and_then(|step| step.evidence.clone());
        if !matches!(id.action, Action::Verify | Action::Soak) {
            return of(id);
        }
        let (lane, place) = self.plan.place_of(id)?;
        let mut boots = lane.steps[..place].iter().rev().filter(|name| name.action.boots());
        boots.find_map(|name| of(&lane.step_id(id.hop, name)))
    }

    /// A step does not start if its evidence cannot be read (rule 10).
    async fn evidence_unreadable(
        &mut self,
        start: Start,
        error: &IoError,
    ) -> Result<(), DriveError> {
        let (now, limit) = (self.now(), self.plan.policy.timeouts.call);
        let Start { step, attempt, .. } = start;
        if self.tried.unread(&step, now, limit) == Unread::Again {
            return Ok(());
        }
        self.write(Record::Started { step: step.clone(), attempt, evidence: None }).await?;
        let text = format!("not started, since its node could not be read: {error}");
        let failure = Failure::new(error.failure.kind, &text).leaving(Effect::None);
        let outcome = Outcome::Failed { failure };
        self.emit(EventKind::StepStarted { step: step.clone(), attempt });
        self.write(Record::Finished { step: step.clone(), attempt, outcome: outcome.clone() })
            .await?;
        self.emit(EventKind::StepFinished { step, attempt, outcome });
        Ok(())
    }
}

/// Sends the progress of a step as events: the same text once, and not too often.
struct ProgressReporter<I> {
    io: Arc<I>,
    ahead: SignedDuration,
    events: Arc<dyn EventSink>,
    cluster: String,
    plan: PlanHash,
    step: StepId,
    last: Mutex<Option<(Timestamp, StepProgress)>>,
}

impl<I: Io> ProgressSink for ProgressReporter<I> {
    fn report(&self, progress: StepProgress) {
        let now = self.io.clock().now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let enough = last
            .as_ref()
            .is_some_and(|(at, said)| *said == progress || now.duration_since(*at) < PROGRESS);
        if enough {
            return;
        }
        *last = Some((now, progress.clone()));
        let message = scrub(&progress.message).into_owned();
        let progress = StepProgress { message, ..progress };
        self.events.event(Event {
            at: now.saturating_add(self.ahead).unwrap_or(now),
            cluster: self.cluster.clone(),
            plan: self.plan.clone(),
            kind: EventKind::StepProgress { step: self.step.clone(), progress },
        });
    }
}
