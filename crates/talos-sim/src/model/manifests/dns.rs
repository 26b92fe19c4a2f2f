//! CoreDNS.

use serde_json::{Value, json};

use super::{account_subject, auto_updated, binding, config_map, default_access, object, role};

const ADDRESS: &str = "10.96.0.10";

const CONFIG: &str = ".:53 {
    errors
    health {
        lameduck 5s
    }
    ready
    log . {
        class error
    }
    prometheus :9153

    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
";

/// The image that each Talos line ships.
fn image(minor: u64) -> &'static str {
    match minor {
        14.. => "registry.k8s.io/coredns/coredns:v1.14.7",
        13 => "registry.k8s.io/coredns/coredns:v1.14.6",
        _ => "registry.k8s.io/coredns/coredns:v1.13.2",
    }
}

/// All objects except the service.
pub(super) fn objects(minor: u64) -> Vec<Value> {
    let name = "system:coredns";
    let rules = json!([
        {
            "apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"],
            "verbs": ["list", "watch"],
        },
        {
            "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"],
            "verbs": ["list", "watch"],
        },
    ]);
    vec![
        object("v1", "ServiceAccount", "coredns", &Value::Null),
        role(name, &default_access(), &rules),
        binding(name, &auto_updated(), name, &account_subject("coredns")),
        config_map("coredns", &Value::Null, &json!({"Corefile": CONFIG})),
        deployment(minor),
    ]
}

pub(super) fn service() -> Value {
    let labels = json!({
        "k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true",
        "kubernetes.io/name": "CoreDNS",
    });
    let mut service = object("v1", "Service", "kube-dns", &labels);
    service["metadata"]["annotations"] =
        json!({"prometheus.io/port": "9153", "prometheus.io/scrape": "true"});
    let port = |name: &str, port: u32, protocol: &str| json!({"name": name, "port": port, "protocol": protocol, "targetPort": port});
    service["spec"] = json!({
        "clusterIP": ADDRESS,
        "clusterIPs": [ADDRESS],
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "ports": [port("dns", 53, "UDP"), port("dns-tcp", 53, "TCP"), port("metrics", 9153, "TCP")],
        "selector": {"k8s-app": "kube-dns"},
    });
    service["status"] = json!({"loadBalancer": {}});
    service
}

fn deployment(minor: u64) -> Value {
    let labels = json!({"k8s-app": "kube-dns", "kubernetes.io/name": "CoreDNS"});
    let app = json!({"k8s-app": "kube-dns"});
    let mut deployment = object("apps/v1", "Deployment", "coredns", &labels);
    deployment["spec"] = json!({
        "replicas": 2,
        "selector": {"matchLabels": app},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
        "template": {"metadata": {"labels": app}, "spec": pod(minor)},
    });
    deployment
}

fn pod(minor: u64) -> Value {
    let tolerated = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoSchedule"});
    let elsewhere = json!({
        "labelSelector": {
            "matchExpressions": [{"key": "k8s-app", "operator": "In", "values": ["kube-dns"]}],
        },
        "topologyKey": "kubernetes.io/hostname",
    });
    let mut affinity = json!({});
    if minor >= super::network::AFFINITY_SINCE {
        affinity = super::network::affinity(&["amd64", "arm64"]);
    }
    affinity["podAntiAffinity"] = json!({
        "preferredDuringSchedulingIgnoredDuringExecution":
            [{"weight": 100, "podAffinityTerm": elsewhere}],
    });
    json!({
        "affinity": affinity,
        "containers": [container(image(minor))],
        "dnsPolicy": "Default",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "priorityClassName": "system-cluster-critical",
        "serviceAccountName": "coredns",
        "tolerations": [
            tolerated("node-role.kubernetes.io/control-plane"),
            tolerated("node.cloudprovider.kubernetes.io/uninitialized"),
        ],
        "volumes": [{
            "name": "config-volume",
            "configMap": {"name": "coredns", "items": [{"key": "Corefile", "path": "Corefile"}]},
        }],
    })
}

fn container(image: &str) -> Value {
    let port = |name: &str, port: u32, protocol: &str| json!({"name": name, "containerPort": port, "protocol": protocol});
    json!({
        "name": "coredns",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "env": [{"name": "GOMEMLIMIT", "value": "161MiB"}],
        "ports": [port("dns", 53, "UDP"), port("dns-tcp", 53, "TCP"), port("metrics", 9153, "TCP")],
        "livenessProbe": {
            "httpGet": {"path": "/health", "port": 8080, "scheme": "HTTP"},
            "initialDelaySeconds": 60, "timeoutSeconds": 5,
            "successThreshold": 1, "failureThreshold": 5,
        },
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181, "scheme": "HTTP"}},
        "resources": {
            "limits": {"memory": "170Mi"},
            "requests": {"cpu": "100m", "memory": "70Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
        },
        "volumeMounts": [
            {"name": "config-volume", "mountPath": "/etc/coredns", "readOnly": true},
        ],
    })
}
