//! The built binary against simulated clusters, over real sockets.

#![cfg(unix)]

mod bench;
mod commands;
mod faults;
mod going_back;
mod installers;
mod interrupted;
mod kubernetes_faults;
mod nodes;
mod upgrades;
