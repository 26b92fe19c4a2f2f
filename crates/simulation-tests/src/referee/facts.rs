//! What the referee reads from the world. Only this file knows how.
//!
//! [`Facts`] keeps for each fact since when it holds. The world is read periodically and at every
//! change made to it; so "since" is never too early, and no process is blamed wrongly.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kube_sim::names::{NODES, PODS};
use kube_sim::object;
use serde_json::Value;
use talos_sim::model::{NodeIndex, NodeRole, NodeTruth};
use upgrade_core::image::ImageRef;
use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::snapshot::NodeName;
use upgrade_core::version::Version;

use crate::trace::View;

/// How often the world is read while nothing changes it.
const PAUSE: SignedDuration = SignedDuration::from_secs(5);

/// How many entries a member may lag and still count as converged: members are asked one after the
/// other, and the log grows meanwhile.
const CONVERGED: u64 = 1_100;

/// The label that assigns a worker to a pool.
const POOL: &str = "vitistack.io/nodepool";

/// A value, and since when it has held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Since<T> {
    pub(super) value: T,
    pub(super) since: Timestamp,
}

impl<T: PartialEq> Since<T> {
    fn new(value: T, since: Timestamp) -> Self {
        Self { value, since }
    }

    fn set(&mut self, value: T, at: Timestamp) {
        if self.value != value {
            *self = Self { value, since: at };
        }
    }

    /// Whether it had this value already at the process's last question. A process that never asked
    /// has no excuse.
    pub(super) fn was(&self, value: &T, asked: Option<Timestamp>) -> bool {
        self.value == *value && asked.is_none_or(|asked| self.since < asked)
    }
}

/// The state of a control plane's etcd member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Member {
    /// There is none.
    Absent,
    /// It votes, runs, reaches the others and has caught up.
    Well,
    /// It does not vote.
    Learner,
    /// It lacks many entries.
    Behind,
    /// It does not run, the others do not reach it, or there is no leader.
    Unwell,
}

impl Member {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Absent => "has no member of etcd",
            Self::Well => "is healthy",
            Self::Learner => "is a learner",
            Self::Behind => "is far behind",
            Self::Unwell => "is not healthy",
        }
    }
}

/// A machine as it was last read.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) name: NodeName,
    pub(super) index: NodeIndex,
    pub(super) control_plane: bool,
    pub(super) gone: bool,
    /// It runs, and is neither booting nor shutting down.
    pub(super) runs: Since<bool>,
    /// It runs, can be reached, and its Node is ready.
    pub(super) up: Since<bool>,
    /// The same, and the machine reports itself ready, and its part of the control plane works.
    pub(super) serves: Since<bool>,
    /// Whether its part of the control plane works: static pods, API server and etcd. The machine
    /// and its Node are ready before that. A worker has no such part.
    pub(super) controls: Since<bool>,
    /// Whether the machine shows all its static pods as ready. It forgets them while its kubelet
    /// restarts. A worker has none.
    pub(super) pods: Since<bool>,
    pub(super) member: Since<Member>,
    pub(super) leads: Since<bool>,
    pub(super) boot_id: Since<String>,
}

/// The nodes that Kubernetes has had since before this moment.
pub(super) fn nodes_before(view: &View<'_>, asked: Option<Timestamp>) -> Vec<NodeName> {
    let store = view.kubernetes.api().store();
    let old = |node: &&Arc<Value>| {
        let made = object::text(node, &["metadata", "creationTimestamp"]);
        let made = made.parse::<Timestamp>().ok();
        made.is_none_or(|made| asked.is_some_and(|asked| made < asked))
    };
    let name = |node: &Arc<Value>| NodeName(object::name(node).to_owned());
    store.list(&NODES, None).filter(old).map(name).collect()
}

/// The world as it was last read.
#[derive(Debug)]
pub(super) struct Facts {
    nodes: Vec<Node>,
    by_name: HashMap<NodeName, usize>,
    pub(super) alarm: Since<bool>,
    /// The minor of the cluster's etcd 3 version.
    pub(super) etcd_minor: Since<u64>,
    read_at: Timestamp,
    touched: Option<u64>,
}

impl Facts {
    pub(super) fn new(at: Timestamp, view: &View<'_>) -> Self {
        let mut facts = Self {
            nodes: Vec::new(),
            by_name: HashMap::new(),
            alarm: Since::new(false, at),
            etcd_minor: Since::new(view.world.etcd_truth().cluster_minor, at),
            read_at: at,
            touched: None,
        };
        facts.refresh(at, view, true);
        facts
    }

    /// Reads the world if it has changed; without `haste` only periodically.
    pub(super) fn refresh(&mut self, at: Timestamp, view: &View<'_>, haste: bool) {
        let touched = view.world.touched();
        if self.touched == Some(touched) || !haste && at.duration_since(self.read_at) < PAUSE {
            return;
        }
        self.touched = Some(touched);
        self.read_at = at;
        let etcd = view.world.etcd_truth();
        self.alarm.set(etcd.alarms > 0, at);
        self.etcd_minor.set(etcd.cluster_minor, at);
        for index in 0..view.world.len() {
            let Some(truth) = view.world.truth(NodeIndex(index)) else { continue };
            if index == self.nodes.len() {
                let node = first_observed(&truth, at);
                self.by_name.insert(node.name.clone(), index);
                self.nodes.push(node);
            }
            let node = &mut self.nodes[index];
            node.gone = truth.is_gone();
            let runs = truth.is_running();
            let up = runs && truth.is_reachable() && truth.kubelet().ready;
            node.runs.set(runs, at);
            node.up.set(up, at);
            let controls = !node.control_plane
                || truth.api_server_answers() && truth.static_pods().all(|pod| pod.ready);
            node.controls.set(controls, at);
            let pods = view.world.static_pods_of(truth.index()).all(|(_, ready)| ready);
            node.pods.set(pods, at);
            node.serves.set(up && controls && truth.is_ready(), at);
            node.leads.set(etcd.leader == Some(truth.index()), at);
            node.member.set(member(&truth, etcd.members == 1), at);
            if node.boot_id.value != truth.boot_id() {
                node.boot_id = Since::new(truth.boot_id().to_owned(), at);
            }
        }
    }

    /// Something is about to change: the next reading is not delayed.
    pub(super) fn disturb(&mut self) {
        self.read_at = Timestamp::MIN;
    }

    /// The machines that belong to the cluster.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| !node.gone)
    }

    pub(super) fn control_planes(&self) -> impl Iterator<Item = &Node> {
        self.nodes().filter(|node| node.control_plane)
    }

    pub(super) fn workers(&self) -> impl Iterator<Item = &Node> {
        self.nodes().filter(|node| !node.control_plane)
    }

    /// A machine by name, including one that has left.
    pub(super) fn node(&self, name: &NodeName) -> Option<&Node> {
        self.by_name.get(name).map(|index| &self.nodes[*index])
    }
}

fn first_observed(truth: &NodeTruth<'_>, at: Timestamp) -> Node {
    Node {
        name: truth.hostname().into(),
        index: truth.index(),
        control_plane: truth.role() == NodeRole::ControlPlane,
        gone: truth.is_gone(),
        runs: Since::new(true, at),
        up: Since::new(true, at),
        serves: Since::new(true, at),
        controls: Since::new(true, at),
        pods: Since::new(true, at),
        member: Since::new(Member::Absent, at),
        leads: Since::new(false, at),
        boot_id: Since::new(truth.boot_id().to_owned(), at),
    }
}

fn member(truth: &NodeTruth<'_>, alone: bool) -> Member {
    match truth.member() {
        None => Member::Absent,
        Some(member) if !member.votes => Member::Learner,
        Some(member) if !member.healthy => Member::Unwell,
        // A single member cannot lag.
        Some(member) if member.lag > CONVERGED && !alone => Member::Behind,
        Some(_) => Member::Well,
    }
}

/// An installed system: its version and its schematic.
pub(super) type Installed = (Version, Option<String>);

/// The system that a node has booted.
pub(super) fn installed(view: &View<'_>, node: &Node) -> Option<Installed> {
    let truth = view.world.truth(node.index)?;
    let installed = truth.installed();
    Some((installed.version.clone(), installed.schematic.map(str::to_owned)))
}

/// The system of its next boot, if it is another one.
pub(super) fn armed(view: &View<'_>, node: &Node) -> Option<Installed> {
    let armed = view.world.truth(node.index)?.armed()?;
    Some((armed.version.clone(), armed.schematic.map(str::to_owned)))
}

/// The unmet conditions of a node, such as `network: connectivity`. The reasons of `time` and
/// `nodeReady` are one sentence; the others are lists.
pub(super) fn unmet(view: &View<'_>, node: &NodeName) -> Vec<String> {
    let index = view.world.find(&node.0);
    let Some(truth) = index.and_then(|index| view.world.truth(index)) else { return Vec::new() };
    let items = |(name, reason): (&'static str, String)| -> Vec<String> {
        if matches!(name, "time" | "nodeReady") {
            return vec![name.to_owned()];
        }
        let list = reason.trim_start_matches("waiting on: ");
        list.split(", ").map(|item| format!("{name}: {item}")).collect()
    };
    truth.unmet().into_iter().flat_map(items).collect()
}

/// Whether a node is in stage running. One that boots shows no unmet conditions here.
pub(super) fn is_running(view: &View<'_>, node: &NodeName) -> bool {
    let truth = view.world.find(&node.0).and_then(|index| view.world.truth(index));
    truth.is_some_and(|truth| truth.is_running())
}

/// The schematic in an installer's name: a path element of 64 hexadecimal digits, as in the Image
/// Factory.
pub(super) fn schematic_in(image: &ImageRef) -> Option<&str> {
    let is_id = |part: &&str| part.len() == 64 && part.bytes().all(|it| it.is_ascii_hexdigit());
    image.repository.split('/').find(is_id)
}

/// The versions of a node's Kubernetes components, by name.
pub(super) fn components(view: &View<'_>, node: &Node) -> BTreeMap<&'static str, Version> {
    let Some(truth) = view.world.truth(node.index) else { return BTreeMap::new() };
    let all = truth.static_pods().chain([truth.kubelet()]);
    all.filter_map(|part| {
        let version = part.image.parse::<ImageRef>().ok()?.version()?;
        Some((part.component.name(), version))
    })
    .collect()
}

/// A kubelet that Kubernetes knows.
#[derive(Debug)]
pub(super) struct Kubelet {
    pub(super) node: NodeName,
    /// The version of its machine, or its own report where there is no Talos machine.
    pub(super) version: Version,
    /// When its node was created.
    pub(super) registered: Option<Timestamp>,
}

/// All kubelets that Kubernetes knows, with or without a Talos machine.
pub(super) fn kubelets(view: &View<'_>, facts: &Facts) -> Vec<Kubelet> {
    let store = view.kubernetes.api().store();
    let read = |object: &Arc<Value>| {
        let node = NodeName(object::name(object).to_owned());
        let reported = object::text(object, &["status", "nodeInfo", "kubeletVersion"]);
        let runs = facts.node(&node).filter(|node| !node.gone);
        let runs = runs.and_then(|node| components(view, node).remove("kubelet"));
        let version = runs.or_else(|| reported.parse().ok())?;
        let registered = object::text(object, &["metadata", "creationTimestamp"]).parse().ok();
        Some(Kubelet { node, version, registered })
    };
    store.list(&NODES, None).filter_map(read).collect()
}

/// Whether Talos runs in a container on this node.
pub(super) fn in_container(view: &View<'_>, node: &Node) -> bool {
    view.world.truth(node.index).is_some_and(|truth| truth.in_container())
}

/// Whether the node accepts messages but answers none.
pub(super) fn is_silent(view: &View<'_>, node: &Node) -> bool {
    view.world.is_silent(node.index)
}

/// Whether a node is cordoned.
pub(super) fn is_cordoned(view: &View<'_>, node: &NodeName) -> bool {
    let object = view.kubernetes.api().store().get(&NODES, "", &node.0);
    object.is_some_and(|object| object::flag(object, &["spec", "unschedulable"]))
}

/// The pool in a worker's label.
pub(super) fn pool(view: &View<'_>, node: &NodeName) -> Option<String> {
    let object = view.kubernetes.api().store().get(&NODES, "", &node.0)?;
    object::label(object, POOL).map(str::to_owned)
}

/// A pod on a node, as far as it matters for draining.
#[derive(Debug)]
pub(super) struct Pod {
    pub(super) name: String,
    pub(super) created: Option<Timestamp>,
    /// Whether draining leaves it: the kubelet or a `DaemonSet` owns it, or it has ended.
    pub(super) stays: bool,
    pub(super) bare: bool,
    pub(super) scratch: bool,
}

/// The pods of a node.
pub(super) fn pods(view: &View<'_>, node: &NodeName) -> Vec<Pod> {
    let store = view.kubernetes.api().store();
    store
        .list(&PODS, None)
        .filter(|pod| object::text(pod, &["spec", "nodeName"]) == node.0)
        .map(|pod| read(pod))
        .collect()
}

fn read(pod: &Value) -> Pod {
    let owners = object::list(pod, &["metadata", "ownerReferences"]);
    let controller = owners.iter().find(|owner| object::flag(owner, &["controller"]));
    let daemon = controller.is_some_and(|it| object::text(it, &["kind"]) == "DaemonSet");
    let mirror = object::annotation(pod, "kubernetes.io/config.mirror").is_some();
    let ended = matches!(object::text(pod, &["status", "phase"]), "Succeeded" | "Failed");
    let volumes = object::list(pod, &["spec", "volumes"]);
    Pod {
        name: format!("{}/{}", object::namespace(pod), object::name(pod)),
        created: object::text(pod, &["metadata", "creationTimestamp"]).parse().ok(),
        stays: daemon || mirror || ended,
        bare: controller.is_none(),
        scratch: volumes.iter().any(|volume| volume.get("emptyDir").is_some()),
    }
}

/// Whether the configuration on a node's disk differs from the active one.
pub(super) fn has_staged_config(view: &View<'_>, node: &NodeName) -> bool {
    view.world.find(&node.0).is_some_and(|node| {
        let on_disk = view.world.config_on_disk_of(node);
        on_disk.is_some_and(|on_disk| on_disk != view.world.config_of(node))
    })
}

/// The control plane whose configuration contains an object, downloaded or not.
pub(super) fn wants_object(
    view: &View<'_>,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Option<NodeName> {
    let same = |object: &serde_json::Value| {
        let metadata = &object["metadata"];
        let own = metadata["namespace"].as_str().unwrap_or_default();
        let of_default = own.is_empty() && namespace == "default";
        object["kind"] == kind && metadata["name"] == name && (own == namespace || of_default)
    };
    let mut nodes = view.world.truths();
    let node = nodes.find(|node| view.world.wanted_objects(node.index()).iter().any(same))?;
    Some(NodeName(node.hostname().to_owned()))
}
