//! The objects of the annotation door: [`KubernetesCluster`] and [`Machine`],
//! which a platform owns, and [`UpgradeRun`], which is ours.
//!
//! The definitions in `crds/` are written by hand and are the contract; the
//! types here read what the operator needs of them and are tested against
//! them. A type ignores what it does not know and misses nothing that is
//! absent: one odd object must not end the watch of all others. Nothing that
//! a platform owns is ever written back from these types; the operator sends
//! patches of single fields.

pub mod annotation;
pub mod cluster;
mod definitions;
pub mod label;
pub mod machine;
mod resource;
pub mod run;
pub mod secret;
pub mod status;

pub use cluster::KubernetesCluster;
pub use definitions::{DEFINITIONS, Definition};
pub use machine::Machine;
pub use run::UpgradeRun;
