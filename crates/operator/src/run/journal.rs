//! The engine's journal over a run's object.

use std::sync::Arc;

use tokio::sync::{Mutex, watch};
use upgrade_core::journal::{Entry, State};
use upgrade_engine::journal::{Fence, Journal, JournalError};

use super::object::RunObject;
use super::progress::RunProgress;
use crate::limiter::Limiter;

/// Writes entries into the run, and shows where it stands after each.
pub struct RunJournal {
    record: Arc<Mutex<RunObject>>,
    fence: Arc<dyn Fence>,
    show: watch::Sender<RunProgress>,
    writes: Arc<Limiter>,
}

impl RunJournal {
    /// A journal for one drive, of a run that stands here.
    pub fn new(
        record: RunObject,
        state: &State,
        fence: Arc<dyn Fence>,
        writes: Arc<Limiter>,
    ) -> Self {
        let show = watch::Sender::new(record.progress(state));
        Self { record: Arc::new(Mutex::new(record)), fence, show, writes }
    }

    /// The run's object, for what is written of it beside its journal.
    pub fn record(&self) -> Arc<Mutex<RunObject>> {
        Arc::clone(&self.record)
    }

    /// Where the run stands, after each entry.
    pub fn progress(&self) -> watch::Receiver<RunProgress> {
        self.show.subscribe()
    }
}

impl Journal for RunJournal {
    async fn append(&mut self, entry: &Entry, state: &State) -> Result<(), JournalError> {
        self.fence.holds().map_err(|lost| JournalError(lost.0))?;
        let mut record = self.record.lock().await;
        let turn = self.writes.turn().await;
        let written = record.append(entry, state).await;
        drop(turn);
        let progress = written.map_err(|error| JournalError(error.to_string()))?;
        self.show.send_replace(progress);
        Ok(())
    }

    fn fence(&self) -> Arc<dyn Fence> {
        Arc::clone(&self.fence)
    }
}
