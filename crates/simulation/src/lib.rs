//! The whole engine, not a model of it, on in-memory worlds under a paused
//! clock: each a complete upgrade from one seed, watched by a referee.

pub mod referee;
pub mod seen;
