//! The whole engine, not a model of it, on in-memory worlds under a paused clock: each seed is a
//! complete upgrade, watched by a referee.
//!
//! [`scenario`] says what a run consists of, [`runner`] plays it in a [`world`], [`referee`] watches
//! its [`trace`], and [`coverage`] counts what occurred. `docs/simulation.md` says how to add a fault
//! and a rule.

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
