//! The real talosctl and a real API server, with simulated nodes between them.

mod common;

use common::{Bench, NODES};
use talos_sim::model::EMPTY_SCHEMATIC;

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
async fn a_healthy_cluster_is_called_so_and_its_kubeconfig_works() {
    for version in &NODES {
        let bench = Bench::start_real(version, 1).await;
        let cp = bench.node("cp-2");
        for talosctl in bench.each_talosctl() {
            for (server, wanted) in [
                (true, "waiting for all control plane static pods to be running: OK"),
                (false, "waiting for all k8s nodes to report schedulable: OK"),
            ] {
                let line = format!("health --server={server} --wait-timeout 50s");
                talosctl.says(&line, &[wanted]).await;
            }
            let name = format!("kubeconfig-{}", talosctl.line);
            talosctl.ok(&format!("-n {cp} kubeconfig --merge=false ./{name}")).await;
            let kubectl = bench.kubectl().with_kubeconfig(bench.folder.path().join(&name));
            kubectl.says("get nodes", &["cp-1", "worker-1"]).await;
            kubectl.says("auth whoami", &["system:masters"]).await;
        }
        bench.cluster.stop().await;
    }
}

/// The pods of the deployment, by node.
async fn places(bench: &Bench) -> Vec<String> {
    let pods = bench.kubectl().get("pods -l app=web").await;
    let pods = pods["items"].as_array().expect("pods").clone();
    let place = |pod: &serde_json::Value| pod["spec"]["nodeName"].as_str().map(str::to_owned);
    pods.iter().filter_map(place).collect()
}

/// Has pods on both workers.
async fn deployed(nodes: usize) -> Bench {
    let bench = Bench::start_real(&NODES[nodes], 2).await;
    let kubectl = bench.kubectl();
    kubectl.ok_with("apply -f -", DEPLOYMENT).await;
    kubectl.ok("rollout status deployment/web --timeout=50s").await;
    assert!(places(&bench).await.contains(&"worker-1".to_owned()));
    bench
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_drains_the_node() {
    // Nodes of 1.12 know the old call only, and drain themselves.
    for (line, nodes, target) in
        [("1.12", 0, "v1.13.9"), ("1.13", 1, "v1.14.1"), ("1.14", 1, "v1.14.1")]
    {
        let bench = deployed(nodes).await;
        let kubectl = bench.kubectl();
        let talosctl = bench.talosctl(line);
        let worker = bench.node("worker-1");
        let mut watch = kubectl.follow("get node worker-1 -w");
        watch.until(&["worker-1", " Ready"]).await;
        let image = format!("factory.talos.dev/metal-installer/{EMPTY_SCHEMATIC}:{target}");
        talosctl.ok(&format!("-n {worker} upgrade --image {image} --wait --timeout 55s")).await;
        watch.until(&["Ready,SchedulingDisabled"]).await;
        watch.until(&["NotReady"]).await;
        talosctl.wait_for_version(&worker, target).await;
        bench.wait_until_up().await;
        let node = kubectl.get("node worker-1").await;
        assert_eq!(node["spec"]["unschedulable"], serde_json::Value::Null, "{node}");
        assert_eq!(node["status"]["nodeInfo"]["osImage"], format!("Talos ({target})"));
        if line != "1.12" {
            // Nothing moves back by itself.
            assert_eq!(places(&bench).await, ["worker-2"; 4]);
        }
        bench.cluster.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reboot_drains_the_node_if_asked_to() {
    for (line, nodes) in [("1.13", 1), ("1.14", 2)] {
        let bench = deployed(nodes).await;
        let kubectl = bench.kubectl();
        let talosctl = bench.talosctl(line);
        let worker = bench.node("worker-1");
        let mut watch = kubectl.follow("get node worker-1 -w");
        watch.until(&["worker-1", " Ready"]).await;
        talosctl.ok(&format!("-n {worker} reboot --drain --wait --timeout 55s")).await;
        watch.until(&["Ready,SchedulingDisabled"]).await;
        watch.until(&["NotReady"]).await;
        kubectl.ok("wait --for=condition=Ready node/worker-1 --timeout=50s").await;
        let node = kubectl.get("node worker-1").await;
        assert_eq!(node["spec"]["unschedulable"], serde_json::Value::Null, "{node}");
        assert_eq!(places(&bench).await, ["worker-2"; 4]);
        bench.cluster.stop().await;
    }
}
