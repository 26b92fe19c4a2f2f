//! A journal in memory, for worlds that have no disk.

use std::sync::{Arc, Mutex, PoisonError};

use upgrade_core::journal::Entry;

use super::fence::Alone;
use super::{Fence, Journal, JournalError};

/// Entries in memory. Clones share them: what one process wrote, the next finds.
#[derive(Clone, Debug, Default)]
pub struct MemoryJournal(Arc<Mutex<Vec<Entry>>>);

impl MemoryJournal {
    /// All entries so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Journal for MemoryJournal {
    async fn append(&mut self, entry: &Entry) -> Result<(), JournalError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(entry.clone());
        Ok(())
    }

    fn fence(&self) -> Arc<dyn Fence> {
        Arc::new(Alone)
    }
}
