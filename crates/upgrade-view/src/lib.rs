//! The read model of a run. Progress bars, `status`, reports, conditions and dashboards
//! render it; none of them reads the journal itself.
//!
//! - [`RunView`] says where a run stands: a lens on its plan and the fold of its journal.
//! - [`LiveRun`] is the same for a process that follows a run by its events. It adds what
//!   only events say: the progress of a step, the reason for a wait, the time left.
//! - [`Timeline`] says what happened, attempt by attempt, over every process that drove
//!   the run; [`Outcomes`] sums it up by node.
//!
//! All of it is pure: data and functions of their arguments, the time included. It contains no
//! prose either, except for the one line of a [`RunResult`]: words belong to the front ends.

// Nothing here reads a clock or the environment; an exception cannot be made.
#![forbid(clippy::disallowed_methods)]

mod live;
mod outcome;
mod result;
mod run;
#[cfg(test)]
mod test_fixtures;
mod timeline;

pub use live::{LiveRun, Waiting};
pub use outcome::{ClusterOutcome, NodeOutcome, Outcomes, Unfinished, Verified, VersionChange};
pub use result::RunResult;
pub use run::{HopProgress, NodeProgress, Queued, RunView, Stage, StepProgress, lane_order};
pub use timeline::{Attempt, Timeline, busy};
