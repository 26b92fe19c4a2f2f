//! The controller behind every front end that serves clusters from one hub. It knows no kind
//! of a front end: [`front_end`] is the seam, and [`cluster`] says what crosses it. [`steering`]
//! reads the annotations that mean the same to every front end.
//!
//! - [`reconciler`] serves one cluster: it reads, decides, shows and drives, and its failures
//!   stay in it. [`fleet`] keeps one for each object, [`controller`] puts the parts together.
//! - [`run`] is the run in its `UpgradeRun` object: plan, hash, journal. [`drive`] lets the
//!   engine work on it.
//! - [`version_probe`] asks an idle cluster for its versions, [`versions_observed`] holds
//!   them; [`observe`] observes all that a plan needs, and [`plan`](mod@plan) plans on it.
//!   [`limits`] bounds how much of that happens at once.
//! - [`lease`] fences drivers from each other (rule 9), as long as the [`heartbeat`] of their
//!   process continues; [`shard`] divides the clusters among replicas.
//! - [`hub_config`] finds the hub as kubectl does, [`needs`] checks what it lacks, and
//!   [`api_call`] bounds calls to it; [`error_log`] logs an error that repeats once.
//! - [`versions`] knows the releases, [`http`] serves health and metrics, [`events`]
//!   publishes Events, [`rlimit`] raises the limit of open files, and
//!   [`serve`](mod@serve) is the process.

pub mod api_call;
pub mod clock;
pub mod cluster;
pub mod connect;
pub mod controller;
pub mod drive;
pub mod error_log;
pub mod events;
pub mod fleet;
pub mod front_end;
pub mod heartbeat;
pub mod http;
pub mod hub_config;
pub mod lease;
pub mod limits;
pub mod needs;
pub mod observe;
pub mod plan;
pub mod reconciler;
pub mod rlimit;
pub mod run;
pub mod serve;
pub mod shard;
pub mod steering;
pub mod version_probe;
pub mod versions;
pub mod versions_observed;

pub use serve::{Parts, ServeError, Service, Settings, serve};
