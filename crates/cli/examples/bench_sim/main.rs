//! What simulated clusters cost: memory and requests a second for 1, 10, 100
//! and 1,000 clusters of ten nodes in one process.
//!
//! Two doors to the same model are measured: in memory, and over sockets (real
//! mTLS and gRPC on loopback, our own client on the other side, in the same
//! process). Every row is a process of its own, so that memory is its own too.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::{Duration, Instant};

use talos_client::{Client, Talosconfig};
use talos_sim::cluster::{Cluster, Options, Shape};
use talos_sim::model::{Caller, NodeIndex, Reply, Request, World};

/// How many clusters are talked to at once; more only measures the scheduler.
const TALKING: usize = 16;

/// How long each kind of request is counted.
const COUNTED: Duration = Duration::from_secs(2);

const NODES: usize = 10;

#[expect(clippy::disallowed_methods, reason = "a benchmark is about time")]
fn now() -> Instant {
    Instant::now()
}

/// Resident memory of this process in MiB, where the system tells.
fn resident() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024.0)
}

fn shape(seed: u64) -> Shape {
    Shape { control_planes: 3, workers: NODES - 3, seed, ..Shape::default() }
}

/// Requests a second to the model itself, on one core.
async fn in_memory(cluster: &Cluster) -> f64 {
    let visited = cluster.driver().visit(|inside| {
        let mut world: World = inside.world.clone();
        let caller = Caller::admin();
        let began = now();
        let mut count = 0_u32;
        while began.elapsed() < COUNTED {
            for node in 0..NODES {
                let at = world.now();
                let reply = world.request(at, NodeIndex(node), &caller, Request::Version);
                assert!(matches!(reply, Reply::Unary(_)));
                count += 1;
            }
        }
        f64::from(count) / began.elapsed().as_secs_f64()
    });
    visited.await.expect("the cluster runs")
}

/// Requests a second over sockets, all talking clusters together.
async fn over_sockets(clusters: &[Cluster]) -> f64 {
    let began = now();
    let mut tasks = tokio::task::JoinSet::new();
    for cluster in clusters.iter().take(TALKING) {
        let config =
            Talosconfig::parse(cluster.talosconfig().as_bytes(), "bench").expect("a talosconfig");
        let client = Client::new(&config.context(None).expect("a context")).expect("a client");
        let nodes: Vec<_> = cluster
            .nodes()
            .iter()
            .map(|place| client.node(place.address.to_string().parse().expect("an address")))
            .collect();
        tasks.spawn(async move {
            let mut count = 0_u32;
            while began.elapsed() < COUNTED {
                for node in &nodes {
                    node.version().await.expect("a version");
                    count += 1;
                }
            }
            count
        });
    }
    let counts = tasks.join_all().await;
    f64::from(counts.into_iter().sum::<u32>()) / began.elapsed().as_secs_f64()
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its table")]
async fn row(count: usize, nodes_only: bool) {
    let before = resident();
    let began = now();
    let mut clusters = Vec::with_capacity(count);
    for seed in 0..count {
        // A block each from the start: looking for free ones is not measured.
        let block = u32::try_from(seed).expect("a small number") << 8;
        let subnet = Ipv4Addr::from_bits(Ipv4Addr::new(127, 200, 0, 0).to_bits() + block);
        let options = Options {
            shape: Some(shape(seed as u64)),
            subnet: Some(subnet),
            speed: 20.0,
            nodes_only,
            ..Options::default()
        };
        clusters.push(Cluster::start(options).await.expect("a cluster starts"));
    }
    let started = began.elapsed();
    // Let every world live for a while: rings fill, members write.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let memory = resident().zip(before).map(|(after, before)| after - before);
    let model = in_memory(&clusters[0]).await;
    let sockets = over_sockets(&clusters).await;
    let mib = |value: f64| format!("{value:.0} MiB");
    #[expect(clippy::cast_precision_loss, reason = "a thousand clusters fit")]
    let each = memory.map(|memory| memory / count as f64 * 1024.0);
    println!(
        "{count:>8}  {:>8}  {:>9}  {:>11}  {:>12.0}  {:>12.0}  {:>8.1?}",
        count * NODES,
        memory.map_or_else(|| "unknown".to_owned(), mib),
        each.map_or_else(|| "unknown".to_owned(), |each| format!("{each:.0} KiB")),
        model,
        sockets,
        started,
    );
    if let (1_000, true, Some(memory)) = (count, nodes_only, memory) {
        println!("          {:.2} of the 1.5 GiB allowed", memory / 1536.0);
    }
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its table")]
fn main() {
    let mut args = std::env::args().skip(1);
    if let Some(count) = args.next().and_then(|count| count.parse().ok()) {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(row(count, args.next().is_none()));
        return;
    }
    println!("clusters of {NODES} nodes, one process a row; requests are Version calls");
    println!("in memory: one core; sockets: up to {TALKING} clusters talk at once\n");
    println!(
        "{:>8}  {:>8}  {:>9}  {:>11}  {:>12}  {:>12}  {:>8}",
        "clusters", "nodes", "memory", "a cluster", "model req/s", "socket req/s", "start"
    );
    let program = std::env::current_exe().expect("this program");
    let run = |arguments: &[&str]| {
        let status = Command::new(&program).args(arguments).status().expect("this program runs");
        assert!(status.success(), "the row of {arguments:?} failed: {status}");
    };
    println!("nodes alone");
    for count in ["1", "10", "100", "1000"] {
        run(&[count]);
    }
    println!("with the objects of Kubernetes");
    for count in ["1", "10"] {
        run(&[count, "kubernetes"]);
    }
}
