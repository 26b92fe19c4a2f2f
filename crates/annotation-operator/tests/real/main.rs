//! The operator on a real API server, with simulated clusters. It runs as the
//! shipped service account, with the shipped RBAC and behind the shipped admission
//! policy. Each test has a namespace of a shared hub; its operators watch only that.

#![cfg(unix)]

mod armed;
mod blocked;
mod failure;
mod fleet;
mod journal;
mod leases;
mod many;
mod namespaces;
mod needs;
mod nodes;
mod recovery;
mod resilience;
mod sabotage;
mod steering;
mod user;
mod watcher;
mod workflow;
mod world;
