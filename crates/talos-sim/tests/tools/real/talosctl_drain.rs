//! Drains with real API server, controllers and scheduler.

use crate::bench::{Bench, NODES};
use crate::talosctl_drain::{drains, drains_itself, loses_patience, options};

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_1_12_drains_itself() {
    let bench = Bench::with_real(options(&NODES[0], 5.0)).await;
    drains_itself(&bench, &bench.talosctl("1.12"), "v1.13.9").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_drains_itself_times_out() {
    let bench = Bench::with_real(options(&NODES[0], 60.0)).await;
    loses_patience(&bench, &bench.talosctl("1.13")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn talosctl_1_13_drains() {
    let bench = Bench::start_real(&NODES[1], 2).await;
    drains(&bench, &bench.talosctl("1.13")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn talosctl_1_14_drains() {
    let bench = Bench::start_real(&NODES[1], 2).await;
    drains(&bench, &bench.talosctl("1.14")).await;
}
