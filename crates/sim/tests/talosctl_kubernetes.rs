//! The real talosctl and what it asks of Kubernetes.

mod common;

use common::{Bench, NODES};

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: 'example.com/web:1'}]
";

#[tokio::test(flavor = "multi_thread")]
async fn the_kubeconfig_of_a_node_works() {
    let bench = Bench::start(&NODES[1], 1).await;
    let cp = bench.node("cp-2");
    for talosctl in bench.each_talosctl() {
        let name = format!("kubeconfig-{}", talosctl.line);
        talosctl.ok(&format!("-n {cp} kubeconfig --merge=false ./{name}")).await;
        let path = bench.folder.path().join(&name);
        let kubectl = bench.kubectl().with_kubeconfig(path);
        kubectl.says("get nodes", &["cp-1", "worker-1"]).await;
    }
    let worker = bench.node("worker-1");
    let talosctl = bench.talosctl("1.13");
    talosctl.fails(&format!("-n {worker} kubeconfig ./none"), &["control plane"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_cluster_is_called_so() {
    for version in &NODES {
        let bench = Bench::start(version, 1).await;
        for talosctl in bench.each_talosctl() {
            for server in [true, false] {
                let line = format!("health --server={server} --wait-timeout 2m");
                let wanted = if server {
                    "waiting for all control plane static pods to be running: OK"
                } else {
                    "waiting for all k8s nodes to report schedulable: OK"
                };
                talosctl.says(&line, &[wanted]).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_drains_the_node() {
    let bench = Bench::start(&NODES[1], 2).await;
    let kubectl = bench.kubectl();
    kubectl.ok_with("apply -f -", DEPLOYMENT).await;
    kubectl.ok("rollout status deployment/web --timeout=60s").await;
    let worker = bench.node("worker-1");
    let mut watch = kubectl.follow("get node worker-1 -w");
    let talosctl = bench.talosctl("1.14");
    let image =
        format!("factory.talos.dev/metal-installer/{}:v1.14.1", talos_sim::model::EMPTY_SCHEMATIC);
    let before = talosctl.boot_id(&worker).await.expect("a boot ID");
    talosctl.ok(&format!("-n {worker} upgrade --image {image} --wait --timeout 2m")).await;
    watch.until(&["Ready,SchedulingDisabled"]).await;
    watch.until(&["NotReady"]).await;
    talosctl.reboots_into(&worker, &before, "v1.14.1").await;
    kubectl.ok("wait --for=condition=Ready node/worker-1 --timeout=60s").await;
    let node = kubectl.get("node worker-1").await;
    assert_eq!(node["spec"]["unschedulable"], serde_json::Value::Null, "{node}");
    let pods = kubectl.get("pods -l app=web").await;
    let pods = pods["items"].as_array().expect("pods");
    assert_eq!(pods.len(), 4);
    // Nothing moves back by itself.
    assert!(pods.iter().all(|pod| pod["spec"]["nodeName"] == "worker-2"), "{pods:#?}");
}
