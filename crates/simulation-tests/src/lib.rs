//! The whole engine, not a model of it, on in-memory worlds under a paused
//! clock: each a complete upgrade from one seed, watched by a referee.
//!
//! [`scenario`] is what makes a run what it is, [`play`](mod@play) plays it in a
//! [`world`], [`referee`] watches what is [`seen`], [`coverage`] counts what was
//! met. `docs/simulation.md` tells how to add a fault and a rule.

pub mod coverage;
pub mod crash;
pub mod journal_store;
pub mod network;
pub mod referee;
pub mod runner;
pub mod scenario;
pub mod shrink;
pub mod template;
pub mod trace;
pub mod trace_text;
pub mod world;

pub use runner::{Played, play};
