//! A cluster in memory whose Kubernetes is upgraded under a paused clock, and a
//! referee that looks at every change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use serde_json::{Value, json};
use tokio::sync::watch;
use upgrade_core::call::Class;
use upgrade_core::image::ImageRef;
use upgrade_core::readiness::UnmetCondition;
use upgrade_core::snapshot::{Component, NodeName, Role};
use upgrade_core::version::Version;
use upgrade_engine::clock::SystemClock;
use upgrade_engine::io::{Io, IoError, NoExternal, talos_error};
use upgrade_engine::snapshots::MemorySnapshots;

pub(crate) const STATIC: [Component; 3] =
    [Component::KubeApiserver, Component::KubeControllerManager, Component::KubeScheduler];

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// This component's image of this tag does not come on this node.
    NoImage { node: &'static str, component: Component, tag: &'static str },
    /// Configurations are applied, and the answers are lost.
    LosesAnswers,
    /// Kubelets come back by way of a reboot.
    Reboots,
    /// The manifests of this node cannot be read.
    Unread(String),
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Sim {
    pub(crate) role: Role,
    pub(crate) boot: u64,
    pub(crate) config: String,
    /// What it made of its configuration.
    pub(crate) runs: BTreeMap<Component, ImageRef>,
    /// Which static pods are ready.
    pub(crate) ready: BTreeMap<Component, bool>,
    /// Counts static pods, for their UIDs.
    pub(crate) pods: u64,
    pub(crate) kubelet: Version,
    pub(crate) well: bool,
    pub(crate) node_ready: bool,
    /// Whether its API server answers, which is later than its pod is ready.
    pub(crate) api: bool,
    /// Whether another configuration lies on its disk.
    pub(crate) staged: bool,
    /// Extra manifests of its configuration, of one object each; `None` for one
    /// that could not be downloaded.
    pub(crate) extra: BTreeMap<String, Option<Value>>,
    /// What keeps it from being ready though it works.
    pub(crate) unmet: Vec<UnmetCondition>,
}

pub(crate) struct Cluster {
    pub(crate) nodes: BTreeMap<NodeName, Sim>,
    pub(crate) talos: Version,
    pub(crate) objects: BTreeMap<String, Value>,
    pub(crate) owners: BTreeMap<(String, String), BTreeSet<String>>,
    pub(crate) deprecated: Vec<(String, String)>,
    pub(crate) counts: BTreeMap<String, usize>,
    pub(crate) fault: Option<Fault>,
    /// Acts in order: `set cp-1 kube-apiserver`.
    pub(crate) acts: Vec<String>,
}

pub(crate) struct World {
    pub(crate) me: Weak<Self>,
    cluster: Mutex<Cluster>,
    pub(crate) changed: watch::Sender<u64>,
    clock: SystemClock,
    snapshots: MemorySnapshots,
}

impl Io for World {
    type Machines = Self;
    type Upgrader = Self;
    type External = NoExternal;
    type Etcd = Self;
    type Snapshots = MemorySnapshots;
    type Kubernetes = Self;
    type Clock = SystemClock;

    fn machines(&self) -> &Self {
        self
    }

    fn upgrader(&self) -> &Self {
        self
    }

    fn etcd(&self) -> &Self {
        self
    }

    fn snapshots(&self) -> &MemorySnapshots {
        &self.snapshots
    }

    fn kubernetes(&self) -> &Self {
        self
    }

    fn clock(&self) -> &SystemClock {
        &self.clock
    }
}

/// A machine that cannot be asked.
pub(crate) fn unavailable(text: &str) -> IoError {
    talos_error::read(Class::NotConnected, text)
}

/// As a person would write it.
fn config(role: Role, tag: &str) -> String {
    let mut text = format!(
        "# mine\nversion: v1alpha1\nmachine:\n  token: s3cr3t\n  kubelet:\n    \
         image: 'ghcr.io/siderolabs/kubelet:{tag}-slim' # small\n"
    );
    if role == Role::ControlPlane {
        text.push_str(&format!(
            "cluster:\n  apiServer:\n    image: mirror.lan/kube-apiserver:{tag}\n  \
             controllerManager: {{image: mirror.lan/kube-controller-manager:{tag}}}\n  \
             scheduler:\n    image: \"mirror.lan/kube-scheduler:{tag}\"\n  \
             proxy:\n    image: mirror.lan/kube-proxy:{tag}\n"
        ));
    }
    text
}

impl World {
    pub(crate) fn new(control_planes: usize, workers: usize, talos: &str) -> Arc<Self> {
        let tag = "v1.34.2";
        let names = (1..=control_planes).map(|it| (format!("cp-{it}"), Role::ControlPlane));
        let names = names.chain((1..=workers).map(|it| (format!("worker-{it}"), Role::Worker)));
        let nodes = names.zip(1..).map(|((name, role), boot)| {
            let config = config(role, tag);
            let sim = Sim {
                role,
                boot,
                runs: talos_machine_config::images(&config).unwrap(),
                config,
                ready: STATIC.into_iter().map(|it| (it, role == Role::ControlPlane)).collect(),
                pods: 0,
                kubelet: tag.parse().unwrap(),
                well: true,
                node_ready: true,
                api: role == Role::ControlPlane,
                staged: false,
                extra: BTreeMap::new(),
                unmet: vec![],
            };
            (NodeName(name), sim)
        });
        let inventory = "ConfigMap kube-system/talos-bootstrap-manifests-inventory".to_owned();
        let left = "kube-system_left-over__ConfigMap".to_owned();
        let objects = BTreeMap::from([
            (
                inventory.clone(),
                json!({"kind": "ConfigMap", "data": {(left.as_str()): "", "kube-system_coredns__ConfigMap": ""}}),
            ),
            (
                "ConfigMap kube-system/left-over".to_owned(),
                json!({"kind": "ConfigMap", "metadata": {"name": "left-over"}}),
            ),
        ]);
        // The node itself wrote the inventory, and under another name than ours.
        let owners = BTreeMap::from([((inventory, left), BTreeSet::from(["machined".to_owned()]))]);
        let cluster = Cluster {
            nodes: nodes.collect(),
            talos: talos.parse().unwrap(),
            objects,
            owners,
            deprecated: vec![],
            counts: BTreeMap::new(),
            fault: None,
            acts: vec![],
        };
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            cluster: Mutex::new(cluster),
            changed: watch::Sender::new(0),
            clock: SystemClock::starting_at("2026-11-15T00:00:00Z".parse().unwrap()),
            snapshots: MemorySnapshots::default(),
        })
    }

    pub(crate) fn cluster(&self) -> MutexGuard<'_, Cluster> {
        self.cluster.lock().unwrap()
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Cluster) -> T) -> T {
        let result = change(&mut self.cluster());
        self.changed.send_modify(|number| *number += 1);
        result
    }

    pub(crate) fn acts(&self, of: &str) -> Vec<String> {
        let cluster = self.cluster();
        cluster.acts.iter().filter_map(|act| act.strip_prefix(of)).map(str::to_owned).collect()
    }
}

impl Sim {
    /// The static pods become ready, except one that waits for its image.
    pub(crate) fn pods_are_ready(&mut self, stuck: Option<Component>) {
        if self.role == Role::Worker {
            return;
        }
        for (component, ready) in &mut self.ready {
            *ready |= stuck != Some(*component);
        }
    }
}

impl Cluster {
    /// The component that waits for its image on a node.
    pub(crate) fn stuck(&self, on: &NodeName) -> Option<Component> {
        match &self.fault {
            Some(Fault::NoImage { node, component, tag })
                if on.0 == *node && self.nodes[on].runs[component].tag.as_deref() == Some(tag) =>
            {
                Some(*component)
            }
            _ => None,
        }
    }

    /// Rule 1: while one control plane's component is away, no other is touched.
    pub(crate) fn referee(&self) {
        let away = |sim: &&Sim| {
            sim.role == Role::ControlPlane && (!sim.api || sim.ready.values().any(|it| !it))
        };
        let away = self.nodes.values().filter(away).count();
        assert!(away <= 1, "rule 1: {away} control planes are away: {:?}", self.acts);
    }
}
