//! A simulated cluster whose nodes register with a real control plane.

use real_control_plane::{Access, Component, ControlPlane, Options, Tools};
use talos_sim::cluster::{self, Shape};
use talos_sim::kubernetes::remote::RealApi;
use tempfile::TempDir;
use tokio::sync::{Semaphore, SemaphorePermit};
use upgrade_core::version::Version;

use super::{Bench, KUBERNETES, SPEED, timings};

impl Bench {
    /// Like [`Bench::start`], at a real control plane.
    pub(crate) async fn start_real(talos: &Version, workers: usize) -> Self {
        Self::with_real(cluster::Options {
            shape: Some(Shape {
                talos: talos.clone(),
                kubernetes: KUBERNETES,
                workers,
                ..Shape::default()
            }),
            speed: SPEED,
            timings: timings(),
            ..cluster::Options::default()
        })
        .await
    }

    /// Like [`Bench::with`], at a real control plane, and with everything up.
    pub(crate) async fn with_real(options: cluster::Options) -> Self {
        let plane = Plane::start().await;
        let real_api = Some(plane.api());
        let mut bench = Self::with(cluster::Options { real_api, ..options }).await;
        bench.plane = Some(plane);
        bench.wait_until_up().await;
        bench
    }

    /// Waits until the nodes are ready and what Talos brings along runs.
    pub(crate) async fn wait_until_up(&self) {
        let kubectl = self.kubectl();
        for node in self.cluster.nodes() {
            let name = &node.hostname;
            kubectl.ok(&format!("wait --for=create node/{name} --timeout=300s")).await;
        }
        kubectl.ok("wait --for=condition=Ready nodes --all --timeout=300s").await;
        for workload in ["daemonset/kube-proxy", "daemonset/kube-flannel", "deployment/coredns"] {
            kubectl
                .ok(&format!("-n kube-system wait --for=create {workload} --timeout=300s"))
                .await;
            kubectl.ok(&format!("-n kube-system rollout status {workload} --timeout=300s")).await;
        }
        kubectl.ok("-n kube-system wait --for=condition=Ready pods --all --timeout=300s").await;
    }
}

/// A real control plane, and where it lives.
pub(crate) struct Plane {
    pub(crate) runs: ControlPlane,
    _folder: TempDir,
    /// A machine of two cores has room for one of them.
    _turn: SemaphorePermit<'static>,
}

static TURNS: Semaphore = Semaphore::const_new(1);

impl Plane {
    /// Starts one. It is quick to notice that a node is silent.
    pub(crate) async fn start() -> Self {
        let turn = TURNS.acquire().await.expect("never closed");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("plane");
        let starting = tokio::task::spawn_blocking(|| {
            let mut options = Options::new(path, Tools::find().expect("tools"));
            let silence = "--node-monitor-grace-period=25s".to_owned();
            options.arguments.push((Component::ControllerManager, silence));
            ControlPlane::start(options)
        });
        let runs = starting.await.expect("no panic").expect("it starts");
        Self { runs, _folder: folder, _turn: turn }
    }

    /// What a cluster is told of it.
    pub(crate) fn api(&self) -> RealApi {
        let Access { url, token, authority, .. } = self.runs.access();
        RealApi { url, token_file: token, ca_file: authority }
    }
}
