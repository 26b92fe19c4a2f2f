//! The annotation operator under simulation: the shipped code of several replicas, from the
//! watch to the engine, on a hub and a cluster in memory, under a paused clock.
//!
//! [`scenario`] says what a seed means, [`play`] plays it. The [`hub`] is the API server of
//! `kube-sim`; each replica reaches it over a [`link`] of its own, and the cluster through
//! [`cluster`]. The [`judge`] shows the referee of `simulation-tests` what happens, and judges
//! what only the hub shows: which runs begin, and how they end.

pub mod cluster;
pub mod hub;
pub mod judge;
pub mod link;
mod play;
mod replica;
pub mod scenario;
mod user;

pub use play::{Played, play};
