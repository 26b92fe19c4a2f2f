//! `upgrade-k8s` with real API server, controllers and scheduler.

use crate::bench::{Bench, NODES};
use crate::talosctl_upgrade_k8s::{Manifests, upgrades_kubernetes};

#[tokio::test(flavor = "multi_thread")]
async fn talosctl_1_12_upgrades_kubernetes() {
    let bench = Bench::start_real(&NODES[0], 1).await;
    upgrades_kubernetes(&bench, "1.12", Manifests::Updated).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn talosctl_1_13_upgrades_kubernetes() {
    let bench = Bench::start_real(&NODES[1], 1).await;
    upgrades_kubernetes(&bench, "1.13", Manifests::Applied).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn talosctl_1_14_upgrades_kubernetes() {
    let bench = Bench::start_real(&NODES[2], 1).await;
    upgrades_kubernetes(&bench, "1.14", Manifests::Applied).await;
}
