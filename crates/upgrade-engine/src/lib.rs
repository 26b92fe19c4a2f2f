//! The engine: observe, decide, act, remember; then again.
//!
//! - [`io`] is the outside, as traits: Talos, Kubernetes, the clock.
//! - [`journal`] is the run's memory, synced before each act; [`store`] where runs are kept.
//! - [`snapshots`] takes etcd snapshots off the cluster, into a store.
//! - [`prepare`] observes all that a plan needs; plan and check are the planner's.
//! - [`observe()`] makes a snapshot; [`drive()`] asks `decide` what comes next
//!   and runs the steps, each of which is a file in `steps`.
//! - [`events`] is where events go, to as many sinks as a front end wants.
//! - [`control`] is the user's word while it runs: go gently to a stop, or stop.
//!
//! What may be done and when is decided in the planner, purely; nothing here
//! chooses. Command line, operator and Job all call the same [`drive()`].

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
