//! The engine's outside over the network: a live cluster.
//!
//! [`Live`] is all of it: the machines over their Talos API ([`talos`]), and the
//! Kubernetes that runs on them ([`kubernetes`]). Both report facts and carry
//! out single acts; what to do, and when, and what to wait for, is the engine's.
//!
//! What holds everywhere:
//!
//! - Every call has a deadline, and transient errors are retried within it. An
//!   act on a machine is sent at most once, and says whether it may have
//!   happened (rule 8).
//! - `changes` come from watches that survive reboots of the nodes and of the
//!   API server. They only say when to observe: every observation asks the
//!   cluster again, so no decision depends on a cache (rules 2 and 10).
//! - Keys, tokens and configurations are in no error (rule 14).

pub mod kubernetes;
mod live;
mod snapshots;
pub mod talos;
mod talos_error;

pub use live::{ConnectError, Credentials, Live, Options};
pub use snapshots::{LiveSnapshots, LiveWriter};
