//! The Kubernetes API of one simulated cluster: a pure, synchronous model.
//!
//! An [`ApiServer`] takes requests and the time, and returns replies and items for open watches. It
//! has no clock, no sockets, no threads and no state outside itself; its only randomness is a
//! seeded generator that is part of its state. The caller drives it like this:
//!
//! ```text
//! loop:
//!     at the time of next_event():  advance(now)
//!     when a caller sends something: request(now, ...)
//!     after either:                  outputs() -> to the open watches
//! ```
//!
//! The caller also owns everything that is not the API itself: TLS, authentication and HTTP. The
//! simulated kubelets and the controllers in [`controllers`] do not send requests: they work on the
//! [`Store`] directly, which enforces the same rules.
//!
//! Objects are plain JSON. The model covers what an upgrade needs and the commands people use
//! around one; it is not a second Kubernetes.

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
