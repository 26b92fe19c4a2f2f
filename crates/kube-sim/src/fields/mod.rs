//! Field ownership, the purpose of `metadata.managedFields`.
//!
//! A plain write takes ownership of the fields it changes. An apply owns the fields it contains,
//! conflicts with other owners of different values, and removes fields that it contained before and
//! no longer does.

mod apply;
mod compare;
mod managed;
mod set;

pub(crate) use apply::{Manager, apply};
pub(crate) use managed::track;
