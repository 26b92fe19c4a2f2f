//! Watches a cluster from inside while it is upgraded.

use std::time::Duration;

use talos_sim::driver::{Driver, Inside};
use talos_sim::model::{NodeIndex, NodeRole, Time};
use tokio::sync::oneshot;
use upgrade_core::version::Version;

use crate::case::{Case, Product};
use crate::machine::note;
use crate::record::{Line, Record, Seen};

/// How often the nodes are observed, in real time.
const EVERY: Duration = Duration::from_millis(5);

/// What one observation shows.
struct Sample {
    at: Time,
    /// Nothing, if nothing has changed since the last.
    nodes: Option<Vec<Node>>,
    touched: u64,
}

struct Node {
    name: String,
    control_plane: bool,
    seen: Seen,
    upgraded: bool,
}

/// Watches until `over` says that the upgrade has ended.
pub(crate) async fn watch(
    driver: Driver,
    case: &Case,
    side: &str,
    mut over: oneshot::Receiver<()>,
) -> Record {
    let mut record = Record::default();
    let (mut began, mut touched, mut reported) = (None, None, 0);
    let nodes = case.nodes();
    loop {
        // Told before the last look, so that the look sees the end.
        let last = over.try_recv().is_ok();
        let (product, to) = (case.product, case.to());
        let sample = driver.visit(move |inside| sample(inside, nodes, product, &to, touched)).await;
        let Some(sample) = sample else { break };
        touched = Some(sample.touched);
        let began = *began.get_or_insert(sample.at);
        let at = sample.at.since(began).as_secs_f64();
        record.end = at;
        if let Some(seen) = sample.nodes {
            if record.lines.is_empty() {
                record.lines =
                    seen.iter().map(|node| Line::new(&node.name, node.control_plane)).collect();
            }
            for (line, node) in record.lines.iter_mut().zip(&seen) {
                line.see(at, node.seen);
            }
            let upgraded = seen.iter().filter(|node| node.upgraded).count();
            if upgraded > reported {
                reported = upgraded;
                note(&format!("{case}: {side}: {upgraded} of {nodes} nodes after {at:.0} s"));
            }
        }
        if last {
            break;
        }
        tokio::time::sleep(EVERY).await;
    }
    record
}

fn sample(
    inside: &Inside,
    nodes: usize,
    product: Product,
    to: &Version,
    touched: Option<u64>,
) -> Sample {
    let world = &inside.world;
    let (at, now) = (inside.clock.now(), world.touched());
    if touched == Some(now) {
        return Sample { at, nodes: None, touched: now };
    }
    let node = |index: usize| {
        let node = NodeIndex(index);
        let truth = world.truth(node)?;
        let booted = truth.downs() > 0;
        let kubelet = truth.kubelet();
        let member = truth.member().is_none_or(|member| member.healthy);
        let ready = truth.is_ready() && kubelet.ready && member;
        let seen = Seen {
            on: truth.is_on(),
            running: truth.is_running(),
            booted,
            ready,
            cordoned: world.cordon(node).is_some_and(|(_, cordoned)| cordoned),
            installing: truth.is_installing(),
            pulling: truth.is_pulling(),
            // Nothing else makes a node unready where no node reboots.
            restarting: product == Product::Kubernetes && !truth.is_ready(),
        };
        let upgraded = match product {
            Product::Os => ready && truth.installed().version == to,
            Product::Kubernetes => kubelet.version().as_ref() == Some(to),
        };
        let control_plane = truth.role() == NodeRole::ControlPlane;
        Some(Node { name: truth.hostname().to_owned(), control_plane, seen, upgraded })
    };
    Sample { at, nodes: Some((0..nodes).filter_map(node).collect()), touched: now }
}
