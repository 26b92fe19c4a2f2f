//! The real kubectl and the faults of Kubernetes.

use std::time::Duration;

use talos_sim::model::NodeTruth;
use testkit::cluster::pass;
use testkit::workloads::{DATABASE, web_with_budget};

use crate::bench::Bench;

async fn bench(workloads: &str) -> Bench {
    Bench::quick(1, 2, workloads).await
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_retries_after_429_but_not_after_500() {
    let bench = bench("").await;
    let kubectl = bench.kubectl();
    bench.cluster.inject("cp-1", "api-throttles=2").await.expect("a fault");
    let printed = kubectl.run("get nodes -v=6").await;
    assert_eq!(printed.code, Some(0), "{printed:#?}");
    assert!(printed.stderr.contains("429"), "{printed:#?}");
    assert!(printed.stdout.contains("worker-2"), "{printed:#?}");
    bench.cluster.clear("cp-1", "api-throttles").await.expect("the fault was cleared");
    bench.cluster.inject("cp-1", "api-errors=1").await.expect("a fault");
    kubectl.fails("get --raw /api/v1/nodes", &["Internal error occurred: a simulated fault"]).await;
    // Health checks are not affected.
    kubectl.says("get --raw /readyz", &["ok"]).await;
    bench.cluster.clear("cp-1", "api-errors").await.expect("the fault was cleared");
    kubectl.says("get nodes", &["worker-2"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_that_is_late() {
    let bench = bench("").await;
    let kubectl = bench.kubectl();
    // An hour of simulated time takes three minutes here.
    bench.cluster.inject("cp-1", "api-latency=1h").await.expect("a fault");
    let late = kubectl.run("get --raw /api/v1/nodes --request-timeout=2s").await;
    // Go has several words for it.
    let words = ["deadline exceeded", "Client.Timeout exceeded", "handshake timeout"];
    assert!(late.code == Some(1) && words.iter().any(|it| late.stderr.contains(it)), "{late:#?}");
    bench.cluster.inject("cp-1", "api-latency=2s").await.expect("a fault");
    kubectl.says("get nodes", &["worker-2"]).await;
    let mut watch = kubectl.follow("get nodes -w");
    watch.until(&["worker-2", "Ready"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_meets_a_budget_that_never_allows() {
    let bench = bench(&web_with_budget()).await;
    let kubectl = bench.kubectl();
    kubectl.ok("rollout status deployment/web --timeout=300s").await;
    let pods = kubectl.get("pods -l app=web").await;
    let node = pods["items"][0]["spec"]["nodeName"].as_str().expect("a node").to_owned();
    bench.cluster.inject(&node, "stuck-budgets").await.expect("a fault");
    kubectl.says("get pdb web", &["ALLOWED DISRUPTIONS", " 0 "]).await;
    let budget = "Cannot evict pod as it would violate the pod's disruption budget";
    kubectl.fails(&format!("drain {node} --ignore-daemonsets --timeout=20s"), &[budget]).await;
    bench.cluster.clear(&node, "stuck-budgets").await.expect("the fault was cleared");
    let drained = format!("node/{node} drained");
    kubectl.says(&format!("drain {node} --ignore-daemonsets --timeout=300s"), &[&drained]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_cannot_be_pulled() {
    let bench = bench("").await;
    let kubectl = bench.kubectl();
    for node in ["worker-1", "worker-2"] {
        bench.cluster.inject(node, "failing-image=example.com/web:2").await.expect("a fault");
    }
    let mut watch = kubectl.follow("get pods -w");
    // Its own deadline is in simulated time, and this test is slow.
    let patient = web_with_budget()
        .replace("  replicas: 2", "  progressDeadlineSeconds: 360000\n  replicas: 2");
    kubectl.ok_with("apply -f -", &patient.replace("web:1", "web:2")).await;
    watch.until(&["web-", "ErrImagePull"]).await;
    watch.until(&["web-", "ImagePullBackOff"]).await;
    kubectl.says("get events", &["Failed", "BackOff", "Back-off pulling image"]).await;
    let pods = kubectl.get("pods -l app=web").await;
    let pod = pods["items"][0]["metadata"]["name"].as_str().expect("a name").to_owned();
    let back_off = "Back-off pulling image \"example.com/web:2\"";
    kubectl.says(&format!("describe pod {pod}"), &["Events:", "Scheduled", back_off]).await;
    for node in ["worker-1", "worker-2"] {
        bench.cluster.clear(node, "failing-image").await.expect("the fault was cleared");
    }
    kubectl.ok("rollout status deployment/web --timeout=300s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_never_detaches() {
    let bench = bench(DATABASE).await;
    let kubectl = bench.kubectl();
    kubectl.ok("rollout status statefulset/db --timeout=300s").await;
    let pod = kubectl.get("pod db-0").await;
    let node = pod["spec"]["nodeName"].as_str().expect("a node").to_owned();
    bench.cluster.inject(&node, "stuck-volumes").await.expect("a fault");
    kubectl.ok(&format!("drain {node} --ignore-daemonsets --timeout=300s")).await;
    let attachment = || async {
        let found = kubectl.get("volumeattachments").await;
        let found = found["items"].as_array().expect("a list").clone();
        found.into_iter().find(|found| found["spec"]["nodeName"] == node.as_str())
    };
    let stays = attachment().await.expect("it stays");
    assert!(stays["metadata"]["deletionTimestamp"].is_string(), "{stays}");
    // Two minutes of simulated time later it is still there.
    pass(&bench.cluster, Duration::from_mins(2)).await;
    assert!(attachment().await.is_some());
    assert_eq!(kubectl.get("pod db-0").await["status"]["phase"], "Pending");
    bench.cluster.clear(&node, "stuck-volumes").await.expect("the fault was cleared");
    kubectl.ok("rollout status statefulset/db --timeout=300s").await;
    assert!(attachment().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_that_never_returns() {
    let bench = bench("").await;
    let kubectl = bench.kubectl();
    let mut watch = kubectl.follow("get nodes -w");
    watch.until(&["worker-1", " Ready"]).await;
    bench.cluster.inject("worker-1", "kubelet-never-returns").await.expect("a fault");
    let worker = bench.node("worker-1");
    let talosctl = bench.talosctl("1.13");
    let before = talosctl.boot_id(&worker).await;
    talosctl.ok(&format!("-n {worker} reboot --wait=false")).await;
    watch.until(&["worker-1", "NotReady"]).await;
    // The machine is back nevertheless, and its kubelet service is running.
    let back = move |it: NodeTruth<'_>| it.boot_id() != before && it.is_reachable();
    bench.until_node("answers again", &worker, back).await;
    let service = format!("-n {worker} get services kubelet -w -o yaml");
    talosctl.until(&service, &["running: true\n"]).await;
    talosctl.says(&format!("-n {worker} service kubelet"), &["Running"]).await;
    kubectl.says("get node worker-1", &["NotReady"]).await;
    bench.cluster.clear("worker-1", "kubelet-never-returns").await.expect("the fault was cleared");
    kubectl.ok("wait --for=condition=Ready node/worker-1 --timeout=300s").await;
    kubectl.says("describe node worker-1", &["Rebooted", "NodeNotReady", "NodeReady"]).await;
}
