//! The annotation door.
mod decide;
mod names;
mod seen;
mod wish;
