//! What a run remembers: where entries are written, and where they are read after a crash.
//!
//! [`file`](mod@file) keeps journals on disk, `history` reads them, and [`memory`] is for
//! simulations and tests. [`Fence`] says whether the run is still ours.
//! [`RunStore`](crate::store::RunStore) is the interface of all of them.

mod fence;
pub mod file;
mod history;
mod lock;
pub mod memory;

use std::future::Future;
use std::sync::Arc;

use thiserror::Error;
use upgrade_core::journal::{Entry, State};

pub(crate) use fence::Guard;
pub use fence::{Fence, Lost};
pub use file::{FileError, FileJournal, FileStore, Folder};
pub use lock::Holder;
pub use memory::{MemoryJournal, MemoryStore};

/// A journal that could not be written. Nothing may be done that is not written
/// first, so the run ends here.
#[derive(Debug, Error)]
#[error("the journal could not be written: {0}")]
pub struct JournalError(pub String);

/// An append-only list of entries. One process has it at a time (rule 9).
pub trait Journal: Send {
    /// Appends an entry; once it returns, the entry survives a power cut. `state` is the fold of
    /// the driver with the entry in it, for journals that also publish where the run stands: none
    /// keeps a fold of its own.
    fn append(
        &mut self,
        entry: &Entry,
        state: &State,
    ) -> impl Future<Output = Result<(), JournalError>> + Send;

    /// Says whether this process still has the journal. Asked before every act.
    fn fence(&self) -> Arc<dyn Fence>;
}
