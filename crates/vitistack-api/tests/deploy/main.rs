//! The manifests of `deploy/` on a real API server, with the real kubectl: they are
//! accepted, the admission policy refuses invalid annotations, and the service account of
//! the operator has the rights that it needs and no others.

mod admission;
mod hub;
mod rights;

use serde_json::{Value, json};

use hub::{CLUSTER, Hub, NAMESPACE};

/// One test for all of it: starting the control plane takes longest. The hub is not
/// shared, since the test applies everything to an empty one and removes the policy.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_shipped_works_on_a_real_api_server() {
    let hub = Hub::start().await;
    accepted(&hub);
    listed(&hub);
    admission::holds(&hub);
    rights::are_as_listed(&hub);
}

/// Everything is accepted as it is, twice, and without a warning.
fn accepted(hub: &Hub) {
    for _ in 0..2 {
        let (code, _, stderr) = hub.run(&["apply", "--server-side", "-f", hub::DEPLOY], "");
        assert_eq!((code, stderr.as_str()), (0, ""), "no warnings either");
        hub.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=300s"]);
    }
    // The pod of the Deployment, in a namespace that enforces the restricted profile.
    let deployment = hub.json(&["get", "deployment", "talos-operator", "-n", NAMESPACE]);
    let template = &deployment["spec"]["template"];
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "try", "namespace": NAMESPACE, "labels": template["metadata"]["labels"]},
        "spec": template["spec"],
    });
    hub.feed(&["create", "--dry-run=server", "-f", "-"], &pod.to_string());
    // The budget and the network policy select it.
    let labels = &template["metadata"]["labels"];
    for (kind, selector) in [
        ("poddisruptionbudget", "/spec/selector/matchLabels"),
        ("networkpolicy", "/spec/podSelector/matchLabels"),
    ] {
        let object = hub.json(&["get", kind, "talos-operator", "-n", NAMESPACE]);
        assert_eq!(object.pointer(selector), Some(labels), "{kind}");
    }
    // Rule 3: snapshots outlive the pods, and all replicas can read them.
    let volume = &template["spec"]["volumes"][0];
    let claim = volume["persistentVolumeClaim"]["claimName"].as_str().expect("a claim");
    let claim = hub.json(&["get", "persistentvolumeclaim", claim, "-n", NAMESPACE]);
    assert_eq!(claim["spec"]["accessModes"], json!(["ReadWriteMany"]));
    let container = &template["spec"]["containers"][0];
    let mount = &container["volumeMounts"][0];
    assert_eq!(mount["name"], volume["name"]);
    let folder = format!("--snapshots={}", mount["mountPath"].as_str().expect("a path"));
    assert!(container["args"].as_array().expect("arguments").contains(&json!(folder)));
    // The port of the probes is open, and the network policy allows it.
    assert_eq!(container["ports"][0]["containerPort"], 8080);
    let policy = hub.json(&["get", "networkpolicy", "talos-operator", "-n", NAMESPACE]);
    assert_eq!(policy["spec"]["ingress"][0]["ports"][0]["port"], 8080);
}

/// What `kubectl get` shows of each kind.
fn listed(hub: &Hub) {
    hub.feed(&["apply", "--server-side", "-f", "-"], CLUSTER);
    let empty = hub.kubectl(&["get", "kc", "my-cluster", "--no-headers"]);
    assert!(empty.contains("talos") && empty.contains("eu-1"), "{empty}");
    // A status without its state is refused; with it, the phase is accepted.
    let patch = |status: Value| {
        let patch = json!({"status": status}).to_string();
        let words = ["patch", "kc", "my-cluster", "--subresource=status", "--type=merge", "-p"];
        hub.run(&[&words[..], &[&patch]].concat(), "")
    };
    let (code, _, stderr) = patch(json!({"phase": "Ready", "conditions": []}));
    assert!(code != 0 && stderr.contains("status.state: Required value"), "{stderr}");
    let state = vitistack_api::status::empty_state("2026-01-02T03:04:05Z");
    let (code, _, stderr) = patch(json!({"phase": "Ready", "conditions": [], "state": state}));
    assert_eq!(code, 0, "{stderr}");
    let phase = hub.kubectl(&["get", "kc", "my-cluster", "-o", "jsonpath={.status.phase}"]);
    assert_eq!(phase, "Ready");

    let run = |to: &str| {
        json!({
            "apiVersion": "upgrade.vitistack.io/v1alpha1", "kind": "UpgradeRun",
            "metadata": {"name": "my-cluster-1", "namespace": "default"},
            "spec": {"owner": {"group": "vitistack.io", "kind": "KubernetesCluster",
                    "namespace": "default", "name": "my-cluster", "uid": "u"},
                "versions": {"from": {"talos": "1.11.6", "kubernetes": "1.33.4"},
                    "to": {"talos": to}},
                "rollback": false, "hash": "0123", "plan": "{}"},
        })
        .to_string()
    };
    hub.feed(&["apply", "--server-side", "-f", "-"], &run("1.12.0"));
    let status = r#"{"status": {"phase": "Running", "progress": "2/5", "runner": "talos-operator-a",
        "message": "Upgrading node cp-0 (2/5 nodes completed)"}}"#;
    let words =
        ["patch", "ur", "my-cluster-1", "--subresource=status", "--type=merge", "-p", status];
    hub.kubectl(&words);
    let table = hub.kubectl(&["get", "upgraderuns"]);
    let words: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["NAME", "CLUSTER", "TALOS", "KUBERNETES", "PHASE", "PROGRESS", "AGE"]);
    // The column of a product that stays is empty.
    assert_eq!(words[1][..5], ["my-cluster-1", "my-cluster", "1.12.0", "Running", "2/5"]);
    // The spec of a run cannot be changed.
    let (code, _, stderr) = hub.run(&["apply", "--server-side", "-f", "-"], &run("1.13.0"));
    assert!(code != 0 && stderr.contains("a run never changes"), "{stderr}");
    // A run of the former shape can be stored, and its status written; one that names
    // nobody cannot.
    let former = |spec: Value| {
        let name = json!({"name": "former", "namespace": "default"});
        json!({"apiVersion": "upgrade.vitistack.io/v1alpha1", "kind": "UpgradeRun",
            "metadata": name, "spec": spec})
        .to_string()
    };
    let (code, _, stderr) =
        hub.run(&["apply", "--server-side", "-f", "-"], &former(json!({"hash": "", "plan": ""})));
    assert!(code != 0 && stderr.contains("names its owner"), "{stderr}");
    let spec = json!({"cluster": {"name": "my-cluster", "uid": "u"}, "product": "Talos",
        "from": "1.11.6", "to": "1.12.0", "rollback": false, "hash": "0123", "plan": "{}"});
    hub.feed(&["apply", "--server-side", "-f", "-"], &former(spec));
    hub.kubectl(&["patch", "ur", "former", "--subresource=status", "--type=merge", "-p", status]);
    let stored = hub.kubectl(&["get", "ur", "former", "-o", "json"]);
    let stored: upgrade_api::UpgradeRun = serde_json::from_str(&stored).expect("readable");
    assert_eq!(stored.owner().name, "my-cluster");
    assert_eq!(stored.spec.versions.to.talos.as_deref(), Some("1.12.0"));
    // An even number of control planes is refused.
    let even = CLUSTER.replace("replicas: 3", "replicas: 4");
    let (code, _, stderr) = hub.run(&["apply", "--server-side", "-f", "-"], &even);
    assert!(code != 0 && stderr.contains("even number"), "{stderr}");
}
