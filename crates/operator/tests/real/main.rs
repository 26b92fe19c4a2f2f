//! The operator on a real API server, its clusters simulated.

#![cfg(unix)]

mod workflow;
mod world;
