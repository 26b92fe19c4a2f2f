//! What talosctl asks of a real Kubernetes.

use crate::bench::{Bench, NODES};
use crate::talosctl_kubernetes::{healthy, kubeconfigs};

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_cluster_of_1_12_is_called_so() {
    healthy(&Bench::start_real(&NODES[0], 1).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_cluster_of_1_13_is_called_so_and_its_kubeconfig_works() {
    let bench = Bench::start_real(&NODES[1], 1).await;
    healthy(&bench).await;
    kubeconfigs(&bench).await;
    bench.kubectl().says("auth whoami", &["system:masters"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_cluster_of_1_14_is_called_so() {
    healthy(&Bench::start_real(&NODES[2], 1).await).await;
}
