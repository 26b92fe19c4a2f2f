//! The annotation front end: an operator that upgrades many clusters from one hub.
//!
//! A user sets `upgrade.vitistack.io/talos-target` or `kubernetes-target` on a
//! `KubernetesCluster`; everything else follows:
//!
//! - [`annotations`] reads the annotations, [`versions_observed`] says which versions run,
//!   and [`decide`] turns both, purely, into a status and a next action. [`status`] turns
//!   the status into patches.
//! - [`reconciler`] serves one cluster: it reads, decides, writes and drives, and a failure
//!   stays in it. [`fleet`] keeps one for each object.
//! - [`run`] is the run in its `UpgradeRun` object: plan, hash, journal. [`drive`] lets the
//!   engine work on it.
//! - [`version_probe`] asks an idle cluster for its versions; [`observe`] observes all that
//!   a plan needs, and [`plan`](mod@plan) plans on it. [`limiter`] bounds how many clusters are observed at once,
//!   [`start_gate`] lets runs that have not started go first.
//! - [`missed_changes`] asks the hub what changed before this replica watched.
//! - [`lease`] fences drivers from each other (rule 9), as long as the [`heartbeat`] of
//!   their replica is seen; [`shard`] divides the clusters among replicas.
//! - [`hub_config`] finds the hub as kubectl does, and [`needs`] checks what it lacks;
//!   [`error_log`] logs an error that repeats once.
//! - [`versions`] knows which releases exist, [`http`] serves health and metrics,
//!   [`rlimit`] raises the limit of open files, and [`serve`](mod@serve) puts all of it
//!   together.

pub mod annotations;
pub mod api_call;
pub mod clock;
pub mod connect;
pub mod decide;
pub mod drive;
pub mod error_log;
pub mod events;
pub mod fleet;
pub mod heartbeat;
pub mod http;
pub mod hub_config;
pub mod keys;
pub mod lease;
pub mod limiter;
pub mod missed_changes;
pub mod needs;
pub mod observe;
pub mod operator;
pub mod plan;
pub mod reconciler;
pub mod rlimit;
pub mod run;
pub mod serve;
pub mod shard;
pub mod start_gate;
pub mod status;
pub mod version_probe;
pub mod versions;
pub mod versions_observed;

pub use operator::{Operator, Options};
pub use serve::{ServeError, Settings, serve};
