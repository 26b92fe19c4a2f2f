//! Planning and deciding: synchronous functions of their arguments, the time
//! included. No network, no files, no clock.
//!
//! - [`plan()`] turns what was observed and what is wanted into a [`Plan`] and a
//!   [`Report`]: [`targets`] says which node is to run what, [`hops`] finds the path
//!   through the support matrix, [`waves`] the order of nodes, [`installer`] the images.
//! - [`follow`] says which version may follow what runs (rule 13).
//! - [`check()`] reads a finished plan with other eyes and names what breaks a rule.
//! - [`armed()`] refuses what an earlier run's armed nodes do not allow.
//! - [`prepare()`] is all three, and what every front end calls.
//! - [`decide()`] says what to do next: it is the only home of parallelism,
//!   windows, pause, retries and quorum ([`etcd`]).
//! - [`rollback()`] plans the rollback of one node; [`downgrade`] says whether etcd's
//!   own downgrade comes first.
//! - [`estimate()`] says how long it will take.
//! - [`drain`] says which pods leave a node, and what will be in their way;
//!   [`health()`] how a cluster does.
//!
//! [`Plan`]: upgrade_core::plan::Plan
//! [`Report`]: report::Report

// The bans on clocks and on the environment hold here without exception.
#![forbid(clippy::disallowed_methods)]

pub mod armed;
pub mod boot;
pub mod check;
pub mod decide;
pub mod downgrade;
pub mod drain;
pub mod estimate;
pub mod etcd;
pub mod follow;
pub mod health;
pub mod hops;
pub mod installer;
mod lanes;
pub mod planner;
pub mod prepare;
mod prune;
pub mod report;
pub mod rollback;
pub mod targets;
pub mod waves;

pub use armed::{armed, no_slot};
pub use check::check;
pub use decide::decide;
pub use estimate::estimate;
pub use health::health;
pub use planner::{Planned, Request, plan};
pub use prepare::{Earlier, Prepared, prepare, prepare_rollback};
pub use rollback::rollback;
