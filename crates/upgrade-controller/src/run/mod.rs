//! Runs: each is an `UpgradeRun` object with its plan, its journal and where it
//! stands.

mod compress;
mod journal;
mod journal_chunks;
mod leased;
mod object;
mod progress;
mod store;

pub use journal::RunJournal;
pub use leased::{LeasedRuns, StoreError};
pub use object::{RunObject, RunObjectError};
pub use progress::{RunProgress, halted, roles, waiting};
pub use store::{InheritError, KEEP, NewRun, UpgradeRuns};
