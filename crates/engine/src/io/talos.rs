//! What the engine asks of the machines.

use std::collections::BTreeMap;
use std::future::Future;

use serde_json::Value;
use upgrade_core::image::ImageRef;
use upgrade_core::journal::Proof;
use upgrade_core::snapshot::{Component, EtcdFacts, Fact, TalosFacts};
use upgrade_core::version::Version;

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

/// What a machine's boot loader tells, and whether it is being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots {
    /// Whether an installer runs now.
    pub installing: bool,
    /// The entries of systemd-boot; other boot loaders tell nothing.
    pub entries: Option<Entries>,
}

/// The entries of systemd-boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entries {
    /// The one that runs.
    pub booted: String,
    /// The one that the next boot takes; none was ever set on a machine that was
    /// made from a disk image and never upgraded.
    pub default: Option<String>,
}

/// What a machine boots next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextBoot {
    /// What runs: it is not armed.
    Same,
    /// Another entry: it is armed, whoever did that.
    Other(String),
    /// Its boot loader does not tell.
    Unknown,
}

impl Slots {
    /// What comes next on a machine that runs this version.
    pub fn next_boot(&self, running: &Version) -> NextBoot {
        let Some(Entries { booted, default }) = &self.entries else { return NextBoot::Unknown };
        let Some(default) = default else { return NextBoot::Same };
        // A machine that came here by kexec may still name the entry of its last
        // start through the firmware.
        let is_running = |entry: &str| version_of(entry).as_ref() == Some(running);
        if booted.eq_ignore_ascii_case(default) || is_running(default) && !is_running(booted) {
            return NextBoot::Same;
        }
        NextBoot::Other(default.clone())
    }
}

/// The version in the name of an entry: `Talos-v1.13.9~1.efi`.
fn version_of(entry: &str) -> Option<Version> {
    let name = entry.strip_prefix("Talos-")?.strip_suffix(".efi")?;
    name.split('~').next()?.parse().ok()
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

    /// What the machine boots next, as far as it tells.
    fn slots(&self, of: &Machine) -> impl Future<Output = Result<Slots, Trouble>> + Send;

    /// Pulls an image, unless it is there; comes back with the name under which
    /// the machine has it, pinned by its digest where the machine tells that.
    fn pull(
        &self,
        on: &Machine,
        image: &ImageRef,
        store: Store,
        tell: &dyn Tell,
    ) -> impl Future<Output = Result<String, Trouble>> + Send;

    /// Talos from 1.13: writes the inactive slot, and makes it the next to boot.
    /// `pulled` is the name that pulling the image came back with. Never called on
    /// a machine that may be armed: it would delete what runs (rule 5).
    fn install(
        &self,
        on: &Machine,
        image: &ImageRef,
        pulled: &str,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn next(booted: &str, default: Option<&str>) -> NextBoot {
        let entries =
            Entries { booted: booted.to_owned(), default: default.map(ToOwned::to_owned) };
        let slots = Slots { installing: false, entries: Some(entries) };
        slots.next_boot(&Version::new(1, 13, 9))
    }

    #[test]
    fn a_default_that_does_not_run_is_armed() {
        // Rule 5.
        let runs = "Talos-v1.13.9.efi";
        assert_eq!(next(runs, Some(runs)), NextBoot::Same);
        assert_eq!(next(runs, Some("talos-V1.13.9.EFI")), NextBoot::Same, "as Talos compares");
        assert_eq!(next(runs, None), NextBoot::Same, "a disk image");
        for other in ["Talos-v1.14.1.efi", "Talos-v1.13.9~1.efi"] {
            assert_eq!(next(runs, Some(other)), NextBoot::Other(other.to_owned()));
        }
        let stale = "Talos-v1.13.4.efi";
        assert_eq!(next(stale, Some(runs)), NextBoot::Same, "kexec left the old name");
        let none = Slots { installing: false, entries: None };
        assert_eq!(none.next_boot(&Version::new(1, 13, 9)), NextBoot::Unknown);
    }
}
