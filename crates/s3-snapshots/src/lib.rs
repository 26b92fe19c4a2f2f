//! etcd snapshots in S3, or in anything that speaks its protocol (rule 3).
//!
//! - [`Address`]: what a user writes, `s3://bucket/prefix?region=...`.
//! - [`Config`]: an address with the credentials and authorities that it needs.
//! - [`S3Snapshots`]: the [`SnapshotStore`](upgrade_engine::snapshots::SnapshotStore).
//! - [`S3Error`]: what was wrong, and what to do next.
//!
//! What holds everywhere:
//!
//! - **Whole or nothing.** A snapshot is uploaded in parts, which become an object only when all of
//!   them are there. Any failure before removes the parts.
//! - **Nothing is overwritten**, also not by two processes at once: the server is asked to refuse.
//! - **Read back.** An object counts only after its size and its SHA-256 were read back.
//! - **TLS is always verified.** Plain HTTP is for loopback only (rule 14).
//! - **Credentials never appear** in `Debug` output, errors or logs (rule 14). Replies of the server
//!   can quote them, so only an error's code and message leave `transport`.
//! - Every request has a deadline (rule 11).
//!
//! The protocol is `object_store`'s; HTTP and TLS are ours, the same as in the rest of the program.

mod address;
mod config;
mod error;
mod store;
mod tls;
mod transport;
mod upload;
mod verify;

pub use address::{Address, AddressError, Encryption};
pub use config::{Config, ConfigError, Credentials, Environment};
pub use error::{Problem, S3Error};
pub use store::S3Snapshots;
pub use upload::S3Writer;
