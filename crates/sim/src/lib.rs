//! A cluster of simulated Talos nodes.
//!
//! [`model`] is the heart: a pure, synchronous state machine of one cluster.
//! Sockets, and the in-memory worlds of the deterministic simulation, are
//! doors to it.

pub mod model;
