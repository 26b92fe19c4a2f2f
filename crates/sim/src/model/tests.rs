//! Worlds from outside, as a door sees them.

mod driver;
mod etcd;
mod lifecycle;
