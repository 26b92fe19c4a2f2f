//! The engine's tests: clusters in memory, driven from end to end under a paused
//! clock.

mod common;
mod crashes;
mod drains;
mod external;
mod fences;
mod installs;
mod journals;
mod kubernetes;
mod labels;
mod prepare;
mod readiness;
mod runs;
mod snapshots;
mod stores;
mod uncordons;
mod upgraded;
