//! The loop: observe, decide, act, remember.
//!
//! [`decide`] makes every choice; this file asks it after each journal entry and
//! each look at the cluster, and does what it says. `start` begins steps and
//! takes their ends in, `look` keeps the picture of the cluster fresh.

mod adopted;
mod look;
mod start;

use std::future::pending;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use thiserror::Error;
use upgrade_core::event::{Event, EventKind};
use upgrade_core::jiff;
use upgrade_core::journal::{Arming, Entry, Record, State};
use upgrade_core::mutant::{self, Mutant};
use upgrade_core::plan::Plan;
use upgrade_core::reason::{HaltReason, WaitReason};
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::{Action, StepId};
use upgrade_planner::decide::{Decision, Tried, decide};

use crate::control::{Control, Word};
use crate::events::EventSink;
use crate::io::{Clock as _, Io};
use crate::journal::{Guard, Journal, JournalError, Lost};
use crate::steps::wait;
use crate::store::{Inherited, OpenRun};
use look::Picture;
use start::Flights;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Everything planned is done and verified.
    Done,
    /// It needs a person.
    Halted {
        /// Why.
        reason: HaltReason,
        /// Nodes whose next boot is into the new version, or may be.
        armed: Vec<(NodeName, Arming)>,
        /// Nodes that stay cordoned because they do not serve.
        cordoned: Vec<NodeName>,
    },
    /// The user paused it; nothing is in flight.
    Paused {
        /// Who.
        by: String,
    },
    /// The user stopped it at once; steps may be in doubt.
    Stopped,
}

/// A run that could not go on at all.
#[derive(Debug, Error)]
pub enum DriveError {
    /// Nothing may happen that is not written first.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Another process may drive by now. Nothing more was done or written.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The plan has nodes upgraded from outside, and this process has nothing that does it.
    /// Nothing was done or written.
    #[error(
        "the plan has nodes upgraded from outside, and nothing that does it is configured here"
    )]
    NoExternalUpgrader,
    /// The journal at hand does not fit the plan (rule 9).
    #[error("the journal does not fit the plan")]
    Fold(#[from] upgrade_core::journal::FoldError),
}

/// What a run is made of.
pub struct Run<I, J> {
    /// The run, as its store opened it.
    pub open: OpenRun<J>,
    /// The outside.
    pub io: Arc<I>,
    /// Who drives: a name that tells processes apart.
    pub runner: String,
    /// Where events go.
    pub events: Arc<dyn EventSink>,
    /// The user's word.
    pub control: Control,
    /// Whether the user asked to go on after a pause or a halt, and who.
    pub resumed_by: Option<String>,
}

/// How long a gate that stays closed is left alone when nothing is told.
const GATE_LOOK: SignedDuration = SignedDuration::from_secs(10);

/// The shortest time between two looks at a closed gate.
const GATE_BREATH: SignedDuration = SignedDuration::from_secs(1);

/// Drives a plan to its end, or to where it needs a person. Where it stands is in its
/// journal.
pub async fn drive<I: Io, J: Journal>(run: Run<I, J>) -> Result<End, DriveError> {
    let mut driver = Driver::new(run);
    if driver.state.completed() {
        return Ok(End::Done);
    }
    let external = |step: &StepId| step.action == Action::ExternalUpgrade;
    if driver.io.external().is_none() && driver.plan.steps().any(|step| external(&step)) {
        return Err(DriveError::NoExternalUpgrader);
    }
    driver.begin().await?;
    driver.go().await
}

/// A run under way.
struct Driver<I, J> {
    plan: Arc<Plan>,
    io: Arc<I>,
    journal: J,
    guard: Arc<Guard>,
    runner: String,
    events: Arc<dyn EventSink>,
    control: Control,
    resumed_by: Option<String>,
    inherited: Inherited,
    state: State,
    /// How far this machine's clock is behind the journal's last entry, which
    /// another machine may have written: time never goes back within a run.
    ahead: SignedDuration,
    flights: Flights,
    picture: Picture,
    /// The wait that was told last.
    told: Option<String>,
    /// What this process tried that is in no journal.
    tried: Tried,
    /// Who paused the run while this process drove it.
    paused_here: Option<String>,
}

/// What woke the loop up. None of it says what to do: `decide` does.
enum Woke {
    /// Something happened.
    Again,
    /// The user wants an end at once.
    Stop,
}

impl<I: Io, J: Journal> Driver<I, J> {
    fn new(run: Run<I, J>) -> Self {
        let Run { open, io, runner, events, control, resumed_by } = run;
        let OpenRun { plan, state, journal, inherited } = open;
        let behind = state.last_at().map(|last| last.duration_since(io.clock().now()));
        Self {
            picture: Picture::new(&plan),
            flights: Flights::default(),
            ahead: behind.unwrap_or_default().max(SignedDuration::ZERO),
            state,
            plan,
            io,
            guard: Guard::of(&journal),
            journal,
            runner,
            events,
            control,
            resumed_by,
            inherited,
            told: None,
            tried: Tried::default(),
            paused_here: None,
        }
    }

    async fn begin(&mut self) -> Result<(), DriveError> {
        self.write(Record::Began).await?;
        self.tell(EventKind::RunBegan {
            from: self.plan.from.clone(),
            to: self.plan.to.clone(),
            steps: self.state.steps().len(),
        });
        self.inherit().await?;
        if let Some(by) = self.resumed_by.take() {
            self.resume(by).await?;
        }
        Ok(())
    }

    async fn resume(&mut self, by: String) -> Result<(), DriveError> {
        self.write(Record::Resumed { by: by.clone() }).await?;
        self.tell(EventKind::Resumed { by });
        Ok(())
    }

    async fn go(&mut self) -> Result<End, DriveError> {
        loop {
            // Rule 9: whoever lost the run ends here, not at its next entry.
            self.guard.holds()?;
            self.take_in().await?;
            if self.hear().await? {
                return Ok(End::Stopped);
            }
            if self.picture.is_empty() {
                if let Woke::Stop = self.look().await? {
                    return Ok(End::Stopped);
                }
                continue;
            }
            let now = self.now();
            let snapshot = &self.picture.snapshot;
            let woke = match decide(&self.plan, &self.state, &self.tried, snapshot, now) {
                Decision::Done => {
                    self.write(Record::Completed).await?;
                    self.tell(EventKind::Completed);
                    return Ok(End::Done);
                }
                Decision::Lift(lifts) => self.lift(lifts).await?,
                Decision::Run(starts) => self.start(starts).await?,
                Decision::Halt { reason, finish, armed, cordoned, observe_until } => {
                    self.halt(&reason).await?;
                    // A cordon is lifted only where the node serves now.
                    if self.picture.is_old(now) {
                        self.look().await?
                    } else if !finish.is_empty() {
                        self.start(finish).await?
                    } else if let Some(until) = observe_until {
                        let soon = now.saturating_add(GATE_LOOK).unwrap_or(now);
                        self.gate(until.min(soon)).await?
                    } else {
                        return Ok(End::Halted { reason, armed, cordoned });
                    }
                }
                Decision::Wait { reason: WaitReason::Paused { by }, .. }
                    if self.flights.is_empty() =>
                {
                    return Ok(End::Paused { by });
                }
                Decision::Wait { reason, until, gives_up } => {
                    self.wait(&reason, until, gives_up).await?
                }
            };
            if let Woke::Stop = woke {
                return Ok(End::Stopped);
            }
        }
    }

    /// Writes down why the run halts, once.
    async fn halt(&mut self, why: &HaltReason) -> Result<(), DriveError> {
        if self.state.halted().is_none() {
            self.write(Record::Halted { why: why.clone() }).await?;
            self.tell(EventKind::Halted { why: why.clone() });
        }
        Ok(())
    }

    /// Takes the user's word; true if it is to stop at once (rule 12).
    async fn hear(&mut self) -> Result<bool, DriveError> {
        let word = self.control.borrow_and_update().clone();
        match word {
            Word::Stop => return Ok(true),
            Word::Pause { by } if self.state.paused().is_none() => {
                self.write(Record::Paused { by: by.clone() }).await?;
                self.tell(EventKind::Paused { by: by.clone() });
                self.paused_here = Some(by);
            }
            Word::Go => {
                if let Some(by) = self.paused_here.take() {
                    self.resume(by).await?;
                }
            }
            Word::Pause { .. } => {}
        }
        Ok(false)
    }

    /// Waits for what `decide` waits for.
    async fn wait(
        &mut self,
        reason: &WaitReason,
        until: Timestamp,
        gives_up: bool,
    ) -> Result<Woke, DriveError> {
        match reason {
            // The clock, a person or a step will end these, and no look helps;
            // but a lane that another one waits for may have ended.
            WaitReason::Window { .. } | WaitReason::Paused { .. } | WaitReason::Backoff { .. } => {
                self.tell_wait(reason, until);
                // A gate's deadline does not run while the window is closed.
                if matches!(reason, WaitReason::Window { .. }) && self.state.is_waiting() {
                    self.write(Record::Waiting { key: reason.key() }).await?;
                }
                Ok(self.sleep(until).await)
            }
            WaitReason::Running { .. } => {
                if self.picture.is_outdated() {
                    return self.look().await;
                }
                Ok(self.sleep(until).await)
            }
            _ if self.picture.is_outdated() => self.look().await,
            _ => {
                let key = reason.key();
                if gives_up && self.state.waiting_since(&key).is_none() {
                    self.write(Record::Waiting { key }).await?;
                }
                self.tell_wait(reason, until);
                self.gate(until).await
            }
        }
    }

    /// Waits at a closed gate: until something may have changed, or a while.
    async fn gate(&mut self, until: Timestamp) -> Result<Woke, DriveError> {
        let io = Arc::clone(&self.io);
        let mut ears = self.picture.ears();
        let left = until.duration_since(self.now());
        // A busy cluster changes all the time; most of ours is spent not looking.
        let breath = self.picture.cost().saturating_mul(4).clamp(GATE_BREATH, GATE_LOOK);
        let change = async move {
            io.clock().sleep(breath.min(left)).await;
            wait::any(io.clock(), &mut ears, GATE_LOOK.min(left)).await;
        };
        match self.wake(until, change).await {
            Woke::Stop => Ok(Woke::Stop),
            Woke::Again => self.look().await,
        }
    }

    /// Waits for the user's word, the end of a step, or a moment.
    async fn sleep(&mut self, until: Timestamp) -> Woke {
        self.wake(until, pending()).await
    }

    async fn wake(&mut self, until: Timestamp, other: impl Future<Output = ()> + Send) -> Woke {
        let left = until.duration_since(self.now());
        let io = Arc::clone(&self.io);
        tokio::select! {
            biased;
            () = heard(&mut self.control) => {}
            () = self.flights.one_ends() => {}
            () = other => {}
            () = io.clock().sleep(left) => {}
        }
        if *self.control.borrow() == Word::Stop { Woke::Stop } else { Woke::Again }
    }

    /// Appends to the journal. Nothing is written that does not fit what is
    /// there, and nothing is done that is not written.
    async fn write(&mut self, record: Record) -> Result<(), DriveError> {
        // What a step found that was not let act belongs in nobody's journal.
        self.guard.holds()?;
        let entry = Entry {
            at: self.now(),
            plan: self.state.plan().clone(),
            runner: self.runner.clone(),
            record,
        };
        self.state.apply(&entry)?;
        self.journal.append(&entry, &self.state).await?;
        self.picture.note(&entry);
        Ok(())
    }

    fn now(&self) -> Timestamp {
        let now = self.io.clock().now();
        now.saturating_add(self.ahead).unwrap_or(Timestamp::MAX)
    }

    fn tell(&mut self, kind: EventKind) {
        self.told = None;
        let (at, cluster) = (self.now(), self.plan.cluster.clone());
        let plan = self.state.plan().clone();
        self.events.event(Event { at, cluster, plan, kind });
    }

    /// Tells why nothing goes on, once for each reason.
    fn tell_wait(&mut self, reason: &WaitReason, until: Timestamp) {
        let text = reason.to_string();
        if self.told.as_ref() != Some(&text) && !mutant::is(Mutant::WaitUntold) {
            self.tell(EventKind::Waiting { why: reason.clone(), until });
            self.told = Some(text);
        }
    }
}

/// Comes back when the user says something new.
async fn heard(control: &mut Control) {
    if control.changed().await.is_err() {
        // Nobody is there to say anything any more.
        pending::<()>().await;
    }
}
