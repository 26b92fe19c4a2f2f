//! The annotation door: an operator that upgrades many clusters from one hub.
//!
//! A user sets `upgrade.vitistack.io/talos-target` or `kubernetes-target` on a
//! `KubernetesCluster`; everything else follows:
//!
//! - [`wish`] reads the annotations, [`seen`] what runs, and [`decide`] makes of
//!   both, purely, what is told and what is done. [`write`](mod@write) makes
//!   patches of it.
//! - [`task`] is one cluster: it reads, decides, writes and drives, and whatever
//!   happens to it stays in it. [`controller`] keeps one for each object.
//! - [`run`] is the run in its `UpgradeRun` object: plan, hash, journal.
//!   [`drive`] lets the engine work on it.
//! - [`glance`] sees what rests; [`look`] sees all, and plans. [`pace`] lets
//!   clusters take turns, [`rush`] lets those begin first that have not.
//! - [`past`] asks the hub what happened while nobody watched.
//! - [`lease`] fences drivers from each other (rule 9), as long as the [`pulse`] of
//!   theirs is seen; [`members`] shares the clusters among replicas.
//! - [`advice`] says in annotations what helps.
//! - [`access`] finds the hub as kubectl does, and [`needs`] asks what it lacks;
//!   [`repeat`] logs an error that repeats once.
//! - [`versions`] knows what there is to go to, [`http`] tells how the process
//!   does, [`files`] lets it have many connections, and [`serve`](mod@serve)
//!   puts all of it together.

pub mod access;
pub mod advice;
pub mod clock;
pub mod connect;
pub mod controller;
pub mod decide;
pub mod drive;
pub mod files;
pub mod glance;
pub mod http;
pub mod hub;
pub mod lease;
pub mod look;
pub mod members;
pub mod names;
pub mod needs;
pub mod news;
pub mod operator;
pub mod pace;
pub mod past;
pub mod pulse;
pub mod repeat;
pub mod run;
pub mod rush;
pub mod seen;
pub mod serve;
pub mod task;
pub mod versions;
pub mod wish;
pub mod write;

pub use operator::{Operator, Options};
pub use serve::{ServeError, Settings, serve};
