//! The loop: observe, decide, act, journal.
//!
//! [`decide`] makes every choice; this file asks it after each journal entry and each observation,
//! and does what it says. `start` starts steps and records their ends, `observation` keeps the last
//! observation of the cluster and refreshes it.

mod adopted;
mod observation;
mod start;

use std::future::pending;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use thiserror::Error;
use upgrade_core::event::{Event, EventKind};
use upgrade_core::guard;
use upgrade_core::jiff;
use upgrade_core::journal::{Arming, Entry, Record, State};
use upgrade_core::mutant::Mutant;
use upgrade_core::plan::Plan;
use upgrade_core::reason::{HaltReason, WaitReason};
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::{Action, StepId};
use upgrade_planner::decide::{Decision, Tried, decide};

use crate::control::{Command, Control};
use crate::events::EventSink;
use crate::io::{Clock as _, Io};
use crate::journal::{Guard, Journal, JournalError, Lost};
use crate::steps::wait;
use crate::store::{Inherited, OpenRun};
use observation::LastObservation;
use start::RunningSteps;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Everything planned is done and verified.
    Done,
    /// A person has to act.
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

/// Why a run could not continue at all.
#[derive(Debug, Error)]
pub enum DriveError {
    /// The journal could not be written, and nothing may happen that is not journaled first.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Another process may be driving by now. Nothing more was done or written.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The plan has nodes that are upgraded from outside, and nothing that does it is configured in
    /// this process. Nothing was done or written.
    #[error(
        "the plan has nodes upgraded from outside, and nothing that does it is configured here"
    )]
    NoExternalUpgrader,
    /// The journal does not fit the plan (rule 9).
    #[error("the journal does not fit the plan")]
    Fold(#[from] upgrade_core::journal::FoldError),
}

/// What a run is made of.
pub struct Run<I, J> {
    /// The run, as its store opened it.
    pub open: OpenRun<J>,
    /// The cluster, the clock and the snapshot store.
    pub io: Arc<I>,
    /// The name of this process, to tell drivers apart.
    pub runner: String,
    /// Where events go.
    pub events: Arc<dyn EventSink>,
    /// The user's commands.
    pub control: Control,
    /// Who asked to continue after a pause or a halt, if anybody did.
    pub resumed_by: Option<String>,
}

/// The longest time between two observations at a closed gate.
const GATE_REFRESH: SignedDuration = SignedDuration::from_secs(10);

/// The shortest time between two observations at a closed gate.
const GATE_MIN_INTERVAL: SignedDuration = SignedDuration::from_secs(1);

/// Drives a plan until it is done or until a person has to act. Its progress is in its journal.
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
    driver.run().await
}

/// A run in progress.
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
    running: RunningSteps,
    observation: LastObservation,
    /// The text of the last wait that was reported, to report each once.
    last_wait: Option<String>,
    /// What this process tried that is in no journal.
    tried: Tried,
    /// Who paused the run while this process drove it.
    paused_here: Option<String>,
}

/// Why the loop continues. `decide` says what happens next.
enum Wakeup {
    /// Something changed, or time has passed.
    Decide,
    /// The user stops the run at once.
    Stop,
}

impl<I: Io, J: Journal> Driver<I, J> {
    fn new(run: Run<I, J>) -> Self {
        let Run { open, io, runner, events, control, resumed_by } = run;
        let OpenRun { plan, state, journal, inherited } = open;
        let behind = state.last_at().map(|last| last.duration_since(io.clock().now()));
        Self {
            observation: LastObservation::new(&plan),
            running: RunningSteps::default(),
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
            last_wait: None,
            tried: Tried::default(),
            paused_here: None,
        }
    }

    async fn begin(&mut self) -> Result<(), DriveError> {
        self.write(Record::Began).await?;
        self.emit(EventKind::RunBegan {
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
        self.emit(EventKind::Resumed { by });
        Ok(())
    }

    async fn run(&mut self) -> Result<End, DriveError> {
        loop {
            // Rule 9: a process that lost the run ends here, not at its next entry.
            self.guard.holds()?;
            self.record_ended_steps().await?;
            if self.take_command().await? {
                return Ok(End::Stopped);
            }
            if self.observation.is_empty() {
                if let Wakeup::Stop = self.refresh().await? {
                    return Ok(End::Stopped);
                }
                continue;
            }
            let now = self.now();
            let snapshot = &self.observation.snapshot;
            let woke = match decide(&self.plan, &self.state, &self.tried, snapshot, now) {
                Decision::Done => {
                    self.write(Record::Completed).await?;
                    self.emit(EventKind::Completed);
                    return Ok(End::Done);
                }
                Decision::Lift(lifts) => self.lift(lifts).await?,
                Decision::Run(starts) => self.start(starts).await?,
                Decision::Halt { reason, finish, armed, cordoned, observe_until } => {
                    self.halt(&reason).await?;
                    // A cordon is lifted only where the node serves now.
                    if self.observation.is_old(now) {
                        self.refresh().await?
                    } else if !finish.is_empty() {
                        self.start(finish).await?
                    } else if let Some(until) = observe_until {
                        let soon = now.saturating_add(GATE_REFRESH).unwrap_or(now);
                        self.wait_at_gate(until.min(soon)).await?
                    } else {
                        return Ok(End::Halted { reason, armed, cordoned });
                    }
                }
                Decision::Wait { reason: WaitReason::Paused { by }, .. }
                    if self.running.is_empty() =>
                {
                    return Ok(End::Paused { by });
                }
                Decision::Wait { reason: WaitReason::Running { .. }, until, observe, .. } => {
                    self.wait_for_steps(until, observe).await?
                }
                Decision::Wait { reason, until, gives_up, .. } => {
                    self.wait(&reason, until, gives_up).await?
                }
            };
            if let Wakeup::Stop = woke {
                return Ok(End::Stopped);
            }
        }
    }

    /// Journals why the run halts, once.
    async fn halt(&mut self, why: &HaltReason) -> Result<(), DriveError> {
        if self.state.halted().is_none() {
            self.write(Record::Halted { why: why.clone() }).await?;
            self.emit(EventKind::Halted { why: why.clone() });
        }
        Ok(())
    }

    /// Takes the user's command; true if it is to stop at once (rule 12).
    async fn take_command(&mut self) -> Result<bool, DriveError> {
        let command = self.control.borrow_and_update().clone();
        match command {
            Command::Stop => return Ok(true),
            Command::Pause { by } if self.state.paused().is_none() => {
                self.write(Record::Paused { by: by.clone() }).await?;
                self.emit(EventKind::Paused { by: by.clone() });
                self.paused_here = Some(by);
            }
            Command::Continue => {
                if let Some(by) = self.paused_here.take() {
                    self.resume(by).await?;
                }
            }
            Command::Pause { .. } => {}
        }
        Ok(false)
    }

    /// Waits for the steps that run. They need no observation; a node in flight that waits beside
    /// them may.
    async fn wait_for_steps(
        &mut self,
        until: Timestamp,
        observe: bool,
    ) -> Result<Wakeup, DriveError> {
        if self.observation.is_outdated() {
            self.refresh().await
        } else if observe {
            self.wait_at_gate(until).await
        } else {
            Ok(self.sleep(until).await)
        }
    }

    /// Waits for what `decide` waits for.
    async fn wait(
        &mut self,
        reason: &WaitReason,
        until: Timestamp,
        gives_up: bool,
    ) -> Result<Wakeup, DriveError> {
        match reason {
            // The clock, a person or a step ends these, and observing does not help; but a lane
            // that another one waits for may have ended.
            WaitReason::Window { .. } | WaitReason::Paused { .. } | WaitReason::Backoff { .. } => {
                self.emit_wait(reason, until);
                // A gate's deadline does not run while the window is closed.
                if matches!(reason, WaitReason::Window { .. }) && self.state.is_waiting() {
                    self.write(Record::Waiting { key: reason.key() }).await?;
                }
                Ok(self.sleep(until).await)
            }
            _ if self.observation.is_outdated() => self.refresh().await,
            _ => {
                let key = reason.key();
                if gives_up && self.state.waiting_since(&key).is_none() {
                    self.write(Record::Waiting { key }).await?;
                }
                self.emit_wait(reason, until);
                self.wait_at_gate(until).await
            }
        }
    }

    /// Waits at a closed gate until something may have changed or the interval has passed, then
    /// observes.
    async fn wait_at_gate(&mut self, until: Timestamp) -> Result<Wakeup, DriveError> {
        let io = Arc::clone(&self.io);
        let mut watches = self.observation.watches();
        let left = until.duration_since(self.now());
        // A busy cluster changes all the time: pause for four times as long as an observation takes.
        let pause =
            self.observation.duration().saturating_mul(4).clamp(GATE_MIN_INTERVAL, GATE_REFRESH);
        let change = async move {
            io.clock().sleep(pause.min(left)).await;
            wait::any_change(io.clock(), &mut watches, GATE_REFRESH.min(left)).await;
        };
        match self.wait_for(until, change).await {
            Wakeup::Stop => Ok(Wakeup::Stop),
            Wakeup::Decide => self.refresh().await,
        }
    }

    /// Waits for a command, the end of a step, or this time.
    async fn sleep(&mut self, until: Timestamp) -> Wakeup {
        self.wait_for(until, pending()).await
    }

    async fn wait_for(
        &mut self,
        until: Timestamp,
        other: impl Future<Output = ()> + Send,
    ) -> Wakeup {
        let left = until.duration_since(self.now());
        let io = Arc::clone(&self.io);
        tokio::select! {
            biased;
            () = command_changed(&mut self.control) => {}
            () = self.running.next_end() => {}
            () = other => {}
            () = io.clock().sleep(left) => {}
        }
        if *self.control.borrow() == Command::Stop { Wakeup::Stop } else { Wakeup::Decide }
    }

    /// Appends to the journal. Nothing is written that does not fit its earlier entries, and
    /// nothing is done that is not written.
    async fn write(&mut self, record: Record) -> Result<(), DriveError> {
        // A step that was refused by the fence failed because the run was lost: that belongs in no
        // journal.
        self.guard.holds()?;
        let entry = Entry {
            at: self.now(),
            plan: self.state.plan().clone(),
            runner: self.runner.clone(),
            record,
        };
        self.state.apply(&entry)?;
        self.journal.append(&entry, &self.state).await?;
        self.observation.note(&entry);
        Ok(())
    }

    fn now(&self) -> Timestamp {
        let now = self.io.clock().now();
        now.saturating_add(self.ahead).unwrap_or(Timestamp::MAX)
    }

    fn emit(&mut self, kind: EventKind) {
        self.last_wait = None;
        let (at, cluster) = (self.now(), self.plan.cluster.clone());
        let plan = self.state.plan().clone();
        self.events.event(Event { at, cluster, plan, kind });
    }

    /// Reports why the run waits, once for each reason.
    fn emit_wait(&mut self, reason: &WaitReason, until: Timestamp) {
        let text = reason.to_string();
        if guard!(Mutant::WaitUnreported, self.last_wait.as_ref() != Some(&text)) {
            self.emit(EventKind::Waiting { why: reason.clone(), until });
            self.last_wait = Some(text);
        }
    }
}

/// Returns when the user gives another command.
async fn command_changed(control: &mut Control) {
    if control.changed().await.is_err() {
        // Every sender is gone: no command will come.
        pending::<()>().await;
    }
}
