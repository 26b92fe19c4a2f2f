//! The objects of the annotation front end that a platform owns: [`KubernetesCluster`] and
//! [`Machine`]. Runs are our own kind, in `upgrade-api`.
//!
//! The definitions in `crds/` are written by hand and are the contract; the types read what
//! the operator needs of them and are tested against them. A type ignores fields that it
//! does not know and has a default for every field that is absent: one odd object must not
//! end the watch of all others. Objects of the platform are never written back from these
//! types; the operator patches single fields.

pub mod annotation;
pub mod cluster;
mod definitions;
pub mod label;
pub mod machine;
pub mod secret;
pub mod status;

pub use cluster::KubernetesCluster;
pub use definitions::DEFINITIONS;
pub use machine::Machine;
