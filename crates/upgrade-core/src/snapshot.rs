//! What was observed of a cluster, at one moment.
//!
//! A snapshot may be partial: every fact is [`Fact::Known`], or [`Fact::Unknown`]
//! with the error that hid it. Nothing downstream guesses; unknown is unsafe
//! (rule 10). Only a cluster made up for a question, not observed, has facts
//! that are [`Fact::Unasked`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::guard;
use crate::image::ImageRef;
use crate::mutant::Mutant;
use crate::readiness::UnmetCondition;
use crate::text::serde_as_text;
use crate::version::{Minor, Version};

/// Something that was observed, or the reason why it was not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fact<T> {
    /// Observed.
    Known(T),
    /// Not observed; the text says why.
    Unknown(String),
    /// Not part of the question: the snapshot leaves it out on
    /// purpose. A plan leaves the same thing out; nothing runs on it.
    Unasked,
}

impl<T> Fact<T> {
    /// The observation, if there is one.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) | Self::Unasked => None,
        }
    }

    /// The observation, or why it is missing.
    pub fn as_result(&self) -> Result<&T, &str> {
        match self {
            Self::Known(value) => Ok(value),
            Self::Unknown(why) => Err(why),
            Self::Unasked => Err("it was left out of the question"),
        }
    }

    /// Why it is missing, if it was asked for.
    pub fn why_unknown(&self) -> Option<&str> {
        match self {
            Self::Unknown(why) => Some(why),
            Self::Known(_) | Self::Unasked => None,
        }
    }
}

/// A node's name: its Kubernetes node name, which is also its Talos hostname.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeName(pub String);

impl Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<&str> for NodeName {
    fn from(name: &str) -> Self {
        Self(name.to_owned())
    }
}

/// What a node is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Runs etcd and the Kubernetes control plane.
    ControlPlane,
    /// Runs workloads only.
    Worker,
}

impl Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ControlPlane => "control plane",
            Self::Worker => "worker",
        })
    }
}

/// The stage a Talos machine reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names are Talos's own and say all there is")]
pub enum Stage {
    Unknown,
    Booting,
    Installing,
    Maintenance,
    Running,
    Rebooting,
    ShuttingDown,
    Resetting,
    Upgrading,
}

/// A system extension found on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Extension {
    /// Its name, such as `iscsi-tools`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// A static pod that a control plane renders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaticPod {
    /// Namespace and name, without the node's name: `kube-system/kube-apiserver`.
    pub name: String,
    /// Whether the machine has a status of it that says that it is ready. Right after a
    /// boot there is no status of any.
    pub ready: bool,
}

/// What a node's Talos API told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct TalosFacts {
    /// The running version.
    pub version: Version,
    /// Changes with every boot.
    pub boot_id: String,
    /// The machine stage.
    pub stage: Stage,
    /// Whether the machine calls itself ready. It does so right after a boot, before any
    /// of its static pods exists.
    pub ready: bool,
    /// The static pods that it renders, if it is a control plane.
    #[serde(default)]
    pub static_pods: Vec<StaticPod>,
    /// The Image Factory schematic the node was built from, if it was.
    pub schematic: Option<String>,
    /// System extensions, the virtual `schematic` one left out.
    pub extensions: Vec<Extension>,
    /// The install image of the machine config.
    pub installer: Option<ImageRef>,
    /// The Talos platform, such as `metal` or `nocloud`.
    pub platform: String,
    /// Whether the node boots with Secure Boot.
    pub secure_boot: bool,
    /// The conditions that keep the machine from calling itself ready.
    #[serde(default)]
    pub unmet: Vec<UnmetCondition>,
    /// Whether it was booted from a unified kernel image, which has the platform in it.
    #[serde(default)]
    pub uki: bool,
    /// Whether Talos runs in a container, where nothing can be installed.
    #[serde(default)]
    pub container: bool,
    /// The URL of the Image Factory that built what runs, where the node tells it.
    #[serde(default)]
    pub factory: Option<String>,
}

/// The parts of a control plane that run as static pods; the API server first.
const CONTROL_PLANE: [Component; 3] =
    [Component::KubeApiserver, Component::KubeControllerManager, Component::KubeScheduler];

fn own_pod(component: Component) -> String {
    format!("kube-system/{}", component.name())
}

impl TalosFacts {
    /// The static pods of a control plane, as they are where nothing else was said.
    pub fn control_plane_pods(ready: bool) -> Vec<StaticPod> {
        let pod = |name: String| StaticPod { name, ready };
        CONTROL_PLANE.map(own_pod).map(pod).to_vec()
    }

    /// Why the control plane on this machine does not run: its static pods that are not
    /// ready. A machine that renders no API server is not done with its boot.
    pub fn control_plane_down(&self) -> Option<String> {
        let parts = CONTROL_PLANE.map(own_pod);
        if !self.static_pods.iter().any(|pod| pod.name == parts[0]) {
            return Some("it has no static pod of kube-apiserver yet".to_owned());
        }
        let down = |pod: &&StaticPod| !pod.ready && parts.contains(&pod.name);
        let down: Vec<&str> =
            self.static_pods.iter().filter(down).map(|pod| pod.name.as_str()).collect();
        (!down.is_empty()).then(|| format!("static pods are not ready: {}", down.join(", ")))
    }
}

/// The annotation that we set on a node together with a cordon, and remove with it. A process
/// that was killed between its act and the journal's entry learns from it whose cordon it finds.
pub const CORDON_MARK: &str = "upgrade.vitistack.io/cordoned";

/// What the Kubernetes API told of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubernetesFacts {
    /// The kubelet's version.
    pub kubelet: Version,
    /// The Ready condition.
    pub ready: bool,
    /// Whether the node is cordoned.
    pub unschedulable: bool,
    /// Whether the node carries our mark ([`CORDON_MARK`]): the cordon is ours (rule 7).
    #[serde(default)]
    pub marked: bool,
    /// Its internal addresses, as the kubelet reports them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
}

impl KubernetesFacts {
    /// Whether the node has a cordon that is not ours (rule 7).
    pub fn is_cordoned_by_others(&self) -> bool {
        self.unschedulable && !self.marked
    }

    /// Whether the node has a cordon that we set.
    pub fn has_our_cordon(&self) -> bool {
        self.unschedulable && self.marked
    }
}

/// A part of Kubernetes that runs from its own image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names are Kubernetes's own")]
pub enum Component {
    KubeApiserver,
    KubeControllerManager,
    KubeScheduler,
    KubeProxy,
    Kubelet,
}

impl Component {
    /// The name Kubernetes and Talos use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::KubeProxy => "kube-proxy",
            Self::Kubelet => "kubelet",
        }
    }
}

impl Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One machine of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its address for the Talos API.
    pub address: String,
    /// What it is for.
    pub role: Role,
    /// The worker pool it belongs to, if it belongs to one.
    pub pool: Option<String>,
    /// What Talos told.
    pub talos: Fact<TalosFacts>,
    /// What Kubernetes told.
    pub kubernetes: Fact<KubernetesFacts>,
    /// The images that run Kubernetes here: static pods and kube-proxy on
    /// control planes, the kubelet everywhere.
    pub images: Fact<BTreeMap<Component, ImageRef>>,
    /// Known if the node's own API server said that it is ready; unknown with the reason
    /// if it did not; not asked of a worker.
    #[serde(default = "unasked")]
    pub api_server: Fact<()>,
}

fn unasked<T>() -> Fact<T> {
    Fact::Unasked
}

impl Node {
    /// Whether the node is known to serve: Talos running, Kubernetes Ready, and on a
    /// control plane its static pods ready and its own API server answering (rule 1).
    pub fn is_up(&self) -> bool {
        let running = match &self.talos {
            Fact::Known(talos) => talos.stage == Stage::Running,
            Fact::Unknown(_) => !guard!(Mutant::UnknownIsFine),
            Fact::Unasked => true,
        };
        let ready = match &self.kubernetes {
            Fact::Known(kubernetes) => kubernetes.ready,
            Fact::Unknown(_) => !guard!(Mutant::UnknownIsFine),
            Fact::Unasked => true,
        };
        running && ready && self.control_plane_down().is_none()
    }

    /// Whether Kubernetes calls the node Ready while its machine cannot be seen.
    pub fn is_ready_unseen(&self) -> bool {
        let unseen = matches!(self.talos, Fact::Unknown(_));
        unseen && self.kubernetes.known().is_some_and(|facts| facts.ready)
    }

    /// Why the node is not up, in words.
    pub fn why_down(&self) -> Option<String> {
        if self.is_up() {
            return None;
        }
        let stage = self.talos.known().map(|talos| talos.stage);
        let unready = self.kubernetes.known().is_some_and(|facts| !facts.ready);
        Some(match (self.talos.why_unknown().or(self.kubernetes.why_unknown()), stage) {
            (Some(why), _) => why.to_owned(),
            (None, Some(stage)) if stage != Stage::Running => format!("it is in stage {stage:?}"),
            _ if unready => "Kubernetes does not call it Ready".to_owned(),
            _ => self.control_plane_down().unwrap_or_default(),
        })
    }

    /// Why the node's part of the control plane does not serve; nothing for a worker, and
    /// for what cannot be seen of the machine at all.
    pub fn control_plane_down(&self) -> Option<String> {
        if !guard!(Mutant::StaticPodsUnchecked, self.role == Role::ControlPlane) {
            return None;
        }
        let pods = self.talos.known().and_then(TalosFacts::control_plane_down);
        let unseen = |why: &str| format!("its API server does not answer: {why}");
        let silent = self.api_server.why_unknown().map(unseen);
        pods.or(silent.filter(|_| guard!(Mutant::UnknownIsFine)))
    }
}

/// An etcd member's ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u64);

impl Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for MemberId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u64::from_str_radix(text, 16).map(Self)
    }
}

// Hexadecimal text, as etcd's own tools print it: JSON readers that hold
// numbers as doubles would round a 64-bit ID.
serde_as_text!(MemberId);

/// What one etcd member says of itself and of the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// The leader it follows; `None` while it knows none.
    pub leader: Option<MemberId>,
    /// The raft term it is in.
    pub term: u64,
    /// The last raft index it applied.
    pub applied_index: u64,
    /// The members it knows.
    pub sees: BTreeSet<MemberId>,
    /// Errors it reports.
    pub errors: Vec<String>,
    /// The minor of etcd that it runs; `None` if it does not tell.
    #[serde(default)]
    pub version: Option<Minor>,
    /// The minor that its data is of: the cluster's, as soon as all members run it.
    #[serde(default)]
    pub storage: Option<Minor>,
}

/// One etcd member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EtcdMember {
    /// Its ID.
    pub id: MemberId,
    /// The node it runs on.
    pub node: NodeName,
    /// Learners do not vote.
    pub learner: bool,
    /// What it answered when asked itself.
    pub status: Fact<MemberStatus>,
}

/// The state of etcd, as its members tell it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EtcdFacts {
    /// All members.
    pub members: Vec<EtcdMember>,
    /// Raised alarms, such as `NOSPACE`.
    pub alarms: Vec<String>,
}

impl EtcdFacts {
    /// The node that leads, if all who answered agree on it.
    pub fn leader(&self) -> Option<&NodeName> {
        let mut leaders = self.members.iter().filter_map(|member| member.status.known()?.leader);
        let leader = leaders.next()?;
        if leaders.any(|other| other != leader) {
            return None;
        }
        self.members.iter().find(|member| member.id == leader).map(|member| &member.node)
    }
}

/// Everything known of one cluster at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The cluster's name.
    pub cluster: String,
    /// When the observation began: every fact is at least as new as this.
    pub taken_at: Timestamp,
    /// The machines, by name.
    pub nodes: BTreeMap<NodeName, Node>,
    /// etcd.
    pub etcd: Fact<EtcdFacts>,
    /// The Kubernetes version of the control plane (its lowest component).
    pub kubernetes: Fact<Version>,
    /// Nodes of Kubernetes that no known machine stands for, and why: discovery does
    /// not show them, and no machine answers at their addresses. Also, by
    /// address, machines that the talosconfig names and that never said who they are.
    /// They are unknown, not absent (rule 10).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unmatched: BTreeMap<NodeName, Unmatched>,
}

/// A node of Kubernetes without a known machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmatched {
    /// Why no machine was found for it.
    pub why: String,
    /// What Kubernetes told; nothing for a machine that is no node.
    pub kubernetes: Option<KubernetesFacts>,
}

impl Unmatched {
    /// One of which Kubernetes told nothing either.
    pub fn because(why: &str) -> Self {
        Self { why: why.to_owned(), kubernetes: None }
    }
}

impl Snapshot {
    /// The nodes of one role.
    pub fn nodes_with(&self, role: Role) -> impl Iterator<Item = (&NodeName, &Node)> {
        self.nodes.iter().filter(move |(_, node)| node.role == role)
    }

    /// Nodes without a known machine, and why (rule 10). Those that the user lists as
    /// foreign are left out.
    pub fn unknown_nodes<'a>(
        &'a self,
        foreign: &'a BTreeSet<NodeName>,
    ) -> impl Iterator<Item = (&'a NodeName, &'a str)> {
        let unmatched = self.unmatched.iter().filter(|_| guard!(Mutant::InvisibleNodes));
        unmatched
            .filter(|(name, _)| !foreign.contains(name))
            .map(|(name, unmatched)| (name, unmatched.why.as_str()))
    }

    /// What Kubernetes told of a node, whether or not its machine is known.
    pub fn kubernetes_of(&self, node: &NodeName) -> Option<&KubernetesFacts> {
        match self.nodes.get(node) {
            Some(node) => node.kubernetes.known(),
            None => self.unmatched.get(node)?.kubernetes.as_ref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: u64, node: &str, leader: Option<u64>) -> EtcdMember {
        EtcdMember {
            id: MemberId(id),
            node: node.into(),
            learner: false,
            status: Fact::Known(MemberStatus {
                leader: leader.map(MemberId),
                term: 1,
                applied_index: 10,
                sees: BTreeSet::from([MemberId(1), MemberId(2)]),
                errors: vec![],
                version: None,
                storage: None,
            }),
        }
    }

    #[test]
    fn a_leader_is_known_only_if_members_agree() {
        let facts = |first, second| EtcdFacts {
            members: vec![member(1, "cp-1", first), member(2, "cp-2", second)],
            alarms: vec![],
        };
        assert_eq!(facts(Some(2), Some(2)).leader(), Some(&"cp-2".into()));
        assert_eq!(facts(Some(2), None).leader(), Some(&"cp-2".into()));
        assert_eq!(facts(Some(2), Some(1)).leader(), None);
        assert_eq!(facts(None, None).leader(), None);
        assert_eq!(facts(Some(9), Some(9)).leader(), None);
    }

    #[test]
    fn a_control_plane_is_up_when_its_api_server_answers() {
        // Rule 1: right after a boot Talos and Kubernetes call it ready before it is.
        let node = |role, static_pods: Vec<StaticPod>, api_server: Fact<()>| Node {
            address: "10.0.0.1".to_owned(),
            role,
            pool: None,
            talos: Fact::Known(TalosFacts {
                version: Version::new(1, 13, 9),
                boot_id: "1".to_owned(),
                stage: Stage::Running,
                ready: true,
                static_pods,
                schematic: None,
                extensions: vec![],
                installer: None,
                platform: "metal".to_owned(),
                secure_boot: false,
                unmet: vec![],
                uki: true,
                container: false,
                factory: None,
            }),
            kubernetes: Fact::Known(KubernetesFacts {
                kubelet: Version::new(1, 34, 2),
                ready: true,
                unschedulable: false,
                marked: false,
                addresses: vec![],
            }),
            images: Fact::Unasked,
            api_server,
        };
        let well = TalosFacts::control_plane_pods(true);
        let refused = || Fact::Unknown("connection refused".to_owned());
        let control_plane = |pods: &[StaticPod], api| node(Role::ControlPlane, pods.to_vec(), api);
        assert!(control_plane(&well, Fact::Known(())).is_up());
        for (pods, api_server, why) in [
            (vec![], Fact::Known(()), "no static pod of kube-apiserver"),
            (TalosFacts::control_plane_pods(false), Fact::Known(()), "kube-system/kube-scheduler"),
            (well.clone(), refused(), "connection refused"),
        ] {
            let node = control_plane(&pods, api_server);
            assert!(!node.is_up());
            assert!(node.why_down().unwrap().contains(why), "{:?}", node.why_down());
        }
        // A static pod of the user is not the control plane.
        let own = StaticPod { name: "default/proxy".to_owned(), ready: false };
        let pods: Vec<StaticPod> = well.iter().cloned().chain([own]).collect();
        assert!(control_plane(&pods, Fact::Known(())).is_up());
        assert!(node(Role::Worker, vec![], Fact::Unasked).is_up());
    }

    #[test]
    fn member_ids_survive_json() {
        let id = MemberId(u64::MAX - 1);
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(json, "\"fffffffffffffffe\"");
        assert_eq!(serde_json::from_str::<MemberId>(&json).unwrap(), id);
    }
}
