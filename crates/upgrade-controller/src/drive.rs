//! One drive of a run: the engine in a task of its own, with its journal in the
//! run's object.

use std::sync::{Arc, Mutex as Short, PoisonError};

use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use upgrade_core::event::{Event, EventKind};
use upgrade_core::text::panic_text;
use upgrade_engine::control::Command;
use upgrade_engine::drive::{DriveError, End, Run};
use upgrade_engine::events::{EventSink, FanOut};
use upgrade_engine::io::Io;
use upgrade_engine::store::OpenRun;

use crate::http::{DriveMetrics, StepMetrics};
use crate::limits::Throttled;
use crate::run::{RunJournal, RunObject, RunProgress, waiting};

/// A run under way in this process.
pub struct Drive {
    /// Its object.
    pub run: Arc<Mutex<RunObject>>,
    /// Where it stands, after each entry.
    pub progress: watch::Receiver<RunProgress>,
    /// What it waits for, if a person should know.
    pub waits: watch::Receiver<Option<String>>,
    /// The digest of the credentials that it uses.
    pub credentials: [u8; 32],
    /// Counts it until it ends or is dropped.
    pub metrics: Option<DriveMetrics>,
    commands: watch::Sender<Command>,
    /// Its other end is gone when the task is.
    over: watch::Receiver<()>,
    task: JoinHandle<Result<End, DriveError>>,
}

/// Counts and times steps.
struct CountSteps(Short<StepMetrics>);

impl EventSink for CountSteps {
    fn event(&self, event: Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take(&event);
    }
}

/// Keeps what the run waits for, as long as it does.
struct Waits(watch::Sender<Option<String>>);

impl EventSink for Waits {
    fn event(&self, event: Event) {
        let waits = match event.kind {
            EventKind::Waiting { why, .. } => waiting(&why),
            EventKind::StepProgress { .. } => return,
            _ => None,
        };
        self.0.send_if_modified(|reported| {
            let changed = *reported != waits;
            *reported = waits;
            changed
        });
    }
}

/// What a drive is made of.
pub struct DriveStart<I> {
    /// The run.
    pub open: OpenRun<RunJournal>,
    /// The cluster.
    pub live: Throttled<I>,
    /// The name of this process, for the journal.
    pub runner: String,
    /// Who resumes a run that was paused, for the journal.
    pub resumed_by: &'static str,
    /// The user's command.
    pub command: Command,
    /// The digest of the credentials that the cluster was reached with.
    pub credentials: [u8; 32],
    /// Counts it.
    pub metrics: DriveMetrics,
}

/// The driver of a run panicked, with this text.
#[derive(Debug)]
pub struct DriverPanic(pub String);

impl Drive {
    /// Begins.
    pub fn start<I: Io>(start: DriveStart<I>) -> Self {
        let DriveStart { open, live, runner, resumed_by, command, credentials, metrics } = start;
        let steps = CountSteps(Short::new(StepMetrics::new(metrics.metrics())));
        let (object, progress) = (open.journal.object(), open.journal.progress());
        let (tell_wait, waits) = watch::channel(None);
        let sinks: [Arc<dyn EventSink>; 2] = [Arc::new(steps), Arc::new(Waits(tell_wait))];
        let events = Arc::new(FanOut::new(sinks));
        // A pause that another process wrote down ends with a command to continue.
        let paused = open.state.paused().is_some();
        let resumed_by = (paused && command == Command::Continue).then(|| resumed_by.to_owned());
        let (commands, control) = watch::channel(command);
        let run = Run { open, io: Arc::new(live), runner, events, control, resumed_by };
        let (alive, over) = watch::channel(());
        let task = tokio::spawn(async move {
            let _alive = alive;
            // Boxed: the engine's future is large.
            Box::pin(upgrade_engine::drive(run)).await
        });
        Self {
            run: object,
            progress,
            waits,
            credentials,
            metrics: Some(metrics),
            commands,
            over,
            task,
        }
    }

    /// Passes the user's command on.
    pub fn send(&self, command: Command) {
        self.commands.send_if_modified(|last| {
            let changed = *last != command;
            *last = command;
            changed
        });
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.over.has_changed().is_err()
    }

    /// Comes back when it ends, or shows something new. Nothing is lost if it
    /// is not waited for.
    pub async fn changed(&mut self) {
        tokio::select! {
            _ = self.over.changed() => {}
            Ok(()) = self.progress.changed() => {}
            Ok(()) = self.waits.changed() => {}
        }
    }

    /// How it ended.
    pub async fn end(mut self) -> Result<Result<End, DriveError>, DriverPanic> {
        let ended = (&mut self.task).await;
        ended.map_err(|error| match error.try_into_panic() {
            Ok(panic) => DriverPanic(panic_text(&*panic).to_owned()),
            Err(_) => DriverPanic("it was cancelled".to_owned()),
        })
    }

    /// Ends it at once; steps in flight are in doubt for the process that resumes.
    pub async fn stop(mut self, limit: std::time::Duration) {
        self.send(Command::Stop);
        if tokio::time::timeout(limit, &mut self.task).await.is_err() {
            self.task.abort();
            // It must be gone before another process resumes.
            let _ = (&mut self.task).await;
        }
    }
}

impl Drop for Drive {
    /// A drive without an owner must not continue.
    fn drop(&mut self) {
        self.task.abort();
    }
}
