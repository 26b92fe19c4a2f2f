//! The cluster that one side upgrades, and the files that a user of it has.

use std::fs;
use std::path::PathBuf;

use talos_sim::cluster::{Cluster, Options, Shape};
use talos_sim::kubernetes::read_workloads;
use talos_sim::model::{NodeIndex, NodeRole, Span};

use crate::case::{Case, Product, SLOTS};
use crate::child::Runner;
use crate::floor::Takes;

/// How long a pod of the workload needs to leave, in seconds.
const LEAVES: u32 = 10;

/// The least that any pod needs beyond that; the simulator's own.
const STOPS: f64 = 0.5;

/// Two pods for each worker, half of which may be away at once: there is
/// something to drain, and nothing that holds it up.
const WORKLOADS: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: example.com/web:1
        lifecycle: {preStop: {sleep: {seconds: LEAVES}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {maxUnavailable: 50%, selector: {matchLabels: {app: web}}}
";

/// A cluster, and where its user works.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
    pub(crate) runner: Runner,
}

impl Stage {
    /// Starts a cluster for a side, in a folder of its own. Its time passes at
    /// this pace.
    pub(crate) async fn set(
        case: &Case,
        side: &str,
        seed: u64,
        pace: f64,
        folder: PathBuf,
    ) -> Result<Self, String> {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let (talos, kubernetes) = case.from();
        let shape = Shape {
            name: format!("{side}-{}", std::process::id()),
            control_planes: case.control_planes,
            workers: case.workers,
            talos: talos.clone(),
            kubernetes: kubernetes.clone(),
            seed,
        };
        let workloads = match case.workers {
            0 => Vec::new(),
            workers => {
                let replicas = (2 * workers).to_string();
                let text = WORKLOADS.replace("REPLICAS", &replicas);
                let text = text.replace("LEAVES", &LEAVES.to_string());
                read_workloads(&text).map_err(|error| error.to_string())?
            }
        };
        let shape = Some(shape);
        let options =
            Options { shape, speed: pace, own_times: true, workloads, ..Options::default() };
        let cluster = Cluster::start(options).await.map_err(|error| error.to_string())?;
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
        };
        write("talosconfig", cluster.talosconfig())?;
        write("profile.yaml", &profile(&talos.to_string(), &kubernetes.to_string()))?;
        let log = folder.join("log.txt");
        Ok(Self { cluster, runner: Runner { folder, log } })
    }

    /// What each node takes, by the simulator's own account.
    pub(crate) async fn takes(&self, product: Product) -> Result<Vec<Takes>, String> {
        let nodes = self.cluster.nodes().len();
        let taken = self.cluster.driver().visit(move |inside| {
            let world = &inside.world;
            let node = |index: usize| {
                let node = NodeIndex(index);
                let own = |span| world.own_time(node, span).map(|time| time.as_secs_f64());
                let truth = world.truth(node)?;
                let control_plane = truth.role() == NodeRole::ControlPlane;
                let reboot = match product {
                    Product::Os => world.estimate_reboot(node)?.as_secs_f64(),
                    Product::Kubernetes => 0.0,
                };
                Some(Takes {
                    control_plane,
                    drain: if control_plane { 0.0 } else { f64::from(LEAVES) + STOPS },
                    reboot,
                    pull: own(Span::Pull)?,
                    install: own(Span::Install)?,
                    static_pod: own(Span::StaticPod)?,
                    kubelet: own(Span::Kubelet)?,
                })
            };
            (0..nodes).map(node).collect::<Option<Vec<_>>>()
        });
        taken.await.flatten().ok_or_else(|| "a node of the simulator never comes back".to_owned())
    }

    /// The addresses of the nodes of a role.
    pub(crate) fn addresses(&self, role: NodeRole) -> Vec<String> {
        let nodes = self.cluster.nodes().iter().filter(|node| node.role == role);
        nodes.map(|node| node.address.to_string()).collect()
    }
}

/// A profile as a user would write one; whatever it leaves out is as shipped.
fn profile(talos: &str, kubernetes: &str) -> String {
    format!(
        "name: rollout\ntalosconfig: ./talosconfig\ntalos:\n  version: \"{talos}\"\n  \
         kubernetes_version: \"{kubernetes}\"\npolicy:\n  workers: {{max_unavailable: {SLOTS}}}\n  \
         snapshot: {{dir: ./backups}}\n"
    )
}
