//! Who owns which field: what `metadata.managedFields` is for.
//!
//! Plain writes take the fields that they change; applying owns what it says,
//! conflicts with others that own it and mean something else, and removes what
//! it said before and does not say any more.

mod apply;
mod compare;
mod managed;
mod set;

pub(crate) use apply::{Manager, apply};
pub(crate) use managed::track;
