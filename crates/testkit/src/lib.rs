//! Shared helpers for the tests of several crates.
//!
//! - [`tool`]: the real talosctl, kubectl, etcdutl and versitygw.
//! - [`Hub`]: a real control plane with our custom resources, one for many tests.
//! - [`Tenant`]: a namespace of a hub for one test, with the shipped account and its rights, and
//!   watches instead of polling.
//! - [`S3Server`]: a real S3 server on loopback, with or without TLS.
//! - [`cluster`]: simulated clusters that run faster than real time.
//! - [`Definition`]: what has to fit the definition of a kind.
//! - [`workloads`]: the Deployments and budgets that drains meet.
//!
//! It is for tests: every failure is a panic that names the expectation.

pub mod cluster;
mod definition;
mod hub;
mod kinds;
mod manifests;
mod objects;
mod program;
mod s3_server;
mod tenant;
mod watch;
pub mod workloads;

pub use self::definition::Definition;
pub use self::hub::Hub;
pub use self::objects::{annotation, kubernetes_cluster};
pub use self::program::{Printed, now, tool};
pub use self::s3_server::S3Server;
pub use self::tenant::Tenant;
pub use self::watch::Watch;

/// The deadline of every wait; nothing takes this long unless the machine hangs.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_mins(10);
