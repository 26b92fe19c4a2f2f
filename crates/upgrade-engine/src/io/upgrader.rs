//! Changing one node. An implementation that replaces virtual machines, for example, supplies this
//! trait and shares reading and etcd with the others.

use std::future::Future;

use upgrade_core::image::ImageRef;
use upgrade_core::plan::RebootMode;

use super::machines::Config;
use super::{IoError, Machine, ProgressSink};

/// The containerd namespace that an image is pulled into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// Talos's own: installers and kubelets.
    System,
    /// Kubernetes's: static pods and everything else.
    Kubernetes,
}

/// Single acts on one node. A disruptive act is sent at most once, and an error says whether it may
/// have been carried out (rule 8).
pub trait NodeUpgrader: Send + Sync {
    /// Pulls an image, unless it is there; returns the name under which the machine has it, pinned
    /// by its digest if the machine reports that.
    fn pull(
        &self,
        on: &Machine,
        image: &ImageRef,
        store: Store,
        progress: &dyn ProgressSink,
    ) -> impl Future<Output = Result<String, IoError>> + Send;

    /// Talos from 1.13: writes the inactive slot, and makes it the default. `pulled` is the name
    /// that pulling the image returned. Never called on a machine that may be armed: it would
    /// delete the version that runs (rule 5).
    fn install(
        &self,
        on: &Machine,
        image: &ImageRef,
        pulled: &str,
        progress: &dyn ProgressSink,
    ) -> impl Future<Output = Result<(), IoError>> + Send;

    /// Talos up to 1.12: installs and reboots; returns when the node has accepted it. With `force`
    /// the node skips its own checks of etcd.
    fn upgrade(
        &self,
        on: &Machine,
        image: &ImageRef,
        force: bool,
        mode: RebootMode,
    ) -> impl Future<Output = Result<(), IoError>> + Send;

    /// Reboots; returns when the node has accepted it.
    fn reboot(
        &self,
        on: &Machine,
        mode: RebootMode,
    ) -> impl Future<Output = Result<(), IoError>> + Send;

    /// Boots the other slot again; returns when the node has accepted it.
    fn rollback(&self, on: &Machine) -> impl Future<Output = Result<(), IoError>> + Send;

    /// Applies another configuration, without a reboot.
    fn apply(
        &self,
        to: &Machine,
        config: &Config,
    ) -> impl Future<Output = Result<(), IoError>> + Send;
}
