//! The nodes of a simulated cluster at a real API server.

mod common;

use common::{Bench, NODES};

#[tokio::test(flavor = "multi_thread")]
async fn nodes_register_and_pods_run() {
    let bench = Bench::start_real(&NODES[1], 1).await;
    let kubectl = bench.kubectl();
    println!("{}", kubectl.ok("get nodes -o wide").await);
    println!("{}", kubectl.ok("get pods -A -o wide").await);
}
