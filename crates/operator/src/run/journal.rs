//! The engine's journal over a run's object.

use std::sync::Arc;

use tokio::sync::{Mutex, watch};
use upgrade_core::journal::{Entry, State};
use upgrade_engine::journal::{Fence, Journal, JournalError};

use super::picture::Picture;
use super::record::Record;
use crate::pace::Pace;

/// Writes entries into the run, and shows where it stands after each.
pub struct RunJournal {
    record: Arc<Mutex<Record>>,
    fence: Arc<dyn Fence>,
    show: watch::Sender<Picture>,
    writes: Arc<Pace>,
}

impl RunJournal {
    /// A journal for one drive, of a run that stands here.
    pub fn new(record: Record, state: &State, fence: Arc<dyn Fence>, writes: Arc<Pace>) -> Self {
        let show = watch::Sender::new(record.picture(state));
        Self { record: Arc::new(Mutex::new(record)), fence, show, writes }
    }

    /// The run's object, for what is written of it beside its journal.
    pub fn record(&self) -> Arc<Mutex<Record>> {
        Arc::clone(&self.record)
    }

    /// Where the run stands, after each entry.
    pub fn picture(&self) -> watch::Receiver<Picture> {
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
        let picture = written.map_err(|error| JournalError(error.to_string()))?;
        self.show.send_replace(picture);
        Ok(())
    }

    fn fence(&self) -> Arc<dyn Fence> {
        Arc::clone(&self.fence)
    }
}
