//! The kinds of this project, whichever front end uses them: [`UpgradeRun`]. Also the
//! annotations that several front ends read.
//!
//! The definition in `crds/` is written by hand and is the contract; the type reads what
//! is needed of it and is tested against it. It ignores fields that it does not know and
//! has a default for every field that is absent, so that one odd object does not end a
//! watch.

pub mod annotation;
mod definition;
pub mod label;
mod resource;
pub mod run;

pub use definition::{Definition, UPGRADE_RUNS};
pub use run::UpgradeRun;

#[doc(hidden)]
pub mod reexport {
    //! What the macro `resource` expands to.
    pub use k8s_openapi;
    pub use kube;
}
