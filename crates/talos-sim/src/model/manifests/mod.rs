//! The bootstrap manifests: the objects that a control plane creates in Kubernetes beside its
//! static pods.
//!
//! A node renders them from its configuration and its own version: CoreDNS and flannel are those of
//! the running Talos, kube-proxy's image is the configuration's. The node itself creates only
//! missing objects; updating the others is part of a Kubernetes upgrade.

mod dns;
mod extra;
mod network;

use serde_json::{Value, json};

use super::World;
use super::api::NodeIndex;
use super::node::Node;

pub(super) use extra::Extra;

const NAMESPACE: &str = "kube-system";
const RBAC: &str = "rbac.authorization.k8s.io";
const RBAC_VERSION: &str = "rbac.authorization.k8s.io/v1";

/// The node's own load balancer in front of the API servers.
const LOCAL: &str = "https://127.0.0.1:7445";

/// One resource: its name, and the objects in it.
pub(super) type Manifest = (String, Vec<Value>);

impl World {
    /// The bootstrap manifests of a control plane; a worker has none.
    pub(super) fn manifests(&self, node: NodeIndex) -> Vec<Manifest> {
        self.own_manifests(node).into_iter().chain(self.extra_manifests(node)).collect()
    }

    /// Talos's own manifests.
    fn own_manifests(&self, node: NodeIndex) -> Vec<Manifest> {
        let here = &self.nodes[node.0];
        if !here.is_control_plane() {
            return Vec::new();
        }
        let minor = here.minor();
        let flannel = here.config.has_flannel().then(|| ("05-flannel", network::flannel(minor)));
        let before = vec![
            ("00-kubelet-bootstrapping-token", vec![bootstrap_token(here)]),
            (
                "01-csr-approver-role-binding",
                vec![group_binding(
                    "system-bootstrap-approve-node-client-csr",
                    "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
                    &["system:bootstrappers:nodes"],
                )],
            ),
            (
                "01-csr-node-bootstrap",
                vec![group_binding(
                    "system-bootstrap-node-bootstrapper",
                    "system:node-bootstrapper",
                    &["system:bootstrappers:nodes", "system:nodes"],
                )],
            ),
            (
                "01-csr-renewal-role-binding",
                vec![group_binding(
                    "system-bootstrap-node-renewal",
                    "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
                    &["system:nodes"],
                )],
            ),
        ];
        let image = &here.config.components.proxy;
        let proxy =
            here.config.has_proxy().then(|| ("10-kube-proxy", network::proxy(image, minor)));
        let dns = here.config.has_dns().then(|| {
            [("11-core-dns", dns::objects(minor)), ("11-core-dns-svc", vec![dns::service()])]
        });
        let after = vec![
            ("11-kube-config-in-cluster", vec![kubeconfig()]),
            ("11-talos-node-rbac-template", node_access()),
        ];
        let all = before.into_iter().chain(flannel).chain(proxy).chain(dns.into_iter().flatten());
        all.chain(after).map(|(name, objects)| (name.to_owned(), objects)).collect()
    }

    /// The names of the manifests that a control plane has, with their objects.
    pub fn manifests_of(&self, node: NodeIndex) -> Vec<(String, Vec<Value>)> {
        self.manifests(node)
    }

    /// The names of the extra manifests in its configuration.
    pub fn extra_manifests_of(&self, node: NodeIndex) -> Vec<String> {
        self.nodes[node.0].config.extra_manifests().iter().map(|it| it.id.clone()).collect()
    }

    /// Which of its own manifests a control plane renders: kube-proxy, CoreDNS,
    /// flannel.
    pub fn own_manifests_of(&self, node: NodeIndex) -> [bool; 3] {
        let config = &self.nodes[node.0].config;
        [config.has_proxy(), config.has_dns(), config.has_flannel()]
    }

    /// Every object in a control plane's configuration, including files that could not be
    /// downloaded: the truth for a referee.
    pub fn wanted_objects(&self, node: NodeIndex) -> Vec<Value> {
        let wanted = self.own_manifests(node).into_iter().chain(self.wanted_manifests(node));
        wanted.flat_map(|(_, objects)| objects).collect()
    }

    /// The source of a node's manifests: nodes with the same source have the same objects. It holds
    /// a token (rule 14).
    pub fn bootstrap_source(&self, node: NodeIndex) -> String {
        let here = &self.nodes[node.0];
        let token = here.config.bootstrap_token().unwrap_or_default();
        let (minor, proxy) = (here.minor(), &here.config.components.proxy);
        let (control_plane, config) = (here.is_control_plane(), &here.config);
        let own = [config.has_flannel(), config.has_proxy(), config.has_dns()];
        let mut source = format!("{minor} {control_plane} {own:?} {proxy} {token}");
        for extra in config.extra_manifests() {
            let text = extra.url.as_ref().map_or(Some(&extra.text), |url| here.downloads.get(url));
            source.push('\n');
            source.push_str(&extra.id);
            source.push_str(text.map_or("", String::as_str));
        }
        source
    }

    /// The objects in a node's manifests.
    pub fn bootstrap_objects(&self, node: NodeIndex) -> Vec<Value> {
        self.manifests(node).into_iter().flat_map(|(_, objects)| objects).collect()
    }

    /// Whether a node keeps an inventory of the objects it created, as since 1.13.
    pub fn keeps_inventory(&self, node: NodeIndex) -> bool {
        self.nodes[node.0].minor() >= 13
    }

    /// Changes whenever a control plane checks its manifests: after a boot, after a configuration
    /// change, and when a manifest was downloaded. `None` while it cannot check.
    pub fn manifests_seen(&self, node: NodeIndex) -> Option<(u64, u64, usize)> {
        let here = &self.nodes[node.0];
        let checks =
            here.is_control_plane() && self.api_server_runs(node) && self.etcd_serves(node);
        checks.then_some((here.boot, here.config.version, here.downloads.len()))
    }
}

/// An object in `kube-system`; `labels` may be null.
fn object(version: &str, kind: &str, name: &str, labels: &Value) -> Value {
    let mut object = json!({
        "apiVersion": version, "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
    });
    if !labels.is_null() {
        object["metadata"]["labels"] = labels.clone();
    }
    object
}

fn config_map(name: &str, labels: &Value, data: &Value) -> Value {
    let mut object = object("v1", "ConfigMap", name, labels);
    object["data"] = data.clone();
    object
}

/// A cluster-wide RBAC object, without a namespace.
fn access(kind: &str, name: &str, metadata: &Value) -> Value {
    let mut object = json!({"apiVersion": RBAC_VERSION, "kind": kind, "metadata": metadata});
    object["metadata"]["name"] = json!(name);
    object
}

fn binding(name: &str, metadata: &Value, role: &str, subjects: &Value) -> Value {
    let mut object = access("ClusterRoleBinding", name, metadata);
    object["roleRef"] = json!({"apiGroup": RBAC, "kind": "ClusterRole", "name": role});
    object["subjects"] = subjects.clone();
    object
}

fn role(name: &str, metadata: &Value, rules: &Value) -> Value {
    let mut object = access("ClusterRole", name, metadata);
    object["rules"] = rules.clone();
    object
}

fn account_subject(name: &str) -> Value {
    json!([{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}])
}

fn group_binding(name: &str, role: &str, groups: &[&str]) -> Value {
    let subjects: Vec<Value> = groups
        .iter()
        .map(|group| json!({"apiGroup": RBAC, "kind": "Group", "name": group}))
        .collect();
    binding(name, &json!({}), role, &json!(subjects))
}

/// The RBAC annotation and label of objects that Kubernetes maintains itself.
fn default_access() -> Value {
    json!({"labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}})
}

fn auto_updated() -> Value {
    let mut metadata = default_access();
    metadata["annotations"] = json!({"rbac.authorization.kubernetes.io/autoupdate": "true"});
    metadata
}

/// The token that talosctl and the kubelets of new nodes authenticate with.
fn bootstrap_token(here: &Node) -> Value {
    let token = here.config.bootstrap_token();
    let (id, secret) = token.and_then(|token| token.split_once('.')).unwrap_or_default();
    let mut object = object("v1", "Secret", &format!("bootstrap-token-{id}"), &Value::Null);
    object["type"] = json!("bootstrap.kubernetes.io/token");
    object["stringData"] = json!({
        "token-id": id,
        "token-secret": secret,
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": "system:bootstrappers:nodes",
    });
    object
}

/// A kubeconfig for pods that need the API server before there is a pod network.
fn kubeconfig() -> Value {
    let account = "/var/run/secrets/kubernetes.io/serviceaccount";
    let text = format!(
        "apiVersion: v1
kind: Config
clusters:
- name: local
  cluster:
    server: {LOCAL}
    certificate-authority: {account}/ca.crt
users:
- name: service-account
  user:
    tokenFile: {account}/token
contexts:
- name: local
  context:
    cluster: local
    user: service-account
current-context: local
"
    );
    config_map("kubeconfig-in-cluster", &Value::Null, &json!({"kubeconfig": text}))
}

/// Access rules that let nodes find the API servers.
fn node_access() -> Vec<Value> {
    let name = "system:talos-nodes";
    let nodes = json!([{"apiGroup": RBAC, "kind": "Group", "name": "system:nodes"}]);
    let rules = json!([{
        "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"],
        "verbs": ["get", "list", "watch"],
    }]);
    vec![binding(name, &auto_updated(), name, &nodes), role(name, &default_access(), &rules)]
}
