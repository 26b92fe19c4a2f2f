//! The operator on a real API server, its clusters simulated. It comes in as the
//! account that is shipped, with the shipped rights and behind the shipped
//! admission policy.

#![cfg(unix)]

mod blocked;
mod failure;
mod journal;
mod leases;
mod many;
mod nodes;
mod recovery;
mod resilience;
mod sabotage;
mod steering;
mod user;
mod watcher;
mod workflow;
mod world;
