//! What simulated clusters cost, all with their Kubernetes API and kubelets.
//!
//! Two tables: 1, 10, 100 and 1,000 clusters of ten nodes in one process, and
//! one cluster of 10, 100 and 1,000 nodes. Requests go to the model in memory,
//! or over sockets (real mTLS on loopback, the client in the same process).
//! Every row is a process of its own, so that memory is its own too.

mod api;

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

/// The nodes of a cluster where there are many clusters.
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

/// Starts a cluster with addresses of its own: looking for free ones is not
/// measured.
async fn start(seed: usize, nodes: usize) -> Cluster {
    let block = u32::try_from(seed).expect("a small number") << 8;
    let subnet = Ipv4Addr::from_bits(Ipv4Addr::new(127, 200, 0, 0).to_bits() + block);
    let shape =
        Shape { control_planes: 3, workers: nodes - 3, seed: seed as u64, ..Shape::default() };
    // One that is larger than a block looks for its own.
    let subnet = (nodes < 200).then_some(subnet);
    let options = Options { shape: Some(shape), subnet, speed: 20.0, ..Options::default() };
    Cluster::start(options).await.expect("a cluster starts")
}

/// Memory since `before`, after every world has run for a while: rings fill,
/// members write, and data that is not in use is released.
async fn settled(before: Option<f64>) -> Option<f64> {
    tokio::time::sleep(Duration::from_secs(4)).await;
    resident().zip(before).map(|(after, before)| after - before)
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

fn mib(value: Option<f64>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |value| format!("{value:.0} MiB"))
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its table")]
async fn many_clusters(count: usize) {
    let before = resident();
    let began = now();
    let mut clusters = Vec::with_capacity(count);
    for seed in 0..count {
        clusters.push(start(seed, NODES).await);
    }
    let started = began.elapsed();
    let memory = settled(before).await;
    let model = in_memory(&clusters[0]).await;
    let sockets = over_sockets(&clusters).await;
    #[expect(clippy::cast_precision_loss, reason = "a thousand clusters fit")]
    let each = memory.map(|memory| memory / count as f64 * 1024.0);
    println!(
        "{count:>8}  {:>8}  {:>9}  {:>11}  {model:>12.0}  {sockets:>12.0}  {started:>8.1?}",
        count * NODES,
        mib(memory),
        each.map_or_else(|| "unknown".to_owned(), |each| format!("{each:.0} KiB")),
    );
    if let (1_000, Some(memory)) = (count, memory) {
        println!("          {:.2} of the 1.5 GiB allowed", memory / 1536.0);
    }
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its table")]
async fn one_cluster(nodes: usize) {
    let before = resident();
    let began = now();
    let cluster = start(0, nodes).await;
    let started = began.elapsed();
    let memory = settled(before).await;
    let door = api::Door::of(&cluster);
    let get = door.gets(COUNTED).await;
    let list = door.lists(COUNTED).await;
    let patch = door.patches(COUNTED).await;
    let fan_out = door.fan_out(COUNTED).await;
    println!(
        "{nodes:>8}  {:>9}  {started:>8.1?}  {get:>8.0}  {list:>8.1}  {patch:>8.0}  {fan_out:>9.0}",
        mib(memory),
    );
    #[expect(clippy::cast_precision_loss, reason = "a thousand nodes fit")]
    let shown = list * nodes as f64;
    println!("          {:.1} nodes listed in the time of one get", shown / get);
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its table")]
fn main() {
    let mut args = std::env::args().skip(1);
    if let (Some(table), Some(count)) = (args.next(), args.next()) {
        let count = count.parse().expect("a number");
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        match table.as_str() {
            "clusters" => runtime.block_on(many_clusters(count)),
            _ => runtime.block_on(one_cluster(count)),
        }
        return;
    }
    let program = std::env::current_exe().expect("this program");
    let run = |arguments: [&str; 2]| {
        let status = Command::new(&program).args(arguments).status().expect("this program runs");
        assert!(status.success(), "the row of {arguments:?} failed: {status}");
    };
    println!("clusters of {NODES} nodes with Kubernetes, one process a row; time runs 20 times");
    println!("as fast; requests are Version calls: to the model on one core, and over sockets");
    println!("to up to {TALKING} clusters at once\n");
    println!(
        "{:>8}  {:>8}  {:>9}  {:>11}  {:>12}  {:>12}  {:>8}",
        "clusters", "nodes", "memory", "a cluster", "model req/s", "socket req/s", "start"
    );
    for count in ["1", "10", "100", "1000"] {
        run(["clusters", count]);
    }
    println!("\none cluster; requests a second to its Kubernetes API over sockets: get a node,");
    println!("list all nodes, patch a label, and events delivered to {} watches\n", api::WATCHES);
    println!(
        "{:>8}  {:>9}  {:>8}  {:>8}  {:>8}  {:>8}  {:>9}",
        "nodes", "memory", "start", "get/s", "list/s", "patch/s", "events/s"
    );
    for count in ["10", "100", "1000"] {
        run(["nodes", count]);
    }
}
