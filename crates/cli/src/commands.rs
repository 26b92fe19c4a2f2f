//! The commands, one file each.

mod matrix;
mod plan;

pub use matrix::matrix;
pub use plan::plan;
