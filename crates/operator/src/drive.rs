//! One drive of a run: the engine in a task of its own, with its journal in the
//! run's object.

use std::sync::{Arc, Mutex as Short, PoisonError};

use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use upgrade_core::event::{Event, EventKind};
use upgrade_engine::control::Word;
use upgrade_engine::drive::{DriveError, End, Run};
use upgrade_engine::events::{EventSink, FanOut};
use upgrade_engine::store::OpenRun;

use crate::http::{Drives, Steps};
use crate::pace::Paced;
use crate::run::{Picture, Record, RunJournal, waiting};

/// A run under way in this process.
pub struct Drive {
    /// Its object.
    pub record: Arc<Mutex<Record>>,
    /// Where it stands, after each entry.
    pub picture: watch::Receiver<Picture>,
    /// What it waits for, if a person should know.
    pub waits: watch::Receiver<Option<String>>,
    /// The keys that it uses.
    pub keys: [u8; 32],
    /// Counts it until it ends, or is let go of.
    pub drives: Option<Drives>,
    word: watch::Sender<Word>,
    /// Its other end is gone when the task is.
    over: watch::Receiver<()>,
    task: JoinHandle<Result<End, DriveError>>,
}

/// Counts and times steps.
struct StepMetrics(Short<Steps>);

impl EventSink for StepMetrics {
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
        self.0.send_if_modified(|told| {
            let changed = *told != waits;
            *told = waits;
            changed
        });
    }
}

/// What a drive is made of.
pub struct Start {
    /// The run.
    pub open: OpenRun<RunJournal>,
    /// The cluster.
    pub live: Paced,
    /// Who drives.
    pub runner: String,
    /// The user's word.
    pub word: Word,
    /// The keys that the cluster was reached with.
    pub keys: [u8; 32],
    /// Counts it.
    pub drives: Drives,
}

impl Drive {
    /// Begins.
    pub fn start(start: Start) -> Self {
        let Start { open, live, runner, word, keys, drives } = start;
        let steps = StepMetrics(Short::new(Steps::new(drives.metrics())));
        let (record, picture) = (open.journal.record(), open.journal.picture());
        let (tell_wait, waits) = watch::channel(None);
        let sinks: [Arc<dyn EventSink>; 2] = [Arc::new(steps), Arc::new(Waits(tell_wait))];
        let events = Arc::new(FanOut::new(sinks));
        // A pause that another process wrote down ends with a word to go on.
        let paused = open.state.paused().is_some();
        let resumed_by = (paused && word == Word::Go).then(|| "the annotations".to_owned());
        let (word, control) = watch::channel(word);
        let run = Run { open, io: Arc::new(live), runner, events, control, resumed_by };
        let (alive, over) = watch::channel(());
        let task = tokio::spawn(async move {
            let _alive = alive;
            // Boxed: the engine's future is large.
            Box::pin(upgrade_engine::drive(run)).await
        });
        Self { record, picture, waits, keys, drives: Some(drives), word, over, task }
    }

    /// Passes the user's word on.
    pub fn say(&self, word: Word) {
        self.word.send_if_modified(|said| {
            let changed = *said != word;
            *said = word;
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
            Ok(()) = self.picture.changed() => {}
            Ok(()) = self.waits.changed() => {}
        }
    }

    /// How it ended; a panic is its text.
    pub async fn end(mut self) -> Result<Result<End, DriveError>, String> {
        let ended = (&mut self.task).await;
        ended.map_err(|error| match error.try_into_panic() {
            Ok(panic) => panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                .unwrap_or_else(|| "no reason given".to_owned()),
            Err(_) => "it was cancelled".to_owned(),
        })
    }

    /// Ends it at once; what is under way is in doubt for whoever resumes.
    pub async fn stop(mut self, limit: std::time::Duration) {
        self.say(Word::Stop);
        if tokio::time::timeout(limit, &mut self.task).await.is_err() {
            self.task.abort();
            // Whoever resumes must not meet it.
            let _ = (&mut self.task).await;
        }
    }
}

impl Drop for Drive {
    /// A drive that nobody listens to must not go on.
    fn drop(&mut self) {
        self.task.abort();
    }
}
