//! A client of the Talos API, made for upgrading clusters that are in use.
//!
//! - [`talosconfig`] says how to reach a cluster and who we are; [`settings`]
//!   where that file usually is.
//! - [`Client`] knows the cluster's endpoints, keeps a connection to each, and
//!   goes to the next when one fails. [`Node`] is one machine, and has the
//!   methods: [`machine`], [`etcd`] and [`snapshot`], [`image`], [`install`] and
//!   [`upgrade`], [`config`], [`files`], [`logs`], [`events`], [`health`].
//! - [`cosi`] reads a node's resources, [`watch`] follows them, [`resources`]
//!   has our views of them.
//!
//! What holds everywhere:
//!
//! - Every call has a deadline ([`deadline`]); streams have a longest silence.
//! - TLS is mutual and always verified.
//! - What changes something is sent at most once, by construction, and its error
//!   says whether it may have happened ([`ActError`]). Everything else is tried
//!   again where that makes sense; the module `recover` alone says where.
//! - Keys, tokens and configurations are in no `Debug` output and in no error.

pub mod address;
mod archive;
pub mod boot;
mod client;
pub mod config;
mod connect;
pub mod cosi;
pub mod deadline;
mod endpoints;
pub mod error;
pub mod etcd;
pub mod events;
mod fault;
pub mod files;
pub mod health;
pub mod hidden;
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
pub use endpoints::EndpointHealth;
pub use error::{ActError, Error, Failure, Outcome};
pub use fault::Fault;
pub use hidden::Hidden;
pub use stream::ByteStream;
pub use talosconfig::{Context, Talosconfig};
