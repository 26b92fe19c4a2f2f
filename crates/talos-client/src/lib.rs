//! A client of the Talos API, for upgrading clusters in production.
//!
//! - [`talosconfig`] holds endpoints and credentials of a cluster; [`settings`] knows the default
//!   locations of that file.
//! - [`Client`] knows the cluster's endpoints, keeps a connection to each, and fails over to the
//!   next. [`Node`] is one machine and has the methods: [`machine`], [`etcd`] and [`snapshot`],
//!   [`image`], [`install`] and [`upgrade`], [`config`], [`files`], [`logs`], [`events`],
//!   [`health`].
//! - [`cosi`] reads a node's resources, [`watch`] follows them, [`resources`]
//!   has our views of them.
//!
//! What holds everywhere:
//!
//! - Every call has a deadline ([`deadline`]); streams have a longest silence.
//! - TLS is mutual and always verified.
//! - Calls that change something are sent at most once, by construction, and their error says
//!   whether the change may have happened ([`ActError`]). Other calls are retried where that can
//!   help; only the module `recover` decides where.
//! - Keys, tokens and configurations never appear in `Debug` output or errors.

pub mod address;
mod archive;
pub mod boot;
mod client;
pub mod config;
mod connect;
mod connection_error;
pub mod cosi;
pub mod deadline;
mod endpoints;
pub mod error;
pub mod etcd;
pub mod events;
pub mod files;
pub mod health;
pub mod image;
pub mod install;
pub mod logs;
pub mod machine;
mod pem;
mod recover;
mod reply;
pub mod resources;
pub mod settings;
pub mod snapshot;
mod stream;
pub mod talosconfig;
mod tls;
pub mod upgrade;
pub mod watch;

pub use client::{Client, Node};
pub use connection_error::ConnectionError;
pub use endpoints::EndpointHealth;
pub use error::{ActError, Error, Failure, Outcome};
pub use stream::ByteStream;
pub use talosconfig::{Context, Talosconfig};
pub use upgrade_core::hidden::Hidden;
