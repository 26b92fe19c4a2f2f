//! The two sides: our program as a user runs it, and talosctl in a loop that
//! takes the same care.

use std::path::Path;

use talos_sim::model::{EMPTY_SCHEMATIC, NodeRole};
use tokio::sync::oneshot;

use crate::Measure;
use crate::case::{Case, Product, SLOTS};
use crate::machine::note;
use crate::record::Record;
use crate::stage::Stage;
use crate::watch;

/// Who upgrades.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    Talosctl,
}

impl Side {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Talosctl => "talosctl",
        }
    }
}

/// Lets a side upgrade a cluster, and tells what happened to the nodes.
pub(crate) async fn play(
    side: Side,
    case: &Case,
    stage: &Stage,
    measure: &Measure,
) -> Result<Record, String> {
    let (over, ended) = oneshot::channel();
    let driver = stage.cluster.driver().clone();
    let watching = watch::watch(driver, case, side.name(), ended);
    let acting = async {
        let acted = match side {
            Side::Ours => ours(case, stage, &measure.binary).await,
            Side::Talosctl => Loop { case, stage, talosctl: &measure.talosctl }.run().await,
        };
        let _ = over.send(());
        acted
    };
    let (record, acted) = tokio::join!(watching, acting);
    acted.map(|()| record).map_err(|why| format!("{case}: {}: {why}", side.name()))
}

/// One command, with a profile.
async fn ours(case: &Case, stage: &Stage, binary: &Path) -> Result<(), String> {
    let to = case.to().to_string();
    let what: [&str; 3] = match case.product {
        Product::Os => ["os", "--talos", &to],
        Product::Kubernetes => ["k8s", "--kubernetes", &to],
    };
    let args = ["upgrade", what[0], what[1], what[2], "--profile", "profile.yaml", "--yes"];
    stage.runner.run(binary, &args).await
}

/// talosctl, again and again.
struct Loop<'a> {
    case: &'a Case,
    stage: &'a Stage,
    talosctl: &'a Path,
}

impl Loop<'_> {
    async fn run(&self) -> Result<(), String> {
        let control_planes = self.stage.addresses(NodeRole::ControlPlane);
        let first = control_planes.first().map_or("", String::as_str);
        let workers = self.stage.addresses(NodeRole::Worker);
        self.health(first).await?;
        self.call(first, &["etcd", "snapshot", "etcd.db"]).await?;
        match self.case.product {
            Product::Os => {
                for node in &control_planes {
                    // The leader of etcd hands over leadership before it goes down.
                    self.call(node, &["etcd", "forfeit-leadership"]).await?;
                    self.upgrade(node).await?;
                    self.health(first).await?;
                }
                for nodes in workers.chunks(SLOTS) {
                    self.upgrade(&nodes.join(",")).await?;
                    self.health(first).await?;
                }
            }
            Product::Kubernetes => {
                let to = self.case.to().to_string();
                self.call(first, &["upgrade-k8s", "--to", &to]).await?;
                self.health(first).await?;
            }
        }
        Ok(())
    }

    /// Drains, reboots and waits, as it does by itself.
    async fn upgrade(&self, nodes: &str) -> Result<(), String> {
        let tag = self.case.to();
        let image = format!("factory.talos.dev/metal-installer/{EMPTY_SCHEMATIC}:v{tag}");
        self.call(nodes, &["upgrade", "--image", &image, "--drain", "--wait"]).await
    }

    async fn health(&self, node: &str) -> Result<(), String> {
        self.call(node, &["health"]).await
    }

    async fn call(&self, nodes: &str, args: &[&str]) -> Result<(), String> {
        note(&format!("{}: talosctl -n {nodes} {}", self.case, args.join(" ")));
        let all = [&["--talosconfig", "talosconfig", "-n", nodes], args].concat();
        self.stage.runner.run(self.talosctl, &all).await
    }
}
