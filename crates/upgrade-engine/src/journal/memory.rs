//! Runs and journals in memory, for simulations and tests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use thiserror::Error;
use upgrade_core::jiff;
use upgrade_core::journal::{Entry, State};
use upgrade_core::plan::Plan;

use super::fence::Alone;
use super::{Fence, Journal, JournalError};
use crate::store::{Inherited, NotBegun, OpenRun, RunStore, StoredRun, Unfit, take_over};

/// Entries in memory. Clones share them: what one process wrote, the next one reads.
#[derive(Clone, Debug, Default)]
pub struct MemoryJournal(Arc<Mutex<Vec<Entry>>>);

impl MemoryJournal {
    /// All entries so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal for MemoryJournal {
    async fn append(&mut self, entry: &Entry, _: &State) -> Result<(), JournalError> {
        self.lock().push(entry.clone());
        Ok(())
    }

    fn fence(&self) -> Arc<dyn Fence> {
        Arc::new(Alone)
    }
}

/// An error of runs in memory.
#[derive(Debug, Error)]
pub enum MemoryError {
    /// The last run has not ended.
    #[error(transparent)]
    NotBegun(#[from] NotBegun),
    /// The entries do not fit their plan.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// There is no run.
    #[error("there is no run")]
    NoRun,
}

/// Runs in memory. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore(Arc<Mutex<Vec<Kept>>>);

#[derive(Debug)]
struct Kept {
    plan: Arc<Plan>,
    inherited: Inherited,
    journal: MemoryJournal,
}

impl Kept {
    fn stored(&self, number: usize) -> StoredRun {
        let entries = self.journal.entries();
        StoredRun {
            name: format!("run-{}", number + 1),
            // The only clock here is that of the entries.
            began: entries.first().map_or(Timestamp::UNIX_EPOCH, |entry| entry.at),
            plan: Arc::clone(&self.plan),
            inherited: self.inherited.clone(),
            entries,
        }
    }
}

impl MemoryStore {
    fn lock(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The plans of all runs, the newest last.
    pub fn plans(&self) -> Vec<Arc<Plan>> {
        self.lock().iter().map(|run| Arc::clone(&run.plan)).collect()
    }

    fn newest(&self) -> Option<StoredRun> {
        let runs = self.lock();
        runs.last().map(|run| run.stored(runs.len() - 1))
    }

    /// As [`RunStore::begin`], but synchronous.
    pub fn begin_now(
        &self,
        plan: Plan,
        replace: bool,
    ) -> Result<OpenRun<MemoryJournal>, MemoryError> {
        let inherited = take_over(self.newest().as_ref(), replace)?;
        let (plan, journal) = (Arc::new(plan), MemoryJournal::default());
        let run = Kept {
            plan: Arc::clone(&plan),
            inherited: inherited.clone(),
            journal: journal.clone(),
        };
        self.lock().push(run);
        Ok(OpenRun::new(plan, inherited, journal))
    }

    /// As [`RunStore::resume`], but synchronous.
    pub fn resume_now(&self) -> Result<OpenRun<MemoryJournal>, MemoryError> {
        let run = self.newest().ok_or(MemoryError::NoRun)?;
        let journal = self.lock().last().map(|run| run.journal.clone());
        Ok(OpenRun::of(run, journal.unwrap_or_default())?)
    }
}

impl RunStore for MemoryStore {
    type Journal = MemoryJournal;
    type Error = MemoryError;

    async fn last(&self) -> Result<Option<StoredRun>, MemoryError> {
        Ok(self.newest())
    }

    async fn runs(&self) -> Result<Vec<StoredRun>, MemoryError> {
        let runs = self.lock();
        Ok(runs.iter().enumerate().rev().map(|(number, run)| run.stored(number)).collect())
    }

    async fn begin(
        &self,
        plan: Plan,
        replace: bool,
    ) -> Result<OpenRun<MemoryJournal>, MemoryError> {
        self.begin_now(plan, replace)
    }

    async fn resume(&self) -> Result<OpenRun<MemoryJournal>, MemoryError> {
        self.resume_now()
    }
}
