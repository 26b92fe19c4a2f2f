//! A simulated cluster whose nodes register with a real control plane.

use real_control_plane::{Access, ControlPlane, Tools};
use talos_sim::cluster::{Options, Shape};
use talos_sim::kubernetes::remote::RealApi;
use upgrade_core::version::Version;

use super::{Bench, KUBERNETES, SPEED, timings};

impl Bench {
    /// Like [`Bench::start`], at a real control plane.
    pub(crate) async fn start_real(talos: &Version, workers: usize) -> Self {
        Self::with_real(Options {
            shape: Some(Shape {
                talos: talos.clone(),
                kubernetes: KUBERNETES,
                workers,
                ..Shape::default()
            }),
            speed: SPEED,
            timings: timings(),
            ..Options::default()
        })
        .await
    }

    /// Like [`Bench::with`], at a real control plane, and with everything up.
    pub(crate) async fn with_real(options: Options) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let plane = control_plane(folder.path().join("plane")).await;
        let real_api = Some(real_api(&plane.access()));
        let mut bench = Self::with(Options { real_api, ..options }).await;
        // The control plane needs its folder for as long as it runs.
        bench.plane = Some((plane, folder));
        bench.wait_until_up().await;
        bench
    }

    /// Waits until the nodes are ready and what Talos brings along runs.
    pub(crate) async fn wait_until_up(&self) {
        let kubectl = self.kubectl();
        for node in self.cluster.nodes() {
            let name = &node.hostname;
            kubectl.ok(&format!("wait --for=create node/{name} --timeout=60s")).await;
        }
        kubectl.ok("wait --for=condition=Ready nodes --all --timeout=60s").await;
        for workload in ["daemonset/kube-proxy", "daemonset/kube-flannel", "deployment/coredns"] {
            kubectl.ok(&format!("-n kube-system rollout status {workload} --timeout=60s")).await;
        }
        kubectl.ok("-n kube-system wait --for=condition=Ready pods --all --timeout=60s").await;
    }
}

/// A real control plane that is ready.
pub(crate) async fn control_plane(folder: impl Into<std::path::PathBuf>) -> ControlPlane {
    let folder = folder.into();
    let starting = tokio::task::spawn_blocking(|| {
        let tools = Tools::find().expect("tools");
        ControlPlane::start(real_control_plane::Options::new(folder, tools))
    });
    starting.await.expect("no panic").expect("the control plane starts")
}

/// What a cluster is told of it.
pub(crate) fn real_api(access: &Access) -> RealApi {
    let Access { url, token, authority, .. } = access.clone();
    RealApi { url, token_file: token, ca_file: authority }
}
