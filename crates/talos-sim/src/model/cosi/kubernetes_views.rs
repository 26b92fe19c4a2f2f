//! Resources about the Kubernetes parts of a node.

use std::borrow::Cow;

use talos_proto::resource::k8s;
use talos_proto::{Kind, common, kind};

use super::super::World;
use super::super::api::NodeIndex;
use super::super::kubernetes::{Component, Cordon, Pod, PodState};
use super::super::manifests::Manifest;
use super::super::node::Node;
use super::super::resource_value::{ResourceValue, empty, list, map};
use super::{POD_SUBNET, View};

const SERVICE_SUBNET: &str = "10.96.0.0/12";

/// The etcd member beside an API server.
const ETCD_SERVER: &str = "https://127.0.0.1:2379";

/// The first Kubernetes minor whose API server reads its authorization from a file (as a beta
/// feature; before that behind a feature gate).
const AUTHORIZATION_FILE_SINCE: u64 = 30;

impl World {
    pub(super) fn kubernetes_views(&self, node: NodeIndex, kind: &Kind) -> Option<Vec<View>> {
        let here = &self.nodes[node.0];
        let views = match *kind {
            kind::NODENAME => {
                let message = k8s::NodenameSpec {
                    nodename: here.hostname.clone(),
                    hostname_version: "1".to_owned(),
                    skip_node_registration: false,
                };
                let yaml = map([
                    ("nodename", here.hostname.clone().into()),
                    ("hostnameVersion", "1".into()),
                    ("skipNodeRegistration", false.into()),
                ]);
                vec![View::new("nodename", &message, &yaml)]
            }
            kind::NODE_STATUS if !here.kubernetes.registered => Vec::new(),
            kind::NODE_STATUS => vec![self.node_status(node)],
            kind::KUBELET_SPEC => vec![kubelet_spec(here)],
            kind::STATIC_POD => {
                here.kubernetes.pods.iter().map(|pod| static_pod(here, pod)).collect()
            }
            kind::STATIC_POD_STATUS => {
                here.kubernetes.known_pods().map(|pod| self.static_pod_status(node, pod)).collect()
            }
            kind::API_SERVER_CONFIG => {
                configs(here, Component::ApiServer, || self.api_server(node))
            }
            kind::CONTROLLER_MANAGER_CONFIG => {
                configs(here, Component::ControllerManager, || controller_manager(here))
            }
            kind::SCHEDULER_CONFIG => configs(here, Component::Scheduler, || scheduler(here)),
            kind::MANIFEST => self.manifests(node).into_iter().map(manifest).collect(),
            _ => return None,
        };
        Some(views)
    }

    fn node_status(&self, node: NodeIndex) -> View {
        let here = &self.nodes[node.0];
        let ready = self.node_ready(node);
        let unschedulable = here.kubernetes.cordon != Cordon::No;
        let mut labels = vec![("kubernetes.io/hostname", here.hostname.as_str())];
        if here.is_control_plane() {
            labels.push(("node-role.kubernetes.io/control-plane", ""));
        }
        let third = u8::try_from(node.0 % 256).unwrap_or(0);
        let message = k8s::NodeStatusSpec {
            nodename: here.hostname.clone(),
            node_ready: ready,
            unschedulable,
            labels: labels
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            annotations: std::collections::BTreeMap::default(),
            pod_cid_rs: vec![common::NetIpPrefix {
                ip: vec![10, 244, third, 0],
                prefix_length: 24,
            }],
        };
        let labels = labels
            .into_iter()
            .map(|(key, value)| (Cow::Borrowed(key), value.to_owned().into()))
            .collect();
        let yaml = map([
            ("nodename", here.hostname.clone().into()),
            ("nodeReady", ready.into()),
            ("unschedulable", unschedulable.into()),
            ("labels", ResourceValue::Map(labels)),
            ("annotations", empty()),
            ("podCIDRs", list([format!("10.244.{third}.0/24")])),
        ]);
        View::new(here.hostname.clone(), &message, &yaml)
    }

    fn static_pod_status(&self, node: NodeIndex, pod: &Pod) -> View {
        let here = &self.nodes[node.0];
        let ready = self.pod_is_ready(node, pod);
        let condition = |name: &'static str, holds: bool| {
            map([("type", name.into()), ("status", if holds { "True" } else { "False" }.into())])
        };
        let phase = if pod.state == PodState::Running { "Running" } else { "Pending" };
        let address = here.addresses.first().map(ToString::to_string).unwrap_or_default();
        let status = map([
            ("phase", phase.into()),
            (
                "conditions",
                ResourceValue::List(vec![
                    condition("Initialized", true),
                    condition("Ready", ready),
                    condition("ContainersReady", ready),
                    condition("PodScheduled", true),
                ]),
            ),
            ("hostIP", address.clone().into()),
            ("podIP", address.into()),
            ("startTime", pod.started.to_jiff().to_string().into()),
        ]);
        let message = k8s::StaticPodStatusSpec { pod_status: Some(status.to_struct()) };
        let name = pod.component.name();
        View::new(format!("kube-system/{name}-{}", here.hostname), &message, &status)
    }

    fn api_server(&self, node: NodeIndex) -> View {
        let here = &self.nodes[node.0];
        let image = here.config.components.api_server.clone();
        let endpoint = self.spec.endpoint.clone();
        let message = k8s::ApiServerConfigSpec {
            image: image.clone(),
            control_plane_endpoint: endpoint.clone(),
            etcd_servers: vec![ETCD_SERVER.to_owned()],
            local_port: 6443,
            service_cid_rs: vec![SERVICE_SUBNET.to_owned()],
            advertised_address: "$(POD_IP)".to_owned(),
            ..Default::default()
        };
        let resources = map([("requests", empty()), ("limits", empty())]);
        let yaml = map([
            ("image", image.into()),
            ("cloudProvider", "".into()),
            ("controlPlaneEndpoint", endpoint.into()),
            ("etcdServers", list([ETCD_SERVER])),
            ("localPort", 6443.into()),
            ("serviceCIDR", list([SERVICE_SUBNET])),
            ("extraArgs", empty()),
            ("extraVolumes", ResourceValue::List(Vec::new())),
            ("environmentVariables", empty()),
            ("advertisedAddress", "$(POD_IP)".into()),
            ("resources", resources),
        ]);
        View::new("kube-apiserver", &message, &yaml)
    }
}

/// The configuration of a component. From 1.14 on there is a second, final one; both have the same
/// version (talos#14258 is about nodes where they did not).
fn configs(here: &Node, component: Component, view: impl Fn() -> View) -> Vec<View> {
    if !here.is_control_plane() {
        return Vec::new();
    }
    let version = here.config.version_of(component);
    let mut views = vec![view().version(version)];
    if here.minor() >= 14 {
        let mut copy = view().version(version);
        copy.id = format!("final-{}", component.name());
        views.push(copy);
    }
    views
}

fn controller_manager(here: &Node) -> View {
    let image = here.config.components.controller_manager.clone();
    let message = k8s::ControllerManagerConfigSpec {
        enabled: true,
        image: image.clone(),
        cloud_provider: String::new(),
        pod_cid_rs: vec![POD_SUBNET.to_owned()],
        service_cid_rs: vec![SERVICE_SUBNET.to_owned()],
    };
    let yaml = map([
        ("enabled", true.into()),
        ("image", image.into()),
        ("cloudProvider", "".into()),
        ("podCIDRs", list([POD_SUBNET])),
        ("serviceCIDRs", list([SERVICE_SUBNET])),
        ("extraVolumes", ResourceValue::List(Vec::new())),
        ("environmentVariables", empty()),
        ("resources", map([("requests", empty()), ("limits", empty())])),
    ]);
    View::new("kube-controller-manager", &message, &yaml)
}

fn scheduler(here: &Node) -> View {
    let image = here.config.components.scheduler.clone();
    let message = k8s::SchedulerConfigSpec {
        enabled: true,
        image: image.clone(),
        config: Some(prost_types::Struct::default()),
    };
    let yaml = map([
        ("enabled", true.into()),
        ("image", image.into()),
        ("config", empty()),
        ("extraVolumes", ResourceValue::List(Vec::new())),
        ("environmentVariables", empty()),
        ("resources", map([("requests", empty()), ("limits", empty())])),
    ]);
    View::new("kube-scheduler", &message, &yaml)
}

fn kubelet_spec(here: &Node) -> View {
    let image = here.config.components.kubelet.clone();
    let args = vec![
        "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubeconfig".to_owned(),
        "--config=/etc/kubernetes/kubelet.yaml".to_owned(),
        format!("--hostname-override={}", here.hostname),
    ];
    let config = map([
        ("apiVersion", "kubelet.config.k8s.io/v1beta1".into()),
        ("kind", "KubeletConfiguration".into()),
        ("clusterDomain", "cluster.local".into()),
        ("rotateCertificates", true.into()),
    ]);
    let message = k8s::KubeletSpecSpec {
        image: image.clone(),
        args: args.clone(),
        expected_nodename: here.hostname.clone(),
        config: Some(config.to_struct()),
    };
    let yaml = map([
        ("image", image.into()),
        ("args", list(args)),
        ("expectedNodename", here.hostname.clone().into()),
        ("config", config),
    ]);
    View::new("kubelet", &message, &yaml).version(here.config.version_of(Component::Kubelet))
}

/// The pod as the configuration defines it, whether it runs yet or not.
fn static_pod(here: &Node, pod: &Pod) -> View {
    let name = pod.component.name();
    let version = here.config.version_of(pod.component);
    let image = here.config.components.image(pod.component).to_owned();
    let release = release_of(&image);
    let minor = release.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or(0);
    let command: Vec<ResourceValue> = match pod.component {
        Component::ApiServer => vec![
            "/usr/local/bin/kube-apiserver".into(),
            "--admission-control-config-file=/system/config/kubernetes/kube-apiserver/\
             admission-control-config.yaml"
                .into(),
            "--allow-privileged=true".into(),
            authorization(minor).into(),
            "--enable-admission-plugins=NodeRestriction".into(),
            format!("--etcd-servers={ETCD_SERVER}").into(),
        ],
        Component::ControllerManager => vec![
            "/usr/local/bin/kube-controller-manager".into(),
            "--use-service-account-credentials".into(),
            "--leader-elect=true".into(),
        ],
        _ => vec![
            "/usr/local/bin/kube-scheduler".into(),
            "--leader-elect=true".into(),
            "--profiling=false".into(),
        ],
    };
    let labels = || {
        map([
            ("component", name.into()),
            ("k8s-app", name.into()),
            ("tier", "control-plane".into()),
            ("app.kubernetes.io/name", name.into()),
            ("app.kubernetes.io/version", release.clone().into()),
            ("app.kubernetes.io/component", "control-plane".into()),
            ("app.kubernetes.io/managed-by", "Talos".into()),
        ])
    };
    let mut annotations = vec![
        (Cow::Borrowed("talos.dev/config-version"), version.to_string().into()),
        (Cow::Borrowed("talos.dev/secrets-version"), "1".into()),
    ];
    if pod.component == Component::ApiServer {
        let files = here.config.api_server_files().to_string();
        annotations.push((Cow::Borrowed("talos.dev/config-file-version"), files.into()));
    }
    let container = map([
        ("name", name.into()),
        ("image", image.into()),
        ("command", ResourceValue::List(command)),
    ]);
    let tree = map([
        ("apiVersion", "v1".into()),
        ("kind", "Pod".into()),
        (
            "metadata",
            map([
                ("annotations", ResourceValue::Map(annotations)),
                ("labels", labels()),
                ("name", name.into()),
                ("namespace", "kube-system".into()),
            ]),
        ),
        (
            "spec",
            map([
                ("containers", ResourceValue::List(vec![container])),
                ("hostNetwork", true.into()),
                ("priority", 2_000_000_000.into()),
                ("priorityClassName", "system-cluster-critical".into()),
            ]),
        ),
    ]);
    let message = k8s::StaticPodSpec { pod: Some(tree.to_struct()) };
    View::new(name, &message, &tree)
}

/// The release in an image's tag, as labels have it.
fn release_of(image: &str) -> String {
    let name = image.split('@').next().unwrap_or(image);
    let tag = name.rsplit_once(':').map_or("", |(_, tag)| tag);
    tag.trim_start_matches('v').to_owned()
}

/// The arguments that configure an API server's authorization.
fn authorization(minor: u64) -> &'static str {
    if minor < AUTHORIZATION_FILE_SINCE {
        return "--authorization-mode=Node,RBAC";
    }
    "--authorization-config=/system/config/kubernetes/kube-apiserver/authorization-config.yaml"
}

/// A bootstrap manifest with all of its objects.
fn manifest((name, objects): Manifest) -> View {
    let objects: Vec<ResourceValue> = objects.into_iter().map(ResourceValue::from).collect();
    let items = objects
        .iter()
        .map(|object| k8s::SingleManifest { object: Some(object.to_struct()) })
        .collect();
    View::new(name, &k8s::ManifestSpec { items }, &ResourceValue::List(objects))
}
