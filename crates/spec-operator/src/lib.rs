//! The spec front end: users write versions into the specs of `TalosControlPlane`,
//! `TalosWorker` and `TalosMachine` objects, and the operator brings their clusters there.
//!
//! What is here decides; it opens no connection and reads no clock.
//!
//! - [`unit`](mod@unit) makes one cluster out of many objects: its machines, what each of them is
//!   to run, and what is wrong with the objects.
//! - [`nodes`] finds the node of each machine; [`intent`](mod@intent) and [`policy`](mod@policy)
//!   say what is wanted of the cluster, and how; [`path`](mod@path) cuts the way into runs.
//! - [`access`] makes a talosconfig in memory of what the hub stores.
//! - [`asks`] tells whether the user's word changed, and [`adoption`](mod@adoption) which versions
//!   of objects of another operator are no word of the user.
//! - [`decide`](mod@decide) says what happens next and what every object shows. [`advice`] words
//!   what helps, and [`keys`] names the annotations.

pub mod access;
pub mod adoption;
pub mod advice;
pub mod asks;
pub mod decide;
pub mod intent;
pub mod keys;
pub mod nodes;
pub mod path;
pub mod policy;
pub mod unit;

#[cfg(test)]
mod test_objects;
