//! What the engine asks of the machines.

use std::collections::BTreeMap;
use std::future::Future;

use serde_json::Value;
use upgrade_core::image::ImageRef;
use upgrade_core::jiff::SignedDuration;
use upgrade_core::journal::Proof;
use upgrade_core::mutant::{self, Mutant};
use upgrade_core::plan::RebootMode;
use upgrade_core::snapshot::{Component, EtcdFacts, Fact, NodeName, TalosFacts};
use upgrade_core::version::{Minor, Version};

use super::{Changes, Machine, Tell, Trouble};

const PEER_LIMIT: SignedDuration = SignedDuration::from_secs(3);

const MEMBER_LIMIT: SignedDuration = SignedDuration::from_secs(5);

/// How long a connection lasts on which nothing is answered.
const RETRANSMISSION: SignedDuration = SignedDuration::from_mins(15);

/// How long one machine may take to say which others it knows, or who it is: one that
/// hangs must not hold up what the others say (rule 10).
pub fn peer_limit() -> SignedDuration {
    if mutant::is(Mutant::SilentPeer) { RETRANSMISSION } else { PEER_LIMIT }
}

/// How long one member of etcd may take, for the same reason; the whole of it has to be
/// within the limit of an observation.
pub fn member_limit() -> SignedDuration {
    if mutant::is(Mutant::SilentMember) { RETRANSMISSION } else { MEMBER_LIMIT }
}

/// A machine's configuration. Its text holds keys: it has no `Debug`, and never
/// reaches a log, an event or a journal (rule 14).
#[derive(Clone, PartialEq, Eq)]
pub struct Config(pub String);

/// The bootstrap manifests of a control plane. Some are Secrets: it has no
/// `Debug` (rule 14).
#[derive(Clone, PartialEq)]
pub struct Rendered {
    /// Their objects, in the order of the manifests' names, which is Talos's own.
    pub objects: Vec<Value>,
    /// Manifests that the configuration wants and that are not there: files that
    /// could not be downloaded, or that are not rendered yet.
    pub missing: Vec<String>,
}

/// Which manifests the configuration of a control plane wants, as the node itself
/// has read it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is switched on or off by itself")]
pub struct Wanted {
    /// kube-proxy.
    pub proxy: bool,
    /// CoreDNS.
    pub core_dns: bool,
    /// flannel.
    pub flannel: bool,
    /// Access to the Talos API from pods.
    pub talos_api: bool,
    /// Those beside Talos's own, by their names: `{priority}-{name}`.
    pub extra: Vec<String>,
}

impl Wanted {
    /// The names of all of them.
    fn names(&self) -> Vec<&str> {
        let Self { proxy, core_dns, flannel, talos_api, extra } = self;
        let mut names = vec![
            "00-kubelet-bootstrapping-token",
            "01-csr-node-bootstrap",
            "01-csr-approver-role-binding",
            "01-csr-renewal-role-binding",
            "11-kube-config-in-cluster",
            "11-talos-node-rbac-template",
        ];
        for (on, name) in [
            (proxy, "10-kube-proxy"),
            (core_dns, "11-core-dns"),
            (core_dns, "11-core-dns-svc"),
            (flannel, "05-flannel"),
            (talos_api, "13-talos-service-account-crd"),
        ] {
            if *on {
                names.push(name);
            }
        }
        names.extend(extra.iter().map(String::as_str));
        names
    }
}

impl Rendered {
    /// Holds what is there against what is wanted; `None` while the node has not
    /// read its configuration yet.
    pub fn new(wanted: Option<&Wanted>, mut manifests: Vec<(String, Vec<Value>)>) -> Self {
        manifests.sort_by(|a, b| a.0.cmp(&b.0));
        let missing = match wanted {
            Some(_) if mutant::is(Mutant::PruneMissing) => Vec::new(),
            Some(wanted) => {
                let there = |name: &&str| manifests.iter().any(|(id, _)| id == name);
                wanted.names().into_iter().filter(|name| !there(name)).map(shown).collect()
            }
            None => vec!["all of them".to_owned()],
        };
        let objects = manifests.into_iter().flat_map(|(_, objects)| objects).collect();
        Self { objects, missing }
    }
}

/// A manifest's name without what an address may hold of credentials (rule 14).
fn shown(name: &str) -> String {
    let Some((before, address)) = name.split_once("://") else {
        return name.to_owned();
    };
    let address = address.split(['?', '#']).next().unwrap_or_default();
    let (host, path) = address.split_once('/').unwrap_or((address, ""));
    let host = host.rsplit('@').next().unwrap_or_default();
    format!("{before}://{host}/{path}")
}

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

impl NextBoot {
    /// Whether it is another entry, of this version.
    pub fn is_into(&self, version: &Version) -> bool {
        matches!(self, Self::Other(entry) if version_of(entry).as_ref() == Some(version))
    }
}

/// The version in the name of an entry: `Talos-v1.13.9~1.efi`.
fn version_of(entry: &str) -> Option<Version> {
    let name = entry.strip_prefix("Talos-")?.strip_suffix(".efi")?;
    name.split('~').next()?.parse().ok()
}

/// What etcd says of a downgrade to the minor that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Downgrade {
    /// It can be enabled.
    Possible,
    /// One is enabled already.
    UnderWay,
    /// It is not the minor before the cluster's: the cluster is there already, or
    /// more than one minor away.
    NotNext,
}

impl Downgrade {
    /// What the words of a refusal mean; `None` if they are about something else.
    /// Talos passes etcd's words on and drops the code that came with them.
    pub fn of_refusal(words: &str) -> Option<Self> {
        if words.contains("downgrade job in progress") {
            Some(Self::UnderWay)
        } else if words.contains("invalid downgrade target version") {
            Some(Self::NotNext)
        } else {
            None
        }
    }
}

/// The machines of a cluster, over their Talos API.
pub trait Talos: Send + Sync {
    /// The cluster's name and its machines, as they know each other. One that does not
    /// answer within [`peer_limit`] adds nothing; what was known before stays then.
    fn machines(&self) -> impl Future<Output = Result<(String, Vec<Machine>), Trouble>> + Send;

    /// The machines of Kubernetes' nodes, given their addresses: those that
    /// [`machines`](Self::machines) does not show are asked there who they are. An error
    /// says why no machine was found; one under another name than a node's is a machine
    /// that never said what it is. Nodes that are left out are not known here.
    fn identify(
        &self,
        nodes: &BTreeMap<NodeName, Vec<String>>,
    ) -> impl Future<Output = Vec<(NodeName, Result<Machine, Trouble>)>> + Send {
        let _ = nodes;
        std::future::ready(Vec::new())
    }

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

    /// Gives etcd leadership away.
    fn forfeit(&self, on: &Machine) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// Asks etcd whether it can be downgraded to this minor. Changes nothing.
    fn validate_downgrade(
        &self,
        on: &Machine,
        to: Minor,
    ) -> impl Future<Output = Result<Downgrade, Trouble>> + Send;

    /// Enables etcd's downgrade to this minor: the cluster version and the data of
    /// every member follow within seconds, if all members answer each other.
    fn enable_downgrade(
        &self,
        on: &Machine,
        to: Minor,
    ) -> impl Future<Output = Result<(), Trouble>> + Send;

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

    /// Whether the configuration on disk, which the next boot takes, is another
    /// than the active one: staged, or while one is on trial.
    fn config_is_staged(&self, of: &Machine) -> impl Future<Output = Result<bool, Trouble>> + Send;

    /// The bootstrap manifests that the machine renders from its configuration,
    /// and what is missing of them.
    fn manifests(&self, of: &Machine) -> impl Future<Output = Result<Rendered, Trouble>> + Send;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OWN: [&str; 6] = [
        "00-kubelet-bootstrapping-token",
        "01-csr-approver-role-binding",
        "01-csr-node-bootstrap",
        "01-csr-renewal-role-binding",
        "11-kube-config-in-cluster",
        "11-talos-node-rbac-template",
    ];

    fn missing(wanted: Option<&Wanted>, there: &[&str]) -> Vec<String> {
        let manifests = there.iter().map(|name| ((*name).to_owned(), vec![json!({})])).collect();
        Rendered::new(wanted, manifests).missing
    }

    #[test]
    fn what_is_not_there_is_missing() {
        // Rule 10.
        let url = "99-https://me:hunter2@example.org/cni.yaml?token=hunter2";
        let wanted = Wanted { proxy: true, extra: vec![url.to_owned()], ..Wanted::default() };
        assert_eq!(missing(Some(&Wanted::default()), &OWN), Vec::<String>::new());
        assert_eq!(missing(None, &[]), ["all of them"]);
        let shown = "99-https://example.org/cni.yaml";
        assert_eq!(missing(Some(&wanted), &OWN), ["10-kube-proxy", shown], "rule 14");
        let all: Vec<&str> = OWN.into_iter().chain(["10-kube-proxy", url]).collect();
        assert_eq!(missing(Some(&wanted), &all), Vec::<String>::new());
        assert_eq!(missing(Some(&Wanted::default()), &OWN[1..]), [OWN[0]]);
    }

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
