//! talosctl and a real Kubernetes.

use crate::bench::{Bench, NODES};
use crate::talosctl_kubernetes::{healthy, kubeconfigs};

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_cluster_of_1_12_passes_the_health_check() {
    healthy(&Bench::start_real(&NODES[0], 1).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_cluster_of_1_13_passes_the_health_check_and_its_kubeconfig_works() {
    let bench = Bench::start_real(&NODES[1], 1).await;
    healthy(&bench).await;
    kubeconfigs(&bench).await;
    bench.kubectl().says("auth whoami", &["system:masters"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_cluster_of_1_14_passes_the_health_check() {
    healthy(&Bench::start_real(&NODES[2], 1).await).await;
}
