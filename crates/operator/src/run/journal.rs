//! The engine's journal over a run's object.

use std::sync::Arc;

use tokio::sync::{Mutex, watch};
use upgrade_core::journal::Entry;
use upgrade_engine::journal::{Fence, Journal, JournalError};

use super::picture::Picture;
use super::record::Record;

/// Writes entries into the run, and shows where it stands after each.
pub struct RunJournal {
    record: Arc<Mutex<Record>>,
    fence: Arc<dyn Fence>,
    show: watch::Sender<Picture>,
}

impl RunJournal {
    /// A journal for one drive.
    pub const fn new(
        record: Arc<Mutex<Record>>,
        fence: Arc<dyn Fence>,
        show: watch::Sender<Picture>,
    ) -> Self {
        Self { record, fence, show }
    }
}

impl Journal for RunJournal {
    async fn append(&mut self, entry: &Entry) -> Result<(), JournalError> {
        self.fence.holds().map_err(|lost| JournalError(lost.0))?;
        let mut record = self.record.lock().await;
        let written = record.append(entry).await;
        written.map_err(|error| JournalError(error.to_string()))?;
        self.show.send_replace(record.picture());
        Ok(())
    }

    fn fence(&self) -> Arc<dyn Fence> {
        Arc::clone(&self.fence)
    }
}
