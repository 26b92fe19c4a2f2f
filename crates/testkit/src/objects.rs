//! Objects of a hub.

use serde_json::{Value, json};

/// A `KubernetesCluster` with all required fields.
pub fn kubernetes_cluster(name: &str) -> Value {
    let pool = json!({
        "name": "wp", "replicas": 2, "version": "1.34.2", "provider": "kubevirt",
        "machineClass": "m", "taint": [], "storage": [],
        "metadata": {"labels": {}, "annotations": {}},
        "autoscaling": {"enabled": false, "minReplicas": 1, "maxReplicas": 5, "scalingRules": []},
    });
    json!({
        "apiVersion": "vitistack.io/v1alpha1", "kind": "KubernetesCluster",
        "metadata": {"name": name},
        "spec": {
            "data": {
                "clusterUid": name, "clusterId": name, "provider": "talos", "datacenter": "d",
                "region": "r", "zone": "z", "project": "p", "workspace": "w", "workorder": "o",
                "environment": "dev", "networkNamespaceName": "nn",
            },
            "topology": {
                "version": "1.34.2",
                "controlplane": {
                    "replicas": 3, "version": "1.34.2", "provider": "kubevirt",
                    "machineClass": "small", "metadata": {"labels": {}, "annotations": {}},
                    "storage": [{"class": "s", "path": "/p", "size": "20Gi"}],
                },
                "workers": {"nodePools": [pool]},
            },
        },
    })
}

/// An annotation of an object.
pub fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    object["metadata"]["annotations"][format!("upgrade.vitistack.io/{name}")]
        .as_str()
        .unwrap_or_default()
}
