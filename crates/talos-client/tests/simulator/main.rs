//! The client against the simulator, two independent implementations, over real sockets and real
//! TLS. Where they disagree, one of them is wrong about Talos.

mod config;
mod errors;
mod etcd;
mod events;
mod images;
mod installing;
mod reading;
mod resources;
mod upgrading;
mod watching;

use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use talos_client::deadline::Deadlines;
use talos_client::resources::MachineStatus;
use talos_client::{Client, Failure, Node, Talosconfig};
use talos_sim::clock::wall_time;
use talos_sim::cluster::{Cluster, NodePlace, Options, Shape};
use talos_sim::control::Ask;
use talos_sim::model::{NodeIndex, Range, Schematic, Timings};
use talos_sim::pki::Identity;
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;
use upgrade_core::snapshot::MemberId;

/// The newest patches of three minors: the last with the legacy upgrade call, the first with the
/// lifecycle API, and the newest.
const TALOS_1_12: &str = "1.12.11";
const TALOS_1_13: &str = "1.13.9";
const TALOS_1_14: &str = "1.14.1";

/// A Kubernetes version that all three support.
const KUBERNETES: &str = "1.34.2";

/// Virtual seconds per second: a reboot takes less than a real second.
const SPEED: f64 = 100.0;

/// Very slow, to observe states that would otherwise pass too quickly.
const SLOW: f64 = 0.01;

/// The limit for everything that is expected to happen.
const SOON: Duration = Duration::from_secs(90);

/// Creates a test for each version from a function.
macro_rules! each_version {
    ($($test:ident),+ $(,)?) => {
        $(mod $test {
            #[tokio::test]
            async fn talos_1_12() {
                super::$test(crate::TALOS_1_12).await;
            }

            #[tokio::test]
            async fn talos_1_13() {
                super::$test(crate::TALOS_1_13).await;
            }

            #[tokio::test]
            async fn talos_1_14() {
                super::$test(crate::TALOS_1_14).await;
            }
        })+
    };
}
use each_version;

/// Short enough for tests, long enough for a busy machine.
fn deadlines() -> Deadlines {
    Deadlines {
        connect: Duration::from_secs(20),
        attempt: Duration::from_secs(20),
        read: Duration::from_secs(40),
        act: Duration::from_secs(40),
        progress_idle: SOON,
        data_idle: SOON,
        follow_idle: SOON,
        watch_idle: SOON,
        ..Deadlines::default()
    }
}

/// Parses a talosconfig and returns its context.
fn context(talosconfig: &str) -> talos_client::Context {
    let config = Talosconfig::parse(talosconfig.as_bytes(), "test").expect("a talosconfig");
    config.context(None).expect("a context")
}

/// A cluster and an admin client.
struct World {
    cluster: Arc<Cluster>,
    client: Client,
}

impl World {
    /// A cluster for one test. `name` also selects its address range.
    async fn start(name: &str, talos: &str, control_planes: usize, workers: usize) -> Self {
        let shape = Shape {
            name: format!("{name}-{}", talos.replace('.', "-")),
            control_planes,
            workers,
            talos: talos.parse().expect("a version"),
            kubernetes: KUBERNETES.parse().expect("a version"),
            seed: 1,
        };
        Self::of(shape).await
    }

    async fn of(shape: Shape) -> Self {
        let cluster = start(shape).await;
        Self::new(Arc::new(cluster))
    }

    /// One shared cluster per version for tests that only read.
    async fn shared(talos: &str) -> Self {
        static RUNTIME: LazyLock<Runtime> =
            LazyLock::new(|| Runtime::new().expect("a runtime that outlives every test"));
        static CLUSTERS: [OnceCell<Arc<Cluster>>; 3] = [const { OnceCell::const_new() }; 3];
        let place = [TALOS_1_12, TALOS_1_13, TALOS_1_14].iter().position(|known| *known == talos);
        let cluster = CLUSTERS[place.expect("a known version")].get_or_init(|| async {
            let shape = Shape {
                name: format!("shared-{}", talos.replace('.', "-")),
                control_planes: 3,
                workers: 1,
                talos: talos.parse().expect("a version"),
                kubernetes: KUBERNETES.parse().expect("a version"),
                seed: 1,
            };
            Arc::new(RUNTIME.spawn(start(shape)).await.expect("no panic"))
        });
        Self::new(Arc::clone(cluster.await))
    }

    fn new(cluster: Arc<Cluster>) -> Self {
        let context = context(cluster.talosconfig());
        let client = Client::with_deadlines(&context, deadlines()).expect("usable credentials");
        Self { cluster, client }
    }

    fn place(&self, name: &str) -> &NodePlace {
        let nodes = self.cluster.nodes();
        nodes.iter().find(|node| node.hostname == name).expect("a node of that name")
    }

    /// The node with this host name, addressed by IP.
    fn node(&self, name: &str) -> Node {
        self.client.node(self.place(name).address.into())
    }

    /// A client with another role.
    fn client_as(&self, role: &str) -> Client {
        let talosconfig = self.talosconfig_as(&Identity::new(role, wall_time()));
        Client::with_deadlines(&context(&talosconfig), deadlines()).expect("usable credentials")
    }

    fn talosconfig_as(&self, identity: &Identity) -> String {
        self.cluster.talosconfig_for(identity).expect("a certificate")
    }

    async fn inject(&self, node: &str, fault: &str) {
        self.cluster.inject(node, fault).await.expect("a fault");
    }

    async fn clear(&self, node: &str, fault: &str) {
        self.cluster.clear(node, fault).await.expect("a fault");
    }

    /// Changes the speed of time.
    async fn speed(&self, speed: f64) {
        self.cluster.ask(Ask::Speed(speed)).await.expect("a speed");
    }

    /// Registers a schematic with the Image Factory, and returns its ID.
    async fn schematic(&self, extensions: &[&str]) -> String {
        let id = "5c".repeat(32);
        let schematic = Schematic {
            yaml: "customization: {}\n".to_owned(),
            extensions: extensions.iter().map(|name| (*name).to_owned()).collect(),
        };
        let known = id.clone();
        let visit = self.cluster.driver().visit(move |inside| {
            inside.world.add_schematic(known, schematic);
        });
        visit.await.expect("a cluster that runs");
        id
    }

    /// The version that the simulator reports for a node.
    async fn running(&self, name: &str) -> String {
        let index = self.cluster.nodes().iter().position(|node| node.hostname == name);
        let index = NodeIndex(index.expect("a node"));
        let running = self
            .cluster
            .driver()
            .visit(move |inside| inside.world.talos_version(index).map(ToString::to_string));
        running.await.flatten().expect("a version")
    }

    /// The host names of the etcd leader and of another control plane.
    async fn leader(&self) -> (String, String) {
        let asked = self.node("cp-1");
        let leader = asked.etcd_status().await.unwrap().leader.expect("a leader");
        let members = asked.etcd_members(talos_client::etcd::MemberView::Agreed).await.unwrap();
        let name = |leads: bool| {
            let member = members.iter().find(|member| (member.id == leader) == leads);
            member.expect("a member").hostname.clone()
        };
        (name(true), name(false))
    }
}

async fn start(shape: Shape) -> Cluster {
    // Shorter than in reality; longer waits would show nothing more.
    let timings = Timings {
        pull: Range::secs(10, 20),
        install: Range::secs(5, 10),
        drain: Range::secs(5, 10),
        reboot: Range::secs(20, 30),
        rejoin: Range::secs(20, 30),
        ..Timings::default()
    };
    let options = Options { shape: Some(shape), speed: SPEED, timings, ..Options::default() };
    Cluster::start(options).await.expect("a cluster")
}

/// Waits until a node has a boot ID other than `before`, runs and is ready. In this order: a node
/// that is up may not have gone down yet.
async fn back_up(node: &Node, before: &str) {
    let give_up = tokio::time::Instant::now() + SOON;
    while node.boot_id().await.map_or(true, |now| now == before) {
        assert!(tokio::time::Instant::now() < give_up, "the node did not reboot");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut watch = node.watch::<MachineStatus>();
    watch
        .wait_for(SOON, |watch| watch.get("machine").is_some_and(|it| it.spec.is_up()))
        .await
        .expect("a node that comes up");
}

/// The etcd members on which the cluster agrees.
async fn member_ids(node: &Node) -> Vec<MemberId> {
    let members = node.etcd_members(talos_client::etcd::MemberView::Agreed).await.unwrap();
    members.into_iter().map(|member| member.id).collect()
}

/// The gRPC code of an unclassified failure.
fn code(failure: &Failure) -> Option<tonic::Code> {
    match failure {
        Failure::Status { code, .. } => Some(*code),
        _ => None,
    }
}

/// The error with all of its sources.
fn all_of(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = format!("{error:?}\n{error}");
    let mut source = error.source();
    while let Some(error) = source {
        let _ = write!(text, "\n{error:?}\n{error}");
        source = error.source();
    }
    text
}
