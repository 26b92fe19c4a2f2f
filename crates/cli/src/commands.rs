//! The commands, a file for each group of them.

mod ask;
mod crds;
mod demo;
mod look;
mod matrix;
mod operator;
mod plan;
mod rollback;
mod runs;
mod sim;
mod upgrade;

pub use crds::crds;
pub use demo::demo;
pub use look::{health, snapshot, version};
pub use matrix::matrix;
pub use operator::operator;
pub use plan::plan;
pub use rollback::rollback;
pub use runs::{pause, resume, status};
pub use sim::sim;
pub use upgrade::upgrade;
