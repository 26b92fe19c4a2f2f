//! Worlds from outside, as a door sees them.

mod config;
mod cosi;
mod driver;
mod etcd;
mod lifecycle;
mod machine;
mod size;
