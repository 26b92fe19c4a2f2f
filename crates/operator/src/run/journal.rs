//! The engine's journal over a run's object.

use std::sync::Arc;

use tokio::sync::{Mutex, watch};
use upgrade_core::journal::Entry;
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
    /// A journal for one drive.
    pub const fn new(
        record: Arc<Mutex<Record>>,
        fence: Arc<dyn Fence>,
        show: watch::Sender<Picture>,
        writes: Arc<Pace>,
    ) -> Self {
        Self { record, fence, show, writes }
    }
}

impl Journal for RunJournal {
    async fn append(&mut self, entry: &Entry) -> Result<(), JournalError> {
        self.fence.holds().map_err(|lost| JournalError(lost.0))?;
        let mut record = self.record.lock().await;
        let turn = self.writes.turn().await;
        let written = record.append(entry).await;
        drop(turn);
        written.map_err(|error| JournalError(error.to_string()))?;
        self.show.send_replace(record.picture());
        Ok(())
    }

    fn fence(&self) -> Arc<dyn Fence> {
        Arc::clone(&self.fence)
    }
}
