//! The Kubernetes parts of a node: its kubelet, its static pods, and its readiness. The API server
//! itself is outside the model.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use upgrade_core::version::Version;

use super::World;
use super::api::NodeIndex;
use super::config::{Components, ConfigFiles};
use super::fault::FaultKind;
use super::images::Place;
use super::node::{Node, Power};
use super::schedule::Due;
use super::services::State;
use super::time::Time;
use super::timing::Span;

/// How long a kubelet that has started takes to probe its static pods: the period of their probes,
/// at the latest.
const PROBED_AFTER: Duration = Duration::from_secs(10);

/// A component with an image in the machine configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are those of Kubernetes")]
pub enum Component {
    ApiServer,
    ControllerManager,
    Scheduler,
    Proxy,
    Kubelet,
}

/// The components that run as static pods of a control plane.
pub(super) const STATIC: [Component; 3] =
    [Component::ApiServer, Component::ControllerManager, Component::Scheduler];

impl Component {
    /// The name in its image and its pods.
    pub fn name(self) -> &'static str {
        match self {
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Proxy => "kube-proxy",
            Self::Kubelet => "kubelet",
        }
    }
}

/// The state of a static pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum PodState {
    /// The kubelet does not run it.
    Absent,
    /// Its container is starting, or its image cannot be pulled.
    Pending,
    Running,
}

/// A static pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Pod {
    pub(super) component: Component,
    /// The running image, or the next one.
    pub(super) image: String,
    pub(super) state: PodState,
    pub(super) started: Time,
    /// Counts restarts, so that a pending older one is void.
    restart: u64,
    /// Whether its process serves: an API server needs a while to answer after its container has
    /// started.
    #[serde(default = "yes")]
    answers: bool,
    /// Whether the kubelet has probed it since the kubelet started.
    #[serde(default = "yes")]
    probed: bool,
}

impl Pod {
    /// Whether it has probes in a line of Talos. Up to 1.13 that of an API server has none: it is
    /// ready as soon as its container runs.
    fn has_probes(&self, minor: u64) -> bool {
        self.component != Component::ApiServer || minor >= 14
    }
}

fn yes() -> bool {
    true
}

/// The kubelet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Kubelet {
    pub(super) image: String,
    pub(super) up: bool,
    pub(super) restart: u64,
    /// Whether only a fault keeps it from running.
    #[serde(default)]
    pub(super) held: bool,
}

/// The Kubernetes state of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
pub(super) struct Kubernetes {
    pub(super) pods: Vec<Pod>,
    pub(super) kubelet: Kubelet,
    /// Whether the node has done everything needed to be ready.
    pub(super) comes_up: bool,
    /// Whether the API server has its status since the last boot.
    pub(super) registered: bool,
    /// Whether the machine has read the state of the static pods from its kubelet since the kubelet
    /// started. It polls every 15 seconds, and forgets the state when the kubelet stops.
    #[serde(default = "yes")]
    pub(super) pods_asked_for: bool,
    /// Whether the Node object says that it is not ready, whatever the node itself reports.
    #[serde(default)]
    unready: bool,
    pub(super) cordon: Cordon,
}

/// Whether pods may be scheduled to a node, and who cordoned it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Cordon {
    #[default]
    No,
    /// Talos lifts it when the node is ready again.
    ByTalos,
    ByOthers,
}

impl Kubernetes {
    /// Talos cordons the node before it drains it. An existing cordon has another owner and
    /// stays theirs (compare rule 7).
    pub(super) fn cordon(&mut self) {
        if self.cordon == Cordon::No {
            self.cordon = Cordon::ByTalos;
        }
    }

    /// Lifts Talos's own cordon once the node is ready again.
    fn uncordon(&mut self) {
        if self.cordon == Cordon::ByTalos {
            self.cordon = Cordon::No;
        }
    }

    /// The state of a node that has been up for a while.
    pub(super) fn running(components: &Components, control_plane: bool, since: Time) -> Self {
        let mut kubernetes = Self {
            pods: Vec::new(),
            kubelet: Kubelet {
                image: components.kubelet.clone(),
                up: true,
                restart: 0,
                held: false,
            },
            comes_up: true,
            registered: true,
            pods_asked_for: true,
            unready: false,
            cordon: Cordon::No,
        };
        if control_plane {
            kubernetes.pods = STATIC
                .iter()
                .map(|component| Pod {
                    component: *component,
                    image: components.image(*component).to_owned(),
                    state: PodState::Running,
                    started: since,
                    restart: 0,
                    answers: true,
                    probed: true,
                })
                .collect();
        }
        kubernetes
    }

    /// A boot: nothing runs yet, and everything takes its image from the configuration.
    pub(super) fn boot(&mut self, components: &Components) {
        self.stop_pods();
        self.comes_up = false;
        self.registered = false;
        self.kubelet.image.clone_from(&components.kubelet);
        for pod in &mut self.pods {
            components.image(pod.component).clone_into(&mut pod.image);
        }
    }

    pub(super) fn stop_pods(&mut self) {
        self.kubelet.up = false;
        self.kubelet.held = false;
        self.kubelet.restart += 1;
        self.pods_asked_for = false;
        for pod in &mut self.pods {
            pod.state = PodState::Absent;
            pod.restart += 1;
            pod.answers = false;
        }
    }

    /// The kubelet starts to create the static pods, and the machine knows of them.
    pub(super) fn create_pods(&mut self) {
        self.pods_asked_for = true;
        for pod in self.pods.iter_mut().filter(|pod| pod.state == PodState::Absent) {
            pod.state = PodState::Pending;
        }
    }

    pub(super) fn start_pods(&mut self, now: Time) {
        for pod in &mut self.pods {
            pod.state = PodState::Running;
            pod.started = now;
            pod.answers |= pod.component != Component::ApiServer;
            pod.probed = true;
        }
    }

    /// The restart count of its running API server, if the node has one.
    pub(super) fn api_server_restart(&self) -> Option<u64> {
        let mut pods = self.pods.iter();
        pods.find(|pod| pod.component == Component::ApiServer).map(|pod| pod.restart)
    }

    /// The static pods whose state the machine knows.
    pub(super) fn known_pods(&self) -> impl Iterator<Item = &Pod> {
        let known = |pod: &&Pod| self.pods_asked_for && pod.state != PodState::Absent;
        self.pods.iter().filter(known)
    }
}

/// A node as the Kubernetes API would show it, for the adapter that serves it.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
pub struct KubernetesNode {
    /// The name of the node.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Whether it is a control plane.
    pub control_plane: bool,
    /// The version of Talos that runs.
    pub talos: Version,
    /// Changes with every boot.
    pub boot_id: String,
    /// Whether its kubelet runs and can reach the API server.
    pub kubelet_up: bool,
    /// Whether the kubelet reports the node as ready.
    pub kubelet_ready: bool,
    /// The prefixes of images that cannot be pulled.
    pub unpullable: Vec<String>,
    /// Whether the budgets of its pods allow no eviction.
    pub budgets_stuck: bool,
    /// Whether its volumes stay attached.
    pub volumes_stuck: bool,
    /// Whether it is ready.
    pub ready: bool,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// The image of its kubelet.
    pub kubelet_image: String,
    /// Its static pods.
    pub pods: Vec<KubernetesPod>,
}

/// A static pod as the Kubernetes API would show it.
#[derive(Clone, Debug, PartialEq)]
pub struct KubernetesPod {
    /// Which one.
    pub component: Component,
    /// The image that runs.
    pub image: String,
    /// Whether it is ready.
    pub ready: bool,
    /// The value of its annotation `talos.dev/config-version`.
    pub config_version: u64,
    /// The value of its annotation `talos.dev/config-file-version`, if it has one.
    pub config_files: Option<ConfigFiles>,
}

/// Only API servers have files written by Talos.
fn config_files(here: &Node, component: Component) -> Option<ConfigFiles> {
    (component == Component::ApiServer).then(|| here.config.api_server_files())
}

impl World {
    /// The node as the Kubernetes API shows it; `None` once it has left.
    pub fn kubernetes(&self, node: NodeIndex) -> Option<KubernetesNode> {
        let here = self.nodes.get(node.0).filter(|here| !here.gone)?;
        Some(KubernetesNode {
            name: here.hostname.clone(),
            addresses: here.addresses.clone(),
            control_plane: here.is_control_plane(),
            talos: here.version().clone(),
            boot_id: here.boot_id.clone(),
            kubelet_up: here.power == Power::On
                && here.kubernetes.kubelet.up
                && !self.is_cut_off(node),
            kubelet_ready: here.kubernetes.comes_up
                && self.fault(node, FaultKind::NotReady).is_none(),
            unpullable: self.unpullable(node),
            budgets_stuck: self.fault(node, FaultKind::StuckBudgets).is_some(),
            volumes_stuck: self.fault(node, FaultKind::StuckVolumes).is_some(),
            ready: here.power == Power::On && self.node_ready(node),
            unschedulable: here.kubernetes.cordon != Cordon::No,
            kubelet_image: here.kubernetes.kubelet.image.clone(),
            pods: here
                .kubernetes
                .pods
                .iter()
                .filter(|pod| pod.state != PodState::Absent)
                .map(|pod| KubernetesPod {
                    component: pod.component,
                    image: pod.image.clone(),
                    ready: self.pod_is_ready(node, pod),
                    config_version: here.config.version_of(pod.component),
                    config_files: config_files(here, pod.component),
                })
                .collect(),
        })
    }

    /// Whether the Kubernetes API still shows the same for a node. It is called after every change,
    /// so it copies nothing.
    pub fn kubernetes_is(&self, node: NodeIndex, known: &KubernetesNode) -> bool {
        let Some(here) = self.nodes.get(node.0).filter(|here| !here.gone) else { return false };
        let kubernetes = &here.kubernetes;
        let reached = !self.is_cut_off(node);
        let ready = self.fault(node, FaultKind::NotReady).is_none();
        let mut pods = kubernetes.pods.iter().filter(|pod| pod.state != PodState::Absent);
        known.boot_id == here.boot_id
            && known.name == here.hostname
            && known.talos == *here.version()
            && known.addresses == here.addresses
            && known.control_plane == here.is_control_plane()
            && known.kubelet_up == (here.power == Power::On && kubernetes.kubelet.up && reached)
            && known.kubelet_ready == (kubernetes.comes_up && ready)
            && known.unpullable == self.unpullable(node)
            && known.budgets_stuck == self.fault(node, FaultKind::StuckBudgets).is_some()
            && known.volumes_stuck == self.fault(node, FaultKind::StuckVolumes).is_some()
            && known.ready == (here.power == Power::On && self.node_ready(node))
            && known.unschedulable == (kubernetes.cordon != Cordon::No)
            && known.kubelet_image == kubernetes.kubelet.image
            && known.pods.iter().all(|known| {
                pods.next().is_some_and(|pod| {
                    known.component == pod.component
                        && known.image == pod.image
                        && known.ready == self.pod_is_ready(node, pod)
                        && known.config_version == here.config.version_of(pod.component)
                        && known.config_files == config_files(here, pod.component)
                })
            })
            && pods.next().is_none()
    }

    /// Whether the Kubernetes API is available: etcd has a leader, and a control plane runs an API
    /// server.
    pub fn kubernetes_api_is_up(&self) -> bool {
        self.etcd.leader.is_some()
            && (0..self.nodes.len()).any(|index| self.api_server_runs(NodeIndex(index)))
    }

    /// Whether a control plane's API server runs and is reachable.
    pub fn api_server_runs(&self, node: NodeIndex) -> bool {
        self.nodes.get(node.0).is_some_and(|here| {
            here.power == Power::On
                && !self.is_cut_off(node)
                && here.kubernetes.pods.iter().any(|pod| {
                    pod.component == Component::ApiServer
                        && pod.state == PodState::Running
                        && pod.answers
                })
        })
    }

    /// Whether it has its etcd: the member on the same node, as on every Talos node.
    pub fn api_server_has_etcd(&self, node: NodeIndex) -> bool {
        self.nodes.get(node.0).is_some() && self.etcd_serves(node)
    }

    /// Cordons or uncordons a node, as the Kubernetes API would.
    pub fn set_unschedulable(&mut self, now: Time, node: NodeIndex, unschedulable: bool) {
        self.advance(now);
        if let Some(here) = self.nodes.get_mut(node.0) {
            here.kubernetes.cordon = if unschedulable { Cordon::ByOthers } else { Cordon::No };
            self.settle_one(node);
        }
    }

    /// Reports the readiness in the Node object.
    pub fn set_node_ready(&mut self, now: Time, node: NodeIndex, ready: bool) {
        self.advance(now);
        if let Some(here) = self.nodes.get_mut(node.0) {
            here.kubernetes.unready = !ready;
            self.settle_one(node);
        }
    }

    /// The name of a node that has not left, and whether it is cordoned.
    pub fn cordon(&self, node: NodeIndex) -> Option<(&str, bool)> {
        let here = self.nodes.get(node.0).filter(|here| !here.gone)?;
        Some((&here.hostname, here.kubernetes.cordon != Cordon::No))
    }

    pub(super) fn node_ready(&self, node: NodeIndex) -> bool {
        let kubernetes = &self.nodes[node.0].kubernetes;
        kubernetes.registered
            && !kubernetes.unready
            && kubernetes.kubelet.up
            && self.fault(node, FaultKind::NotReady).is_none()
    }

    /// Whether a pod is ready as far as its kubelet knows.
    pub(super) fn pod_is_ready(&self, node: NodeIndex, pod: &Pod) -> bool {
        let probes = pod.has_probes(self.nodes[node.0].minor());
        self.pod_works(node, pod) && (pod.probed || !probes)
    }

    /// Whether a pod would be ready for a probe. From 1.14 on the readiness of an API server is that
    /// of `/readyz`, etcd's included.
    pub(super) fn pod_works(&self, node: NodeIndex, pod: &Pod) -> bool {
        let asked =
            pod.component == Component::ApiServer && pod.has_probes(self.nodes[node.0].minor());
        pod.state == PodState::Running && (!asked || pod.answers && self.etcd_serves(node))
    }

    /// The problems of the static pods in the machine status: no known pod means no problem.
    pub(super) fn pod_problems(&self, node: NodeIndex) -> Vec<String> {
        let here = &self.nodes[node.0];
        here.kubernetes
            .known_pods()
            .filter_map(|pod| {
                let what = match pod.state {
                    PodState::Absent => return None,
                    PodState::Pending => "pending",
                    PodState::Running if self.pod_is_ready(node, pod) => return None,
                    PodState::Running => "not ready",
                };
                let name = pod.component.name();
                Some(format!("kube-system/{name}-{} {what}", here.hostname))
            })
            .collect()
    }

    /// The API server registers nodes that have come up.
    pub(super) fn register_nodes(&mut self) {
        if !self.kubernetes_api_is_up() {
            return;
        }
        for node in &mut self.nodes {
            if node.kubernetes.comes_up && !node.kubernetes.registered {
                self.wide = true;
                node.kubernetes.registered = true;
                node.kubernetes.uncordon();
            }
        }
    }

    /// Restarts the components whose image the configuration has changed. Up to 1.13 an API server
    /// also restarts with its scheduler.
    pub(super) fn follow_config(&mut self, node: NodeIndex) {
        let here = &self.nodes[node.0];
        if here.power != Power::On {
            return;
        }
        let boot = here.boot;
        let components = here.config.components.clone();
        let renamed = |pod: &Pod| components.image(pod.component) != pod.image;
        let shared = here.config.api_server_files().follow_the_scheduler()
            && here
                .kubernetes
                .pods
                .iter()
                .any(|it| it.component == Component::Scheduler && renamed(it));
        for index in 0..here.kubernetes.pods.len() {
            let pod = &self.nodes[node.0].kubernetes.pods[index];
            let component = pod.component;
            let wanted = components.image(component).to_owned();
            if !(renamed(pod) || shared && component == Component::ApiServer) {
                continue;
            }
            if pod.state == PodState::Absent {
                // It starts with the kubelet after the boot, with this image.
                self.nodes[node.0].kubernetes.pods[index].image = wanted;
                continue;
            }
            let lasts = self.draw(node, Span::StaticPod);
            let arrival = self.fetch(node, Place::Cri, &wanted);
            let pod = &mut self.nodes[node.0].kubernetes.pods[index];
            pod.image = wanted;
            pod.state = PodState::Pending;
            pod.restart += 1;
            pod.answers = false;
            let restart = pod.restart;
            if let Some(arrival) = arrival {
                let at = self.now.plus(arrival + lasts);
                let due = Due::Pod { node, boot, component, restart };
                self.schedule.put(at, due);
            }
        }
        let wanted = components.kubelet;
        if self.nodes[node.0].kubernetes.kubelet.image != wanted
            && self.nodes[node.0].service("kubelet").is_some()
        {
            let lasts = self.draw(node, Span::Kubelet);
            let arrival = self.fetch(node, Place::System, &wanted);
            self.stop_service(node, "kubelet");
            self.nodes[node.0].kubernetes.pods_asked_for = false;
            let kubelet = &mut self.nodes[node.0].kubernetes.kubelet;
            kubelet.image = wanted;
            kubelet.restart += 1;
            let restart = kubelet.restart;
            self.set_service(node, "kubelet", State::Preparing, None, "Running pre state");
            if let Some(arrival) = arrival {
                let at = self.now.plus(arrival + lasts);
                self.schedule.put(at, Due::Kubelet { node, boot, restart });
            }
        }
    }

    pub(super) fn kubelet_is_back(&mut self, node: NodeIndex, restart: u64) {
        if self.nodes[node.0].kubernetes.kubelet.restart == restart && self.kubelet_returns(node) {
            self.nodes[node.0].kubernetes.kubelet.up = true;
            self.start_service(node, "kubelet");
            self.set_health(node, "kubelet", true);
            self.kubelet_has_started(node);
        }
    }

    /// The kubelet has started, but not with a boot: it probes its static pods again, which are not
    /// ready until then, and the machine polls it for their state.
    pub(super) fn kubelet_has_started(&mut self, node: NodeIndex) {
        if !self.nodes[node.0].is_control_plane() {
            return;
        }
        let at = self.now.plus(self.draw(node, Span::Kubelet));
        let here = &mut self.nodes[node.0];
        let (boot, restart) = (here.boot, here.kubernetes.kubelet.restart);
        for pod in &mut here.kubernetes.pods {
            pod.probed = false;
        }
        self.schedule.put(at, Due::PodStatuses { node, boot, restart });
        self.schedule.put(self.now.plus(PROBED_AFTER), Due::Probes { node, boot, restart });
    }

    pub(super) fn pods_are_probed(&mut self, node: NodeIndex, restart: u64) {
        let here = &mut self.nodes[node.0].kubernetes;
        if here.kubelet.up && here.kubelet.restart == restart {
            for pod in &mut here.pods {
                pod.probed = true;
            }
        }
    }

    pub(super) fn pods_are_asked_for(&mut self, node: NodeIndex, restart: u64) {
        let here = &mut self.nodes[node.0].kubernetes;
        here.pods_asked_for |= here.kubelet.up && here.kubelet.restart == restart;
    }

    pub(super) fn pod_is_back(&mut self, node: NodeIndex, component: Component, restart: u64) {
        let now = self.now;
        let mut pods = self.nodes[node.0].kubernetes.pods.iter_mut();
        let Some(pod) = pods.find(|pod| pod.component == component && pod.restart == restart)
        else {
            return;
        };
        pod.state = PodState::Running;
        pod.started = now;
        pod.answers = component != Component::ApiServer;
        pod.probed = true;
        if component == Component::ApiServer {
            let boot = self.nodes[node.0].boot;
            let at = self.now.plus(self.draw(node, Span::StaticPod) / 3);
            self.schedule.put(at, Due::ApiServer { node, boot, restart });
        }
    }

    /// An API server starts to answer some time after its container started.
    pub(super) fn api_server_answers(&mut self, node: NodeIndex, restart: u64) {
        for pod in &mut self.nodes[node.0].kubernetes.pods {
            if pod.component == Component::ApiServer && pod.restart == restart {
                pod.answers = pod.state == PodState::Running;
            }
        }
        self.register_nodes();
    }
}
