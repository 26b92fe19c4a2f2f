//! Runs: each is an `UpgradeRun` object with its plan, its journal and where it
//! stands.

mod held;
mod journal;
mod pack;
mod parts;
mod picture;
mod record;
mod store;

pub use held::{HeldRuns, StoreError};
pub use journal::RunJournal;
pub use picture::{Picture, cast, halted, waiting};
pub use record::{Record, RecordError};
pub use store::{KEEP, NewRun, Unread, UpgradeRuns, target};
