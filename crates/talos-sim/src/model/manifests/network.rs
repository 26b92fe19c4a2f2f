//! The pod network and the service network: flannel and kube-proxy.

use serde_json::{Value, json};

use super::{account_subject, binding, config_map, object, role};

/// Flannel's CNI plugins and network configuration.
const PLUGINS: &str = r#"{
  "name": "cbr0",
  "cniVersion": "1.0.0",
  "plugins": [
    {"type": "flannel", "delegate": {"hairpinMode": true, "isDefaultGateway": true}},
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}"#;
const NETWORK: &str = r#"{
  "Network": "10.244.0.0/16",
  "EnableNFTables": true,
  "Backend": {"Type": "vxlan", "Port": 4789}
}"#;

/// From this line on, the pods of manifests have a node affinity.
pub(super) const AFFINITY_SINCE: u64 = 14;

/// The image that each Talos line ships.
fn image(minor: u64) -> &'static str {
    match minor {
        14.. => "ghcr.io/siderolabs/flannel:0.28.9",
        13 => "ghcr.io/siderolabs/flannel:0.28.8",
        _ => "ghcr.io/siderolabs/flannel:v0.27.4",
    }
}

pub(super) fn flannel(minor: u64) -> Vec<Value> {
    let app = json!({"k8s-app": "flannel"});
    let metadata = json!({"labels": app});
    let labels = json!({"k8s-app": "flannel", "tier": "node"});
    let rules = json!([
        {
            "apiGroups": [""], "resources": ["pods", "nodes", "namespaces"],
            "verbs": ["get", "list", "watch"],
        },
        {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    ]);
    let config = json!({"cni-conf.json": PLUGINS, "net-conf.json": NETWORK});
    vec![
        role("flannel", &metadata, &rules),
        binding("flannel", &metadata, "flannel", &account_subject("flannel")),
        object("v1", "ServiceAccount", "flannel", &app),
        config_map("kube-flannel-cfg", &labels, &config),
        everywhere("kube-flannel", &labels, &json!({}), &flannel_pod(image(minor))),
    ]
}

pub(super) fn proxy(image: &str, minor: u64) -> Vec<Value> {
    let labels = json!({"k8s-app": "kube-proxy", "tier": "node"});
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
    vec![
        everywhere("kube-proxy", &labels, &strategy, &proxy_pod(image, minor)),
        object("v1", "ServiceAccount", "kube-proxy", &Value::Null),
        binding("kube-proxy", &json!({}), "system:node-proxier", &account_subject("kube-proxy")),
    ]
}

/// A daemon set.
fn everywhere(name: &str, labels: &Value, strategy: &Value, pod: &Value) -> Value {
    let mut pod = pod.clone();
    pod["hostNetwork"] = json!(true);
    pod["tolerations"] = json!([
        {"effect": "NoSchedule", "operator": "Exists"},
        {"effect": "NoExecute", "operator": "Exists"},
    ]);
    let mut set = object("apps/v1", "DaemonSet", name, labels);
    set["spec"] = json!({
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
        "updateStrategy": strategy,
    });
    set
}

/// Node affinity for Linux, and for these processor architectures if any are given.
pub(super) fn affinity(processors: &[&str]) -> Value {
    let mut wanted =
        vec![json!({"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]})];
    if !processors.is_empty() {
        let key = "kubernetes.io/arch";
        wanted.push(json!({"key": key, "operator": "In", "values": processors}));
    }
    json!({
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": wanted}],
            },
        },
    })
}

fn field(name: &str, path: &str) -> Value {
    json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})
}

fn requests() -> Value {
    json!({"requests": {"cpu": "100m", "memory": "50Mi"}})
}

fn flannel_pod(image: &str) -> Value {
    let mounts = |first: &str, path: &str| {
        json!([
            {"name": first, "mountPath": path},
            {"name": "flannel-cfg", "mountPath": "/etc/kube-flannel/"},
        ])
    };
    json!({
        "affinity": affinity(&[]),
        "initContainers": [{
            "name": "install-config",
            "image": image,
            "command": ["cp"],
            "args": ["-f", "/etc/kube-flannel/cni-conf.json", "/etc/cni/net.d/10-flannel.conflist"],
            "resources": {},
            "volumeMounts": mounts("cni", "/etc/cni/net.d"),
        }],
        "containers": [{
            "name": "kube-flannel",
            "image": image,
            "command": ["/opt/bin/flanneld"],
            "args": ["--ip-masq", "--kube-subnet-mgr"],
            "env": [
                field("POD_NAME", "metadata.name"),
                field("POD_NAMESPACE", "metadata.namespace"),
                {"name": "EVENT_QUEUE_DEPTH", "value": "5000"},
                {"name": "CONT_WHEN_CACHE_NOT_READY", "value": "false"},
            ],
            "resources": requests(),
            "securityContext": {
                "privileged": false,
                "capabilities": {"add": ["NET_ADMIN", "NET_RAW"]},
            },
            "volumeMounts": mounts("run", "/run/flannel"),
        }],
        "priorityClassName": "system-node-critical",
        "serviceAccountName": "flannel",
        "volumes": [
            {"name": "run", "hostPath": {"path": "/run/flannel"}},
            {"name": "cni", "hostPath": {"path": "/etc/cni/net.d"}},
            {"name": "flannel-cfg", "configMap": {"name": "kube-flannel-cfg"}},
        ],
    })
}

fn proxy_pod(image: &str, minor: u64) -> Value {
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path, "readOnly": true});
    let mut pod = json!({
        "containers": [{
            "name": "kube-proxy",
            "image": image,
            "command": [
                "/usr/local/bin/kube-proxy",
                "--cluster-cidr=10.244.0.0/16",
                "--conntrack-max-per-core=0",
                "--hostname-override=$(NODE_NAME)",
                "--kubeconfig=/etc/kubernetes/kubeconfig",
                "--proxy-mode=nftables",
            ],
            "env": [field("NODE_NAME", "spec.nodeName"), field("POD_IP", "status.podIP")],
            "resources": {},
            "securityContext": {"privileged": true},
            "volumeMounts": [
                mount("lib-modules", "/lib/modules"),
                mount("ssl-certs-host", "/etc/ssl/certs"),
                mount("kubeconfig", "/etc/kubernetes"),
            ],
        }],
        "priorityClassName": "system-cluster-critical",
        "serviceAccountName": "kube-proxy",
        "volumes": [
            {"name": "lib-modules", "hostPath": {"path": "/usr/lib/modules"}},
            {"name": "ssl-certs-host", "hostPath": {"path": "/etc/ssl/certs"}},
            {"name": "kubeconfig", "configMap": {"name": "kubeconfig-in-cluster"}},
        ],
    });
    if minor >= AFFINITY_SINCE {
        pod["affinity"] = affinity(&["amd64", "arm64"]);
        pod["containers"][0]["resources"] = requests();
    }
    pod
}
