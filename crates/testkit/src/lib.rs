//! What the tests of several crates share.
//!
//! - [`tool`]: the real talosctl, kubectl and etcdutl.
//! - [`Hub`]: a real control plane that knows our kinds, one for many tests.
//! - [`Tenant`]: a namespace of a hub that belongs to one test, with the shipped
//!   account and its rights, and a watch instead of a poll for what is waited for.
//! - [`cluster`]: simulated clusters in a hurry.
//! - [`workloads`]: the Deployments and budgets that drains meet.
//!
//! It is made for tests: whatever goes wrong is a panic that says what was expected.

pub mod cluster;
mod hub;
mod kinds;
mod manifests;
mod objects;
mod program;
mod tenant;
mod watch;
pub mod workloads;

pub use self::hub::Hub;
pub use self::objects::{annotation, kubernetes_cluster};
pub use self::program::{Printed, now, tool};
pub use self::tenant::Tenant;
pub use self::watch::Watch;

/// Nothing here takes this long on a machine that does not stand still.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_mins(10);
