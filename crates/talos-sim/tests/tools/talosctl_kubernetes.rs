//! The real talosctl's commands about Kubernetes.

use crate::bench::{Bench, NODES};

#[tokio::test(flavor = "multi_thread")]
async fn the_kubeconfig_of_a_node_works() {
    kubeconfigs(&Bench::start(&NODES[1], 1).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_cluster_of_1_12_passes_the_health_check() {
    healthy(&Bench::start(&NODES[0], 1).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_cluster_of_1_13_passes_the_health_check() {
    healthy(&Bench::start(&NODES[1], 1).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_cluster_of_1_14_passes_the_health_check() {
    healthy(&Bench::start(&NODES[2], 1).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_not_ready_is_found() {
    let bench = Bench::start(&NODES[1], 1).await;
    bench.cluster.inject("worker-1", "not-ready").await.expect("a fault");
    for talosctl in bench.each_talosctl() {
        for server in [true, false] {
            let line = format!("health --server={server} --wait-timeout 3s");
            talosctl.fails(&line, &["all k8s nodes to report ready"]).await;
        }
    }
}

pub(crate) async fn kubeconfigs(bench: &Bench) {
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

pub(crate) async fn healthy(bench: &Bench) {
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
