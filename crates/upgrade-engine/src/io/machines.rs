//! Reading the machines of a cluster.

use std::collections::BTreeMap;
use std::future::Future;

use serde_json::Value;
use upgrade_core::guard;
use upgrade_core::image::ImageRef;
use upgrade_core::jiff::SignedDuration;
use upgrade_core::mutant::Mutant;
use upgrade_core::slots::Slots;
use upgrade_core::snapshot::{Component, EtcdFacts, Fact, NodeName, TalosFacts};

use super::{Changes, IoError, Machine};

const PEER_LIMIT: SignedDuration = SignedDuration::from_secs(3);

const MEMBER_LIMIT: SignedDuration = SignedDuration::from_secs(5);

/// How long a connection without any answer lasts.
const RETRANSMISSION: SignedDuration = SignedDuration::from_mins(15);

/// How long one machine may take to list the others, or to identify itself: one that hangs must not
/// delay the answers of the others (rule 10).
pub fn peer_limit() -> SignedDuration {
    if !guard!(Mutant::SilentPeer) {
        return RETRANSMISSION;
    }
    PEER_LIMIT
}

/// How long one member of etcd may take, for the same reason; all of etcd has to be read within the
/// limit of an observation.
pub fn member_limit() -> SignedDuration {
    if !guard!(Mutant::SilentMember) {
        return RETRANSMISSION;
    }
    MEMBER_LIMIT
}

/// The configuration of a machine. Its text contains keys: it has no `Debug`, and never reaches a
/// log, an event or a journal (rule 14).
#[derive(Clone, PartialEq, Eq)]
pub struct Config(pub String);

/// The bootstrap manifests of a control plane. Some are Secrets: it has no
/// `Debug` (rule 14).
#[derive(Clone, PartialEq)]
pub struct Rendered {
    /// Their objects, in the order of the manifests' names, as Talos applies them.
    pub objects: Vec<Value>,
    /// Manifests that the configuration wants and that do not exist: files that could not be
    /// downloaded, or that are not rendered yet.
    pub missing: Vec<String>,
}

/// The manifests that the configuration of a control plane wants, as the node itself has read it.
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
    /// Additional ones, by their names: `{priority}-{name}`.
    pub extra: Vec<String>,
}

impl Wanted {
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
    /// Compares what exists with what is wanted; `None` while the node has not read its
    /// configuration yet.
    pub fn new(wanted: Option<&Wanted>, mut manifests: Vec<(String, Vec<Value>)>) -> Self {
        manifests.sort_by(|a, b| a.0.cmp(&b.0));
        let missing = match wanted {
            Some(_) if !guard!(Mutant::PruneMissing) => Vec::new(),
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

/// The name of a manifest without credentials that its URL may contain (rule 14).
fn shown(name: &str) -> String {
    let Some((before, address)) = name.split_once("://") else {
        return name.to_owned();
    };
    let address = address.split(['?', '#']).next().unwrap_or_default();
    let (host, path) = address.split_once('/').unwrap_or((address, ""));
    let host = host.rsplit('@').next().unwrap_or_default();
    format!("{before}://{host}/{path}")
}

/// Reads the machines of a cluster. Changes nothing.
pub trait Machines: Send + Sync {
    /// The name of the cluster and its machines, as they know each other. A machine that does not
    /// answer within [`peer_limit`] adds nothing; what was known before stays.
    fn list(&self) -> impl Future<Output = Result<(String, Vec<Machine>), IoError>> + Send;

    /// The machines of Kubernetes' nodes, given the addresses of these: those that
    /// [`list`](Self::list) does not show are asked to identify themselves. An error says why no
    /// machine was found; an error under a name that is no node's is a machine that never
    /// identified itself. Nodes that are missing from the result are not known here.
    fn identify(
        &self,
        nodes: &BTreeMap<NodeName, Vec<String>>,
    ) -> impl Future<Output = Vec<(NodeName, Result<Machine, IoError>)>> + Send {
        let _ = nodes;
        std::future::ready(Vec::new())
    }

    /// Everything that Talos reports about one machine.
    fn facts(&self, of: &Machine) -> impl Future<Output = Result<TalosFacts, IoError>> + Send;

    /// The images in the machine configuration: Kubernetes components on control planes, the
    /// kubelet everywhere.
    fn images(
        &self,
        of: &Machine,
    ) -> impl Future<Output = Result<BTreeMap<Component, ImageRef>, IoError>> + Send;

    /// The state of etcd; every member is asked itself.
    fn etcd(&self, members: &[Machine]) -> impl Future<Output = Fact<EtcdFacts>> + Send;

    /// Grows when stage, readiness, boot, services or static pods of the machine may have changed.
    /// It survives reboots of the machine.
    fn changes(&self, of: &Machine) -> Changes;

    /// What the machine boots next, as far as its boot loader says.
    fn slots(&self, of: &Machine) -> impl Future<Output = Result<Slots, IoError>> + Send;

    /// The active configuration of the machine.
    fn config(&self, of: &Machine) -> impl Future<Output = Result<Config, IoError>> + Send;

    /// Whether the configuration on disk, which the next boot uses, differs from the active one:
    /// one is staged, or on trial.
    fn config_is_staged(&self, of: &Machine) -> impl Future<Output = Result<bool, IoError>> + Send;

    /// The bootstrap manifests that the machine renders from its configuration, and which are
    /// missing.
    fn manifests(&self, of: &Machine) -> impl Future<Output = Result<Rendered, IoError>> + Send;
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
}
