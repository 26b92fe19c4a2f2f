//! Simulated clusters whose nodes register with a real control plane.

mod conformance;
mod folder;
mod kubectl_door;
mod nodes;
mod talosctl_drain;
mod talosctl_kubernetes;
mod talosctl_upgrade_k8s;

use envtest::{Access, Component, ControlPlane, Options, Tools};
use talos_sim::cluster;
use talos_sim::kubernetes::remote::RealApi;
use tempfile::TempDir;
use tokio::sync::{Semaphore, SemaphorePermit};
use upgrade_core::version::Version;

use crate::bench::{self, Bench};

impl Bench {
    /// Like [`Bench::start`], at a real control plane.
    pub(crate) async fn start_real(talos: &Version, workers: usize) -> Self {
        Self::with_real(bench::options(talos, workers)).await
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

    /// Waits until the nodes are ready and Talos's own workloads run.
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

/// A real control plane and its folder.
pub(crate) struct Plane {
    pub(crate) runs: ControlPlane,
    _folder: TempDir,
    _turn: SemaphorePermit<'static>,
}

/// A machine with two cores has room for one of them. This limits the tests of one process; a
/// runner with a process for each test must limit them itself.
static TURNS: Semaphore = Semaphore::const_new(1);

impl Plane {
    /// Starts one. It notices a silent node faster than usual, but a node may still miss one lease
    /// renewal: there is one every 10 s.
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

    /// Its address and files, as a cluster's option.
    pub(crate) fn api(&self) -> RealApi {
        let Access { url, token, authority, .. } = self.runs.access();
        RealApi { url, token_file: token, ca_file: authority }
    }
}
