//! A simulated cluster for the real tools, and a folder for their files.

use std::path::PathBuf;

use talos_sim::cluster::{Cluster, Options, Shape};
use talos_sim::kubernetes::read_workloads;
use talos_sim::model::{NodeTruth, Range, Timings, World};
use talos_sim::pki::Identity;
use tempfile::TempDir;
use testkit::cluster::SPEED;
use testkit::tool;
use upgrade_core::version::Version;

use crate::kubectl::Kubectl;
use crate::real::Plane;
use crate::talosctl::Talosctl;

/// The version of the nodes in each release line.
pub(crate) const NODES: [Version; 3] =
    [Version::new(1, 12, 11), Version::new(1, 13, 9), Version::new(1, 14, 1)];

pub(crate) const KUBERNETES: Version = Version::new(1, 34, 2);

/// Durations for nodes whose reboots talosctl follows with `--wait`. It pauses for a second when a
/// reboot begins and then asks only for new events, so a node must be down for longer than a second
/// of real time. Two seconds at [`SPEED`], because on a busy machine that pause is longer.
pub(crate) fn timings() -> Timings {
    Timings {
        reboot: Range::secs(44, 50),
        rejoin: Range::secs(8, 12),
        ..testkit::cluster::timings()
    }
}

/// Options of a cluster with this Talos and three control planes, whose reboots a talosctl can
/// follow.
pub(crate) fn options(talos: &Version, workers: usize) -> Options {
    Options {
        shape: Some(Shape {
            talos: talos.clone(),
            kubernetes: KUBERNETES,
            workers,
            ..Shape::default()
        }),
        speed: SPEED,
        timings: timings(),
        ..Options::default()
    }
}

/// A running cluster, its talosconfig and its kubeconfig.
pub(crate) struct Bench {
    pub(crate) cluster: Cluster,
    pub(crate) folder: TempDir,
    /// The real control plane that its nodes register with, if there is one.
    /// Dropped after the cluster.
    pub(crate) plane: Option<Plane>,
}

impl Bench {
    /// See [`options`].
    pub(crate) async fn start(talos: &Version, workers: usize) -> Self {
        Self::with(options(talos, workers)).await
    }

    /// A cluster whose nodes reboot too quickly for a talosctl that waits, with these workloads.
    pub(crate) async fn quick(control_planes: usize, workers: usize, workloads: &str) -> Self {
        Self::with(Options {
            shape: Some(Shape {
                kubernetes: KUBERNETES,
                control_planes,
                workers,
                ..Shape::default()
            }),
            speed: SPEED,
            timings: testkit::cluster::timings(),
            workloads: read_workloads(workloads).expect("workloads"),
            ..Options::default()
        })
        .await
    }

    pub(crate) async fn with(options: Options) -> Self {
        let cluster = testkit::cluster::start(options).await;
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("talosconfig"), cluster.talosconfig()).expect("written");
        std::fs::write(folder.path().join("kubeconfig"), cluster.kubeconfig()).expect("written");
        Self { cluster, folder, plane: None }
    }

    /// The value of `--nodes` for a node, by its name.
    pub(crate) fn node(&self, hostname: &str) -> String {
        let nodes = self.cluster.nodes();
        let node = nodes.iter().find(|node| node.hostname == hostname);
        node.expect("a node of that name").address.to_string()
    }

    /// Waits, without any tool, until a condition of the machines holds.
    pub(crate) async fn until(
        &self,
        what: &str,
        holds: impl Fn(&World) -> bool + Send + Sync + 'static,
    ) {
        testkit::cluster::until(&self.cluster, what, holds).await;
    }

    /// The same for one machine, by its address.
    pub(crate) async fn until_node(
        &self,
        what: &str,
        node: &str,
        holds: impl Fn(NodeTruth<'_>) -> bool + Send + Sync + 'static,
    ) {
        let address = node.to_owned();
        let check = move |world: &World| {
            world.find(&address).and_then(|index| world.truth(index)).is_some_and(&holds)
        };
        self.until(&format!("{node} {what}"), check).await;
    }

    /// A file with a talosconfig for another identity.
    pub(crate) fn talosconfig(&self, name: &str, identity: &Identity) -> PathBuf {
        let text = self.cluster.talosconfig_for(identity).expect("a talosconfig");
        self.file(name, &text)
    }

    /// A file in the test's folder.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    }

    /// A talosctl that uses this cluster's talosconfig.
    pub(crate) fn talosctl(&self, line: &str) -> Talosctl<'_> {
        let path = tool(&format!("talosctl-{line}"));
        Talosctl { path, line: line.to_owned(), bench: self }
    }

    /// One of each release line.
    pub(crate) fn each_talosctl(&self) -> Vec<Talosctl<'_>> {
        ["1.12", "1.13", "1.14"].map(|line| self.talosctl(line)).into()
    }

    /// A kubectl with the cluster's administrator kubeconfig.
    pub(crate) fn kubectl(&self) -> Kubectl<'_> {
        let kubeconfig = self.folder.path().join("kubeconfig");
        Kubectl { path: tool("kubectl"), kubeconfig, bench: self }
    }
}
