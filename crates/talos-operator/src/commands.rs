//! The commands, a file for each group of them.

mod crds;
mod demo;
mod health;
mod matrix;
mod operator;
mod plan;
mod prompt;
mod rollback;
mod runs;
mod sim;
mod snapshot;
mod upgrade;
mod version;

pub use crds::crds;
pub use demo::demo;
pub use health::health;
pub use matrix::matrix;
pub use operator::operator;
pub use plan::plan;
pub use rollback::rollback;
pub use runs::{pause, resume, status};
pub use sim::sim;
pub use snapshot::snapshot;
pub use upgrade::upgrade;
pub use version::version;
