//! The engine's journal over a run's object.

use std::sync::Arc;

use tokio::sync::{Mutex, watch};
use upgrade_core::journal::{Entry, State};
use upgrade_engine::journal::{Fence, Journal, JournalError};

use super::object::RunObject;
use super::progress::RunProgress;
use crate::limits::Limiter;

/// Writes entries into the run, and shows where it stands after each.
pub struct RunJournal {
    object: Arc<Mutex<RunObject>>,
    fence: Arc<dyn Fence>,
    show: watch::Sender<RunProgress>,
    writes: Arc<Limiter>,
}

impl RunJournal {
    /// A journal for one drive, of a run that stands here.
    pub fn new(
        object: RunObject,
        state: &State,
        fence: Arc<dyn Fence>,
        writes: Arc<Limiter>,
    ) -> Self {
        let show = watch::Sender::new(object.progress(state));
        Self { object: Arc::new(Mutex::new(object)), fence, show, writes }
    }

    /// The run's object, for what is written of it beside its journal.
    pub fn object(&self) -> Arc<Mutex<RunObject>> {
        Arc::clone(&self.object)
    }

    /// Where the run stands, after each entry.
    pub fn progress(&self) -> watch::Receiver<RunProgress> {
        self.show.subscribe()
    }
}

impl Journal for RunJournal {
    async fn append(&mut self, entry: &Entry, state: &State) -> Result<(), JournalError> {
        self.fence.holds().map_err(|lost| JournalError(lost.0))?;
        let mut object = self.object.lock().await;
        let permit = self.writes.acquire().await;
        let written = object.append(entry, state).await;
        drop(permit);
        let progress = written.map_err(|error| JournalError(error.to_string()))?;
        self.show.send_replace(progress);
        Ok(())
    }

    fn fence(&self) -> Arc<dyn Fence> {
        Arc::clone(&self.fence)
    }
}
