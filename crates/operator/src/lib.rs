//! The annotation door.
mod decide;
pub mod http;
mod names;
mod seen;
pub mod versions;
mod wish;
