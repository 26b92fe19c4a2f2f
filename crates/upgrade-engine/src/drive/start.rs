//! Begins steps, and takes their ends in.

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
use upgrade_planner::decide::{Start, Unread};

use super::{DriveError, Driver, Woke};
use crate::control::Word;
use crate::events::EventSink;
use crate::io::{Clock as _, Io, Kubernetes as _, Machines as _, ProgressSink, Trouble};
use crate::journal::Journal;
use crate::observe::limited;
use crate::steps::Step;
use crate::steps::tenants::Tenants;

/// How often a step is heard at most.
const PROGRESS: SignedDuration = SignedDuration::from_millis(250);

/// The steps under way.
#[derive(Default)]
pub(super) struct Flights {
    tasks: JoinSet<Outcome>,
    steps: HashMap<Id, (StepId, u32)>,
    ended: Vec<(StepId, u32, Outcome)>,
    tenants: Arc<Tenants>,
}

impl Flights {
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.ended.is_empty()
    }

    /// Comes back when a step ends. Nothing is lost if it is not waited for.
    pub(super) async fn one_ends(&mut self) {
        if !self.ended.is_empty() {
            return;
        }
        let Some(ended) = self.tasks.join_next_with_id().await else {
            return pending().await;
        };
        self.land(ended);
    }

    fn land(&mut self, ended: Result<(Id, Outcome), JoinError>) {
        let (id, outcome) = match ended {
            Ok(ended) => ended,
            Err(error) => (error.id(), broke_off(error)),
        };
        if let Some((step, attempt)) = self.steps.remove(&id) {
            self.ended.push((step, attempt, outcome));
        }
    }

    /// All that have ended.
    fn ended(&mut self) -> Vec<(StepId, u32, Outcome)> {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.land(ended);
        }
        std::mem::take(&mut self.ended)
    }
}

/// A step that panicked has failed, and nobody knows how far it came.
fn broke_off(error: JoinError) -> Outcome {
    let why = match error.try_into_panic() {
        Ok(panic) => panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_else(|| "no reason given".to_owned()),
        Err(_) => "it was cancelled".to_owned(),
    };
    let text = format!("this program failed inside the step: {why}");
    Outcome::Failed { failure: Failure::new(FailureKind::Refused, &text) }
}

impl<I: Io, J: Journal> Driver<I, J> {
    /// Writes down the end of every step that has ended.
    pub(super) async fn take_in(&mut self) -> Result<(), DriveError> {
        for (step, attempt, outcome) in self.flights.ended() {
            let record = Record::Finished { step: step.clone(), attempt, outcome: outcome.clone() };
            self.write(record).await?;
            self.tell(EventKind::StepFinished { step, attempt, outcome });
        }
        Ok(())
    }

    /// Begins steps: what is true before is read, then written, then the step
    /// acts.
    pub(super) async fn start(&mut self, starts: Vec<Start>) -> Result<Woke, DriveError> {
        let now = self.now();
        let guarded = |start: &Start| {
            start.step.action.is_disruptive() || start.step.action == Action::Install
        };
        let old = self.picture.is_old(now);
        let held = |start: &Start| self.tried.held_until(&start.step, now);
        let (ready, rest): (Vec<Start>, Vec<Start>) =
            starts.into_iter().partition(|start| held(start).is_none() && !(old && guarded(start)));
        if ready.is_empty() {
            // Rule 2, or evidence that could not be read a moment ago.
            if let Some(again) = rest.iter().filter_map(held).min()
                && let Woke::Stop = self.sleep(again).await
            {
                return Ok(Woke::Stop);
            }
            return self.look().await;
        }
        let mut control = self.control.clone();
        let read = join_all(ready.iter().map(|start| self.evidence(start)));
        let read = tokio::select! {
            biased;
            read = read => read,
            // An error is the end of whoever could say it.
            Ok(_) = control.wait_for(|word| *word == Word::Stop) => return Ok(Woke::Stop),
        };
        for (start, evidence) in ready.into_iter().zip(read) {
            match evidence {
                Ok(evidence) => self.launch(start, evidence).await?,
                Err(trouble) => self.not_read(start, &trouble).await?,
            }
        }
        Ok(Woke::Again)
    }

    /// What is true right before the act, so that a later process can tell
    /// whether it happened (rule 8), and whose cordon it is (rule 7).
    async fn evidence(&self, start: &Start) -> Result<Option<Evidence>, Trouble> {
        let (Some(node), action) = (&start.step.node, start.step.action) else {
            return Ok(None);
        };
        if self.state.step(&start.step).is_some_and(|step| step.evidence.is_some()) {
            // What was true before the first attempt is what counts.
            return Ok(None);
        }
        let unknown = || {
            let text = format!("{node} was not there at the last look");
            Trouble::new(FailureKind::Unavailable, &text)
        };
        if action.boots() || matches!(action, Action::Install | Action::SetKubelet) {
            let machine = self.picture.machines.iter().find(|machine| machine.name == *node);
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
                // A way back does not wait for Kubernetes (rule 12).
                Err(_) if start.best_effort => return Ok(None),
                nodes => nodes?,
            };
            let facts = nodes.get(node).ok_or_else(unknown)?;
            let ours = self.state.inherited_cordons().contains(node);
            return Ok(Some(Evidence::WasCordoned(facts.unschedulable && !ours)));
        }
        Ok(None)
    }

    /// Writes down that a step begins, then lets it act.
    async fn launch(&mut self, start: Start, evidence: Option<Evidence>) -> Result<(), DriveError> {
        let Start { step: id, attempt, look_first, best_effort } = start;
        self.tried.began(&id);
        // As it was before this step began.
        let armed = id.node.as_ref().and_then(|node| self.state.armed().get(node).cloned());
        self.write(Record::Started { step: id.clone(), attempt, evidence }).await?;
        self.tell(EventKind::StepStarted { step: id.clone(), attempt });
        let limit = id.action.timeout(&self.plan.policy);
        let now = self.io.clock().now();
        let step = Step {
            io: Arc::clone(&self.io),
            plan: Arc::clone(&self.plan),
            guard: Arc::clone(&self.guard),
            look_first,
            best_effort,
            evidence: self.remembered(&id),
            armed,
            found_cordoned: self.found_cordoned(&id),
            machines: Arc::clone(&self.picture.machines),
            tenants: Arc::clone(&self.flights.tenants),
            deadline: now.saturating_add(limit).unwrap_or(Timestamp::MAX),
            progress: Arc::new(Voice {
                io: Arc::clone(&self.io),
                ahead: self.ahead,
                events: Arc::clone(&self.events),
                cluster: self.plan.cluster.clone(),
                plan: self.state.plan().clone(),
                step: id.clone(),
                last: Mutex::new(None),
            }),
            said: Mutex::default(),
            id: id.clone(),
        };
        let task = self.flights.tasks.spawn(step.run());
        self.flights.steps.insert(task.id(), (id, attempt));
        Ok(())
    }

    /// Whether the cordon of the step's node is somebody else's (rule 7). What
    /// we never set is not ours to lift either.
    fn found_cordoned(&self, id: &StepId) -> bool {
        let Some(node) = &id.node else { return false };
        match id.action {
            Action::Uncordon => !self.state.our_cordons().any(|ours| ours == node),
            _ => self.state.found_cordoned(node),
        }
    }

    /// What was true before a step; before the reboot that it verifies, for a
    /// verification and for the soak after it.
    fn remembered(&self, id: &StepId) -> Option<Evidence> {
        let of = |action| {
            let id = StepId { action, ..id.clone() };
            self.state.step(&id).and_then(|step| step.evidence.clone())
        };
        match id.action {
            Action::Verify | Action::Soak => {
                Action::ALL.into_iter().filter(|action| action.boots()).find_map(of)
            }
            action => of(action),
        }
    }

    /// A step whose evidence cannot be read does not begin (rule 10).
    async fn not_read(&mut self, start: Start, trouble: &Trouble) -> Result<(), DriveError> {
        let (now, limit) = (self.now(), self.plan.policy.timeouts.call);
        let Start { step, attempt, .. } = start;
        if self.tried.unread(&step, now, limit) == Unread::Again {
            return Ok(());
        }
        self.write(Record::Started { step: step.clone(), attempt, evidence: None }).await?;
        let text = format!("it did not begin, since its node could not be read: {trouble}");
        let failure = Failure::new(trouble.failure.kind, &text).leaving(Effect::None);
        let outcome = Outcome::Failed { failure };
        self.tell(EventKind::StepStarted { step: step.clone(), attempt });
        self.write(Record::Finished { step: step.clone(), attempt, outcome: outcome.clone() })
            .await?;
        self.tell(EventKind::StepFinished { step, attempt, outcome });
        Ok(())
    }
}

/// A step's way to say how far it is: the same words once, and not too often.
struct Voice<I> {
    io: Arc<I>,
    ahead: SignedDuration,
    events: Arc<dyn EventSink>,
    cluster: String,
    plan: PlanHash,
    step: StepId,
    last: Mutex<Option<(Timestamp, StepProgress)>>,
}

impl<I: Io> ProgressSink for Voice<I> {
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
