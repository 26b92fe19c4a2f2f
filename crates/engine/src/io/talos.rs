//! What the engine asks of the machines.

use std::collections::BTreeMap;
use std::future::Future;

use serde_json::Value;
use upgrade_core::image::ImageRef;
use upgrade_core::journal::Proof;
use upgrade_core::snapshot::{Component, EtcdFacts, Fact, TalosFacts};

use super::{Changes, Machine, Tell, Trouble};

/// A machine's configuration. Its text holds keys: it has no `Debug`, and never
/// reaches a log, an event or a journal (rule 14).
#[derive(Clone, PartialEq, Eq)]
pub struct Config(pub String);

/// The containerd namespace that an image is pulled into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// Talos's own: installers and kubelets.
    System,
    /// Kubernetes's: static pods and everything else.
    Kubernetes,
}

/// The machines of a cluster, over their Talos API.
pub trait Talos: Send + Sync {
    /// The cluster's name and its machines, as they know each other.
    fn machines(&self) -> impl Future<Output = Result<(String, Vec<Machine>), Trouble>> + Send;

    /// Everything that Talos tells of one machine.
    fn facts(&self, of: &Machine) -> impl Future<Output = Result<TalosFacts, Trouble>> + Send;

    /// The images of the machine configuration: Kubernetes components of control
    /// planes, the kubelet everywhere.
    fn images(
        &self,
        of: &Machine,
    ) -> impl Future<Output = Result<BTreeMap<Component, ImageRef>, Trouble>> + Send;

    /// etcd, with every member asked itself.
    fn etcd(&self, members: &[Machine]) -> impl Future<Output = Fact<EtcdFacts>> + Send;

    /// Grows when the machine's stage, readiness, boot, services or static pods
    /// may have changed. It survives reboots of the machine.
    fn changes(&self, of: &Machine) -> Changes;

    /// Pulls an image.
    fn pull(
        &self,
        on: &Machine,
        image: &ImageRef,
        store: Store,
        tell: &dyn Tell,
    ) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// Talos from 1.13: writes the inactive slot, and makes it the next to boot.
    fn install(
        &self,
        on: &Machine,
        image: &ImageRef,
        tell: &dyn Tell,
    ) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// Talos up to 1.12: installs and reboots; comes back when the node has
    /// accepted it.
    fn upgrade(
        &self,
        on: &Machine,
        image: &ImageRef,
    ) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// Reboots; comes back when the node has accepted it.
    fn reboot(&self, on: &Machine) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// Boots the other slot again; comes back when the node has accepted it.
    fn rollback(&self, on: &Machine) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// Gives etcd leadership away.
    fn forfeit(&self, on: &Machine) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// Streams an etcd snapshot into the folder of the run, verifies it, gives
    /// it its name, and lets go of all but the newest `keep` (rule 3).
    fn snapshot(
        &self,
        from: &Machine,
        keep: usize,
        tell: &dyn Tell,
    ) -> impl Future<Output = Result<Proof, Trouble>> + Send;

    /// The machine's configuration.
    fn config(&self, of: &Machine) -> impl Future<Output = Result<Config, Trouble>> + Send;

    /// Gives the machine another configuration, without a reboot.
    fn apply(
        &self,
        to: &Machine,
        config: &Config,
    ) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// The bootstrap manifests that the machine renders from its configuration.
    fn manifests(&self, of: &Machine) -> impl Future<Output = Result<Vec<Value>, Trouble>> + Send;
}
