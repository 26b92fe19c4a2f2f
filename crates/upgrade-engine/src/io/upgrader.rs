//! Changing one node. Another implementation, such as one that replaces virtual
//! machines, supplies this trait and leaves reading and etcd as they are.

use std::future::Future;

use upgrade_core::image::ImageRef;
use upgrade_core::plan::RebootMode;

use super::machines::Config;
use super::{Machine, ProgressSink, Trouble};

/// The containerd namespace that an image is pulled into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// Talos's own: installers and kubelets.
    System,
    /// Kubernetes's: static pods and everything else.
    Kubernetes,
}

/// Single acts on one node. An act that disrupts is sent at most once, and an error says
/// whether it may have happened (rule 8).
pub trait NodeUpgrader: Send + Sync {
    /// Pulls an image, unless it is there; comes back with the name under which
    /// the machine has it, pinned by its digest where the machine tells that.
    fn pull(
        &self,
        on: &Machine,
        image: &ImageRef,
        store: Store,
        progress: &dyn ProgressSink,
    ) -> impl Future<Output = Result<String, Trouble>> + Send;

    /// Talos from 1.13: writes the inactive slot, and makes it the next to boot.
    /// `pulled` is the name that pulling the image came back with. Never called on
    /// a machine that may be armed: it would delete what runs (rule 5).
    fn install(
        &self,
        on: &Machine,
        image: &ImageRef,
        pulled: &str,
        progress: &dyn ProgressSink,
    ) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// Talos up to 1.12: installs and reboots; comes back when the node has
    /// accepted it. With `force` it skips its own checks of etcd.
    fn upgrade(
        &self,
        on: &Machine,
        image: &ImageRef,
        force: bool,
        mode: RebootMode,
    ) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// Reboots; comes back when the node has accepted it.
    fn reboot(
        &self,
        on: &Machine,
        mode: RebootMode,
    ) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// Boots the other slot again; comes back when the node has accepted it.
    fn rollback(&self, on: &Machine) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// Gives the machine another configuration, without a reboot.
    fn apply(
        &self,
        to: &Machine,
        config: &Config,
    ) -> impl Future<Output = Result<(), Trouble>> + Send;
}
