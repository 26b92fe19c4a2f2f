//! Runs: each is an `UpgradeRun` object with its plan, its journal and where it
//! stands.

mod journal;
mod pack;
mod parts;
mod picture;
mod record;
mod store;

pub use journal::RunJournal;
pub use picture::{Picture, cast, halted, waiting};
pub use record::{Record, RecordError};
pub use store::{KEEP, NewRun, RunStore};
