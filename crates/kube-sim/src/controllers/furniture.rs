//! What a cluster brings along: the network, the proxy, and its name service.

use serde_json::{Value, json};

/// The images of a cluster's own workloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Furniture {
    /// The image of `kube-proxy`; without one there is none.
    pub proxy: Option<String>,
    /// The image of flannel; without one there is no network plugin.
    pub network: Option<String>,
    /// The image of CoreDNS; without one there is none.
    pub dns: Option<String>,
}

/// The objects, as Talos makes them at the first start.
pub fn furniture(wanted: &Furniture) -> Vec<Value> {
    let mut objects = Vec::new();
    if let Some(image) = &wanted.proxy {
        objects.extend(proxy(image));
    }
    if let Some(image) = &wanted.network {
        objects.extend(network(image));
    }
    if let Some(image) = &wanted.dns {
        objects.extend(dns(image));
    }
    objects
}

fn account(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": "kube-system"},
    })
}

fn config(name: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "kube-system"},
        "data": data,
    })
}

/// A workload of the cluster itself on every node.
fn everywhere(name: &str, app: &str, account: &str, image: &str, command: &[String]) -> Value {
    let labels = json!({"tier": "node", "k8s-app": app});
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system", "labels": labels},
        "spec": {
            "revisionHistoryLimit": 10,
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [{"name": name, "image": image, "command": command}],
                    "hostNetwork": true,
                    "priorityClassName": "system-node-critical",
                    "serviceAccountName": account,
                    "tolerations": [
                        {"effect": "NoSchedule", "operator": "Exists"},
                        {"effect": "NoExecute", "operator": "Exists"},
                    ],
                },
            },
        },
    })
}

fn proxy(image: &str) -> Vec<Value> {
    let command = ["/usr/local/bin/kube-proxy", "--cluster-cidr=10.244.0.0/16"].map(str::to_owned);
    vec![
        account("kube-proxy"),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "kube-proxy"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole", "name": "system:node-proxier",
            },
            "subjects": [
                {"kind": "ServiceAccount", "name": "kube-proxy", "namespace": "kube-system"},
            ],
        }),
        everywhere("kube-proxy", "kube-proxy", "kube-proxy", image, &command),
    ]
}

fn network(image: &str) -> Vec<Value> {
    let command = ["/opt/bin/flanneld", "--ip-masq", "--kube-subnet-mgr"].map(str::to_owned);
    vec![
        account("flannel"),
        config("kube-flannel-cfg", &json!({"net-conf.json": r#"{"Network":"10.244.0.0/16"}"#})),
        everywhere("kube-flannel", "flannel", "flannel", image, &command),
    ]
}

fn dns(image: &str) -> Vec<Value> {
    let app = json!({"k8s-app": "kube-dns"});
    let control_plane = "node-role.kubernetes.io/control-plane";
    vec![
        account("coredns"),
        config("coredns", &json!({"Corefile": ".:53 {\n    errors\n    health\n    ready\n}\n"})),
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": app},
            "spec": {
                "clusterIP": "10.96.0.10",
                "clusterIPs": ["10.96.0.10"],
                "selector": app,
                "ports": [
                    {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
                    {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53},
                ],
            },
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "coredns", "namespace": "kube-system", "labels": app},
            "spec": {
                "replicas": 2,
                "revisionHistoryLimit": 10,
                "progressDeadlineSeconds": 600,
                "selector": {"matchLabels": app},
                "strategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1},
                },
                "template": {
                    "metadata": {"labels": app},
                    "spec": {
                        "containers": [{
                            "name": "coredns",
                            "image": image,
                            "args": ["-conf", "/etc/coredns/Corefile"],
                            "resources": {
                                "limits": {"memory": "170Mi"},
                                "requests": {"cpu": "100m", "memory": "70Mi"},
                            },
                        }],
                        "priorityClassName": "system-cluster-critical",
                        "serviceAccountName": "coredns",
                        "tolerations": [
                            {"key": control_plane, "operator": "Exists", "effect": "NoSchedule"},
                        ],
                    },
                },
            },
        }),
    ]
}
