//! Simulated clusters that run faster than real time.

use std::sync::Arc;
use std::time::Duration;

use talos_sim::clock::Clock;
use talos_sim::cluster::{Cluster, Options, Shape};
use talos_sim::model::{Range, Timings, World};

use crate::PATIENCE;

/// The speed of these clusters.
pub const SPEED: f64 = 20.0;

/// Short durations, for clusters that run at [`SPEED`].
pub fn timings() -> Timings {
    Timings {
        pull: Range::secs(1, 3),
        install: Range::secs(1, 3),
        drain: Range::secs(1, 3),
        reboot: Range::secs(10, 20),
        rejoin: Range::secs(4, 8),
        static_pod: Range::secs(1, 2),
        kubelet: Range::secs(1, 2),
        ..Timings::default()
    }
}

/// The shape of a cluster, its versions as text.
#[track_caller]
pub fn shape(
    name: &str,
    control_planes: usize,
    workers: usize,
    talos: &str,
    kubernetes: &str,
) -> Shape {
    Shape {
        name: name.to_owned(),
        control_planes,
        workers,
        talos: talos.parse().expect("a version"),
        kubernetes: kubernetes.parse().expect("a version"),
        seed: 1,
    }
}

/// Options of a fast cluster.
pub fn options(shape: Shape) -> Options {
    Options { shape: Some(shape), speed: SPEED, timings: timings(), ..Options::default() }
}

/// Starts a fast cluster with three control planes.
pub async fn simulated(name: &str, workers: usize, talos: &str, kubernetes: &str) -> Cluster {
    start(options(shape(name, 3, workers, talos, kubernetes))).await
}

/// Starts a cluster.
pub async fn start(options: Options) -> Cluster {
    Cluster::start(options).await.expect("the cluster starts")
}

/// Waits until a condition of the simulated machines holds. It reads them in this process, without
/// any tool or API.
pub async fn until(
    cluster: &Cluster,
    what: &str,
    holds: impl Fn(&World) -> bool + Send + Sync + 'static,
) {
    let holds = Arc::new(holds);
    let waiting = async {
        loop {
            let holds = Arc::clone(&holds);
            let visit = cluster.driver().visit(move |inside| holds(&inside.world));
            if visit.await.expect("the cluster runs") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(waited.is_ok(), "timed out: {what}");
}

/// Advances simulated time at once. Everything that becomes due happens, in order.
pub async fn pass(cluster: &Cluster, time: Duration) {
    // In small steps: a jump of minutes would look like a suspension of the simulator.
    let step = Duration::from_secs(1);
    let mut left = time;
    while !left.is_zero() {
        let by = left.min(step);
        left -= by;
        let visit = cluster.driver().visit(move |inside| {
            let clock = &inside.clock;
            inside.clock = Clock::starting_at(clock.now().plus(by), clock.speed());
        });
        visit.await.expect("the cluster runs");
    }
}
