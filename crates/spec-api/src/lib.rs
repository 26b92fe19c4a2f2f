//! The kinds of the spec front end, in the group `talos.alperen.cloud`: [`TalosCluster`],
//! [`TalosControlPlane`], [`TalosWorker`], [`TalosMachine`], [`TalosEtcdBackup`] and
//! [`TalosEtcdBackupSchedule`]. Runs are our own kind, in `upgrade-api`.
//!
//! The group is that of an existing operator, and objects that were written for it are valid
//! here. The definitions in `crds/` are written by hand and are the contract. They differ where
//! a default would start an upgrade without the user, and add optional fields.
//!
//! The types read what the controllers need of them and are tested against them. A type
//! ignores fields that it does not know and has a default for every field that is absent: one
//! odd object must not end the watch of all others. What may hold secrets is not read at all
//! ([`ControlPlaneSecrets`](secret::ControlPlaneSecrets) and
//! [`ClusterTemplates`](cluster::ClusterTemplates) are for the single reads that need it).
//! Objects are never written back from these types, since that would remove the fields that
//! they leave out; the operator patches single fields.

/// The group of the kinds.
pub const GROUP: &str = "talos.alperen.cloud";
/// Their version.
pub const VERSION: &str = "v1alpha1";

pub mod addon;
pub mod backup;
pub mod cluster;
pub mod condition;
pub mod control_plane;
mod definitions;
pub mod finalizer;
mod hidden;
mod int_or_string;
pub mod job;
pub mod label;
pub mod machine;
pub mod names;
mod reconcile_mode;
pub mod reference;
pub mod schedule;
pub mod secret;
pub mod spec;
pub mod state;
mod view;
mod words;
pub mod worker;

pub use addon::{TalosClusterAddon, TalosClusterAddonRelease};
pub use backup::TalosEtcdBackup;
pub use cluster::TalosCluster;
pub use control_plane::TalosControlPlane;
pub use definitions::{ADDON_DEFINITIONS, DEFINITIONS};
pub use hidden::Hidden;
pub use int_or_string::IntOrString;
pub use machine::TalosMachine;
pub use reconcile_mode::{RECONCILE_MODE, ReconcileMode};
pub use schedule::TalosEtcdBackupSchedule;
pub use worker::TalosWorker;
