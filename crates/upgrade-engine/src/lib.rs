//! The engine: observe, decide, act, journal; then again.
//!
//! - [`io`] has the traits for everything outside the process: Talos, Kubernetes, the clock.
//! - [`journal`] is what a run remembers, synced before each act; [`store`] is where runs are kept.
//! - [`snapshots`] takes etcd snapshots off the cluster, into a store.
//! - [`prepare`] observes all that a plan needs; planning and checking are in the planner.
//! - [`observe()`] takes a snapshot; [`drive()`] asks `decide` what comes next and runs the steps,
//!   each of which is a file in `steps`.
//! - [`events`] passes events to any number of sinks.
//! - [`control`] passes the user's commands to a run: pause, continue, stop.
//!
//! The planner decides what may be done and when, as a pure function; nothing here chooses. Command
//! line, operator and Job all call the same [`drive()`].

pub mod clock;
pub mod control;
pub mod drive;
pub mod events;
mod inventory;
pub mod io;
pub mod journal;
mod manifests;
pub mod observe;
pub mod prepare;
pub mod snapshots;
mod steps;
pub mod store;

pub use drive::drive;
pub use manifests::observe_manifests;
pub use observe::observe;
pub use prepare::{observe_all, observe_whole, observe_workloads};
