//! A process full of clusters. The limit of open files is a process's own, and
//! ten thousand nodes listen on fifteen thousand sockets.

use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use talos_sim::cluster::{Cluster, Options, Shape};
use talos_sim::model::NodeRole;
use upgrade_controller::rlimit;

use crate::NODES;

/// The Talos that all of them run at first, and the Kubernetes.
pub(crate) const TALOS: &str = "1.12.11";
const KUBERNETES: &str = "1.34.2";

/// A cluster, as its platform knows it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ServedCluster {
    pub(crate) name: String,
    pub(crate) talosconfig: String,
    pub(crate) kubeconfig: String,
    pub(crate) nodes: Vec<Node>,
}

/// A machine of it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) control_plane: bool,
    pub(crate) address: String,
}

/// Starts clusters, tells of each in a line, and lets them live until stdin
/// ends.
pub(crate) async fn serve(first: usize, count: usize) {
    rlimit::raise_nofile_limit();
    let mut clusters = Vec::with_capacity(count);
    for number in first..first + count {
        let cluster = start(number).await;
        let served = ServedCluster {
            name: cluster.shape().name.clone(),
            talosconfig: cluster.talosconfig().to_owned(),
            kubeconfig: cluster.kubeconfig().to_owned(),
            nodes: cluster
                .nodes()
                .iter()
                .map(|node| Node {
                    name: node.hostname.clone(),
                    control_plane: node.role == NodeRole::ControlPlane,
                    address: node.address.to_string(),
                })
                .collect(),
        };
        let line = serde_json::to_string(&served).expect("text");
        if writeln!(std::io::stdout(), "{line}").is_err() {
            return;
        }
        clusters.push(cluster);
    }
    let end = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0]));
    let _ = end.await;
}

/// At the pace of real machines: what takes minutes there takes minutes here.
async fn start(number: usize) -> Cluster {
    let block = u32::try_from(number).expect("a small number") << 8;
    let subnet = Ipv4Addr::from_bits(Ipv4Addr::new(127, 160, 0, 0).to_bits() + block);
    let shape = Shape {
        name: format!("fleet-{number}"),
        control_planes: 3,
        workers: NODES - 3,
        talos: TALOS.parse().expect("a version"),
        kubernetes: KUBERNETES.parse().expect("a version"),
        seed: number as u64,
    };
    let options = Options { shape: Some(shape), subnet: Some(subnet), ..Options::default() };
    Cluster::start(options).await.expect("a cluster starts")
}
