//! The annotation front end: users set `upgrade.vitistack.io/talos-target` or
//! `kubernetes-target` on a `KubernetesCluster`, and the operator does the rest.
//!
//! - [`annotations`] reads what users wrote; [`decide`] turns it and the observed versions,
//!   purely, into a status and a next action. [`status`] turns the status into patches,
//!   [`messages`] words errors of the controller, [`advice`] what helps, and [`events`] names Events.
//! - [`front_end`] is what the controller (`upgrade-controller`) works with; [`machines`]
//!   holds the inventory of the platform, and [`missed_changes`] asks the hub what changed
//!   before this replica watched.
//! - [`watch`] feeds the controller, [`needs`](mod@needs) lists what the hub has to serve
//!   and allow, and [`operator`] puts it together.

pub mod advice;
pub mod annotations;
pub mod decide;
pub mod events;
pub mod front_end;
pub mod keys;
pub mod machines;
pub mod messages;
pub mod missed_changes;
pub mod needs;
pub mod operator;
pub mod status;
pub mod watch;

pub use operator::{Operator, Options, serve};
