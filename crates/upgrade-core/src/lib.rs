//! Domain types of talos-operator.
//!
//! Everything here is pure data and pure questions about it: no network, no
//! files, no clock. In the order in which an upgrade passes them:
//!
//! - [`version`], [`matrix`], [`catalogue`], [`image`]: what there is to run.
//! - [`snapshot`], [`observation`]: what was observed of a cluster; [`product`]: which
//!   versions run; [`extension`]: names that changed.
//! - [`intent`], [`policy`] ([`amount`], [`window`]): what the user wants, and how; [`cron`]:
//!   when something recurs.
//! - [`plan`], [`step`]: what will be done.
//! - [`journal`]: what was done.
//! - [`call`]: how a call to a machine ended.
//! - [`reason`], [`event`]: what users read about it; [`advice`]: what they can do next;
//!   [`secret`] removes secrets, [`hidden`] keeps them out of output, [`text`] has error chains
//!   and lists.
//!
//! [`mutant`] breaks all this on purpose, in tests of the tests.
//!
//! "Rule 5" in a comment is rule 5 of `docs/architecture.md`.

// The bans on clocks and on the environment hold here without exception.
#![forbid(clippy::disallowed_methods)]

pub mod advice;
pub mod amount;
pub mod call;
pub mod catalogue;
pub mod cron;
pub mod etcd_snapshot;
pub mod event;
pub mod extension;
pub mod hidden;
pub mod image;
pub mod intent;
pub mod journal;
pub mod manifests;
pub mod matrix;
pub mod mutant;
pub mod observation;
pub mod plan;
pub mod policy;
pub mod product;
pub mod readiness;
pub mod reason;
pub mod secret;
pub mod selector;
pub mod slots;
pub mod snapshot;
pub mod step;
pub mod text;
pub mod version;
pub mod window;
pub mod workload;

pub use jiff;
