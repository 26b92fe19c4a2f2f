//! The real talosctl upgrades Kubernetes by one minor with `upgrade-k8s`, as a dry run and for
//! real. Nothing reboots meanwhile.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::bench::{Bench, NODES};
use crate::kubectl::Kubectl;
use crate::talosctl::Talosctl;

const FROM: &str = "1.34.2";
const TO: &str = "1.35.4";

/// The static pod components, and talosctl's names for their images.
const STATIC: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

#[tokio::test(flavor = "multi_thread")]
async fn talosctl_1_12_upgrades_kubernetes() {
    let bench = Bench::start(&NODES[0], 1).await;
    upgrades_kubernetes(&bench, "1.12", Manifests::Updated).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn talosctl_1_13_upgrades_kubernetes() {
    let bench = Bench::start(&NODES[1], 1).await;
    upgrades_kubernetes(&bench, "1.13", Manifests::Applied).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn talosctl_1_14_upgrades_kubernetes() {
    let bench = Bench::start(&NODES[2], 1).await;
    upgrades_kubernetes(&bench, "1.14", Manifests::Applied).await;
}

/// A newer talosctl adapts to the nodes: these keep no inventory.
#[tokio::test(flavor = "multi_thread")]
async fn talosctl_1_14_upgrades_kubernetes_of_1_12() {
    let bench = Bench::start(&NODES[0], 1).await;
    upgrades_kubernetes(&bench, "1.14", Manifests::Updated).await;
}

/// How talosctl updates the bootstrap manifests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Manifests {
    /// Object by object, as before 1.13.
    Updated,
    /// By server-side apply, with an inventory that is pruned.
    Applied,
}

pub(crate) async fn upgrades_kubernetes(bench: &Bench, line: &str, manifests: Manifests) {
    let (talosctl, kubectl) = (bench.talosctl(line), bench.kubectl());
    let first = bench.node("cp-1");
    refuses(&talosctl, &first).await;
    let brought = dns_image(&kubectl).await;
    // Drift: an older CoreDNS, and a deleted object.
    kubectl.ok("-n kube-system set image deployment/coredns coredns=example.com/dns:1").await;
    kubectl.ok("-n kube-system rollout status deployment/coredns --timeout=300s").await;
    kubectl.ok("-n kube-system delete serviceaccount flannel").await;
    if manifests == Manifests::Applied {
        // An object that is no longer in the manifests.
        kubectl.ok("-n kube-system create configmap left-over").await;
        let entry = r#"{"data":{"kube-system_left-over__ConfigMap":""}}"#;
        let patch = "-n kube-system patch configmap talos-bootstrap-manifests-inventory";
        kubectl.ok(&format!("{patch} --type=merge -p {entry}")).await;
    }
    let boots = boots(bench, &talosctl).await;
    rehearsed(bench, &talosctl, &first).await;

    let upgrade = format!("-n {first} upgrade-k8s --to {TO}");
    let mut wanted = vec![
        format!("update kube-apiserver: {FROM} -> {TO}"),
        format!("update kubelet: {FROM} -> {TO}"),
    ];
    wanted.extend(match manifests {
        Manifests::Updated => vec![
            "processing manifest apps/v1.DaemonSet/kube-system/kube-proxy".to_owned(),
            "waiting for apps/v1.Deployment/kube-system/coredns".to_owned(),
        ],
        Manifests::Applied => vec![
            "< configured DaemonSet/kube-system/kube-proxy".to_owned(),
            "< configured Deployment/kube-system/coredns".to_owned(),
            "< created ServiceAccount/kube-system/flannel".to_owned(),
            "< deleted ConfigMap/kube-system/left-over".to_owned(),
            "> skipped DaemonSet/kube-system/kube-flannel: no changes".to_owned(),
        ],
    });
    let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
    // The older talosctl prints a `v` before the detected version.
    let printed = talosctl.ok(&upgrade).await.replace(&format!("v{FROM}"), FROM);
    for wanted in wanted {
        assert!(printed.contains(wanted), "talosctl {line}: no `{wanted}` in {printed}");
    }
    everything_runs(bench, &talosctl, &kubectl, TO).await;
    assert_eq!(dns_image(&kubectl).await, brought);
    kubectl.ok("-n kube-system get serviceaccount flannel").await;
    if manifests == Manifests::Applied {
        kubectl.fails("-n kube-system get configmap left-over", &["NotFound"]).await;
        let inventory =
            kubectl.get("configmap -n kube-system talos-bootstrap-manifests-inventory").await;
        let entries = inventory["data"].as_object().expect("entries");
        assert!(entries.contains_key("kube-system_coredns_apps_Deployment"), "{inventory}");
        assert!(!entries.contains_key("kube-system_left-over__ConfigMap"), "{inventory}");
    }
    // No node has rebooted.
    assert_eq!(self::boots(bench, &talosctl).await, boots);

    // A second run has nothing left to do.
    let again = talosctl.ok(&upgrade).await;
    let changes = ["< configured", "< created", "< deleted", "< applied"];
    assert!(!changes.iter().any(|change| again.contains(change)), "{again}");
    for server in [true, false] {
        talosctl.ok(&format!("health --server={server} --wait-timeout 2m")).await;
    }
}

/// Requests that talosctl refuses up front.
async fn refuses(talosctl: &Talosctl<'_>, node: &str) {
    let to = |version: &str| format!("-n {node} upgrade-k8s --to {version}");
    talosctl.fails(&to("1.36.0"), &["unsupported upgrade path 1.34->1.36"]).await;
    talosctl.fails(&to("1.33.0"), &["unsupported upgrade path 1.34->1.33"]).await;
}

/// A dry run prints the changes and makes none.
async fn rehearsed(bench: &Bench, talosctl: &Talosctl<'_>, first: &str) {
    let kubectl = bench.kubectl();
    let before = everything(bench, talosctl, &kubectl).await;
    let nodes = talosctl.version_of(first).await;
    let line = format!("-n {first} upgrade-k8s --to {TO} --dry-run");
    for talosctl in bench.each_talosctl() {
        if *talosctl.line < nodes[1..5] {
            // It does not know the components of a future Talos.
            talosctl.fails(&line, &["compatibility with version", "is not supported"]).await;
            continue;
        }
        let wanted = [
            "checking for removed Kubernetes component flags",
            "checking for removed Kubernetes API resource versions",
            "skipped in dry-run",
            "Deployment/kube-system/coredns",
            "-        image: example.com/dns:1",
        ];
        talosctl.says(&line, &wanted).await;
    }
    assert_eq!(everything(bench, talosctl, &kubectl).await, before);
    everything_runs(bench, talosctl, &kubectl, FROM).await;
}

/// Configurations and images: the changes of an upgrade.
async fn everything(
    bench: &Bench,
    talosctl: &Talosctl<'_>,
    kubectl: &Kubectl<'_>,
) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for node in bench.cluster.nodes() {
        let config = talosctl.get(&format!("-n {} kubeletspec", node.address)).await;
        found.insert(node.hostname.clone(), config[0]["spec"]["image"].clone());
    }
    for kind in ["daemonsets", "deployments"] {
        let objects = kubectl.get(&format!("{kind} -n kube-system")).await;
        for object in objects["items"].as_array().expect("objects") {
            let name = format!("{kind} {}", object["metadata"]["name"]);
            found.insert(name, object["spec"].clone());
        }
    }
    found
}

/// Every component has this version and is ready.
async fn everything_runs(
    bench: &Bench,
    talosctl: &Talosctl<'_>,
    kubectl: &Kubectl<'_>,
    version: &str,
) {
    for node in bench.cluster.nodes() {
        let object = kubectl.get(&format!("node {}", node.hostname)).await;
        assert_eq!(object["status"]["nodeInfo"]["kubeletVersion"], format!("v{version}"));
        assert!(is_ready(&object), "{object}");
        let spec = talosctl.get(&format!("-n {} kubeletspec", node.address)).await;
        let image = format!("ghcr.io/siderolabs/kubelet:v{version}");
        assert_eq!(spec[0]["spec"]["image"], image.as_str(), "{}", node.hostname);
    }
    kubectl.ok("-n kube-system rollout status daemonset/kube-proxy --timeout=300s").await;
    for component in STATIC.iter().chain(&["kube-proxy"]) {
        let pods = kubectl.get(&format!("pods -n kube-system -l k8s-app={component}")).await;
        let pods = pods["items"].as_array().expect("pods").clone();
        let wanted = if *component == "kube-proxy" { bench.cluster.nodes().len() } else { 3 };
        assert_eq!(pods.len(), wanted, "{component}");
        for pod in pods {
            let image = format!("registry.k8s.io/{component}:v{version}");
            assert_eq!(pod["spec"]["containers"][0]["image"], image.as_str(), "{pod}");
            assert!(is_ready(&pod), "{pod}");
        }
    }
    // The node itself shows the same for wanted and running pods.
    let cp = bench.node("cp-3");
    for component in STATIC {
        let pod = talosctl.get(&format!("-n {cp} staticpods {component}")).await;
        let image = pod[0]["spec"]["spec"]["containers"][0]["image"].as_str().expect("an image");
        assert!(image.ends_with(&format!(":v{version}")), "{pod:?}");
        let status = format!("-n {cp} staticpodstatus kube-system/{component}-cp-3");
        let status = talosctl.get(&status).await;
        assert!(is_ready(&serde_json::json!({"status": status[0]["spec"]})), "{status:?}");
    }
}

fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

async fn dns_image(kubectl: &Kubectl<'_>) -> Value {
    let deployment = kubectl.get("deployment -n kube-system coredns").await;
    deployment["spec"]["template"]["spec"]["containers"][0]["image"].clone()
}

/// The boot of every node, as Talos and as Kubernetes know it.
async fn boots(bench: &Bench, talosctl: &Talosctl<'_>) -> Vec<(String, Value)> {
    let mut boots = Vec::new();
    for node in bench.cluster.nodes() {
        let boot = talosctl.boot_id(&node.address.to_string()).await;
        let object = bench.kubectl().get(&format!("node {}", node.hostname)).await;
        boots.push((boot, object["status"]["nodeInfo"]["bootID"].clone()));
    }
    boots
}
