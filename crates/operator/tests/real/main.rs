//! The operator on a real API server, its clusters simulated.

#![cfg(unix)]

mod failure;
mod resilience;
mod user;
mod workflow;
mod world;
