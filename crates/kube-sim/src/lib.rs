//! The Kubernetes API of one simulated cluster: a pure, synchronous model.
//!
//! An [`ApiServer`] takes requests and the time, and gives replies and what
//! open watches are to be told. It has no clock, no sockets, no threads and no
//! state outside itself; its only chance is a seeded generator that is part of
//! its state. Whoever drives it does this:
//!
//! ```text
//! loop:
//!     at the time of next_event():  advance(now)
//!     when a caller sends something: request(now, ...)
//!     after either:                  outputs() -> to the open watches
//! ```
//!
//! Doors own what is not the API itself: TLS, who the caller is, and HTTP. The
//! simulated kubelets, and the controllers in [`controllers`], do not send
//! requests: they work on the [`Store`], which knows the same rules.
//!
//! Objects are plain JSON. It is storage and rules for an upgrade and for the
//! commands that people use around one, not a second Kubernetes.

#![forbid(clippy::disallowed_methods)]

pub mod api;
pub mod controllers;
mod events;
mod fields;
pub mod kubelet;
pub mod names;
pub mod object;
mod patch;
mod protobuf;
pub mod random;
mod schema;
pub mod selector;
mod server;
pub mod status;
pub mod store;
mod time;
pub mod types;
mod version;

pub use api::{Caller, Item, Method, Output, Reply, Request, StreamId};
pub use names::ResourceName;
pub use server::ApiServer;
pub use status::Status;
pub use store::{Change, ChangeKind, Store, Write};
pub use time::Time;
