//! The commands, one file each.

mod matrix;
mod plan;
mod sim;

pub use matrix::matrix;
pub use plan::plan;
pub use sim::sim;
