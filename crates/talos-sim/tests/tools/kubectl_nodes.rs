//! The real kubectl and nodes: reading, cordoning, draining, and their status in Talos meanwhile.

use testkit::workloads::web_held;

use crate::bench::Bench;

async fn bench(workloads: &str) -> Bench {
    Bench::quick(3, 2, workloads).await
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_shown() {
    let bench = bench("").await;
    let kubectl = bench.kubectl();
    let nodes = kubectl.ok("get nodes").await;
    assert_eq!(nodes.lines().count(), 6, "{nodes}");
    let head: Vec<&str> = nodes.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(head, ["NAME", "STATUS", "ROLES", "AGE", "VERSION"], "{nodes}");
    let first: Vec<&str> = nodes.lines().nth(1).unwrap_or_default().split_whitespace().collect();
    assert_eq!(first[..3], ["cp-1", "Ready", "control-plane"], "{nodes}");
    assert_eq!(first[4], "v1.34.2", "{nodes}");
    let address = bench.node("worker-2");
    kubectl.says("get nodes -o wide", &["INTERNAL-IP", "OS-IMAGE", "Talos (v1.", &address]).await;
    kubectl.says("get node worker-1 -o name", &["node/worker-1"]).await;
    let node = kubectl.get("node cp-2").await;
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], "cp-2");
    kubectl
        .says(
            "describe node cp-1",
            &["Taints:", "node-role.kubernetes.io/control-plane:NoSchedule", "kube-apiserver-cp-1"],
        )
        .await;
    kubectl
        .says("describe pod -n kube-system kube-apiserver-cp-1", &["Status:", "Running", "cp-1/"])
        .await;
    kubectl.fails("get node nobody", &["(NotFound): nodes \"nobody\" not found"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reboot_is_visible_in_a_watch() {
    let bench = bench("").await;
    let kubectl = bench.kubectl();
    let mut watch = kubectl.follow("get nodes -w");
    watch.until(&["worker-2", "Ready"]).await;
    let worker = bench.node("worker-1");
    bench.talosctl("1.13").ok(&format!("-n {worker} reboot --wait=false")).await;
    watch.until(&["worker-1", "NotReady"]).await;
    watch.until(&["worker-1", " Ready"]).await;
    // A node that is cut off is as silent as one that is down.
    bench.cluster.inject("worker-1", "partition").await.expect("a fault");
    watch.until(&["worker-1", "NotReady"]).await;
    bench.cluster.clear("worker-1", "partition").await.expect("the fault was cleared");
    watch.until(&["worker-1", " Ready"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cordon_is_visible_in_talos_too() {
    let bench = bench("").await;
    let kubectl = bench.kubectl();
    let talosctl = bench.talosctl("1.13");
    let worker = bench.node("worker-1");
    kubectl.says("cordon worker-1", &["node/worker-1 cordoned"]).await;
    kubectl.says("get nodes", &["Ready,SchedulingDisabled"]).await;
    let status = talosctl.get(&format!("-n {worker} nodestatuses worker-1")).await;
    assert_eq!(status[0]["spec"]["unschedulable"], true);
    kubectl.says("cordon worker-1", &["already cordoned"]).await;
    kubectl.says("uncordon worker-1", &["node/worker-1 uncordoned"]).await;
    let status = talosctl.get(&format!("-n {worker} nodestatuses worker-1")).await;
    assert_eq!(status[0]["spec"]["unschedulable"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_meets_a_budget() {
    let bench = bench(&web_held()).await;
    let kubectl = bench.kubectl();
    kubectl.ok("rollout status deployment/web --timeout=300s").await;
    let pods = kubectl.get("pods -l app=web").await;
    let node = pods["items"][0]["spec"]["nodeName"].as_str().expect("a node").to_owned();
    kubectl
        .fails(
            &format!("drain {node} --ignore-daemonsets --timeout=20s"),
            &["Cannot evict pod as it would violate the pod's disruption budget"],
        )
        .await;
    kubectl.ok("patch pdb web -p '{\"spec\":{\"minAvailable\":1}}'").await;
    let drained = format!("node/{node} drained");
    kubectl.says(&format!("drain {node} --ignore-daemonsets --timeout=300s"), &[&drained]).await;
    kubectl.ok("rollout status deployment/web --timeout=300s").await;
    let pods = kubectl.get("pods -l app=web").await;
    for pod in pods["items"].as_array().expect("pods") {
        assert_ne!(pod["spec"]["nodeName"], node.as_str(), "{pod}");
    }
    kubectl.ok(&format!("uncordon {node}")).await;
}
