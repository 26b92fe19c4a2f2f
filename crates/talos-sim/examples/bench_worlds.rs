//! The memory and time of whole clusters, without sockets: creating one, cloning it, twenty idle
//! minutes, and a worker that is drained and rebooted. The deterministic simulation does this a
//! hundred thousand times.
//!
//! Every number is the fastest of several rounds of this run, so that other load on the machine
//! matters little; the ratios compare the cost per node with the first shape. With two numbers as
//! arguments it measures only that many control planes and workers.

use std::time::{Duration, Instant};

use kube_sim::names::{NODES, PODS};
use kube_sim::{Method, object};
use serde_json::json;
use talos_proto::machine;
use talos_sim::kubernetes::{Kubernetes, read_workloads};
use talos_sim::model::{Caller, ClusterSpec, NodeIndex, Reply, Request, Time, World};
use upgrade_core::version::Version;

const ROUNDS: usize = 9;
const START: Time = Time::from_secs(1_800_000_000);
const IDLE: Duration = Duration::from_mins(20);

const WORKLOADS: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: 'example.com/web:1'}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: default}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
";

#[derive(Clone)]
struct Both {
    world: World,
    kubernetes: Kubernetes,
    now: Time,
    events: usize,
}

impl Both {
    fn new(control_planes: usize, workers: usize) -> Self {
        let (talos, kubernetes) = (Version::new(1, 13, 9), Version::new(1, 36, 1));
        let spec = ClusterSpec::new(control_planes, workers, &talos, &kubernetes);
        let world = World::new(&spec, 0, START);
        let workloads = read_workloads(WORKLOADS).expect("workloads");
        let kubernetes = Kubernetes::brief(&world, 0, &workloads).expect("a cluster");
        Self { world, kubernetes, now: START, events: 0 }
    }

    fn next(&self) -> Option<Time> {
        let next = [self.world.next_event(), self.kubernetes.next_event(&self.world)];
        next.into_iter().flatten().min()
    }

    /// Advances time, from one event to the next.
    fn wait(&mut self, duration: Duration) {
        let until = self.now.plus(duration);
        while let Some(at) = self.next().filter(|at| *at <= until) {
            self.events += 1;
            self.step(at);
            if self.next().is_some_and(|next| next <= at) {
                break;
            }
        }
        self.now = until;
        self.step(until);
    }

    fn step(&mut self, at: Time) {
        self.world.advance(at);
        self.kubernetes.follow(&mut self.world, at);
        self.world.outputs();
        self.kubernetes.api_mut().outputs();
    }

    /// A request to the Kubernetes API that must succeed.
    fn ask(&mut self, request: &kube_sim::Request) {
        let caller = kube_sim::Caller::admin();
        let reply = self.kubernetes.api_mut().request(self.now, &caller, request);
        let fine = matches!(reply, kube_sim::Reply::Response { status: 200..300, .. });
        assert!(fine, "{reply:?}");
        self.kubernetes.advance(&mut self.world, self.now);
    }

    fn cordon(&mut self, name: &str, cordoned: bool) {
        let body = json!({"spec": {"unschedulable": cordoned}});
        let path = format!("/api/v1/nodes/{name}");
        let request = kube_sim::Request::new(Method::Patch, &path).with_json(&body);
        self.ask(&request.with_content_type("application/merge-patch+json"));
    }

    /// The pods that a drain evicts.
    fn leaving(&self, node: &str) -> Vec<String> {
        let store = self.kubernetes.api().store();
        store
            .list(&PODS, Some("default"))
            .filter(|pod| object::text(pod, &["spec", "nodeName"]) == node)
            .map(|pod| object::name(pod).to_owned())
            .collect()
    }

    fn is_back(&self, node: NodeIndex, name: &str) -> bool {
        let truth = self.world.truth(node).expect("a node");
        let object = self.kubernetes.api().store().get(&NODES, "", name).expect("an object");
        let ready = object::list(object, &["status", "conditions"]).iter().any(|condition| {
            object::text(condition, &["type"]) == "Ready"
                && object::text(condition, &["status"]) == "True"
        });
        truth.downs() == 1 && truth.is_ready() && ready
    }

    /// Drains the last node, reboots it and uncordons it; returns the simulated duration.
    fn busy(&mut self) -> Duration {
        let node = NodeIndex(self.world.len() - 1);
        let name = self.world.truth(node).expect("a node").hostname().to_owned();
        let began = self.now;
        self.cordon(&name, true);
        for pod in self.leaving(&name) {
            let path = format!("/api/v1/namespaces/default/pods/{pod}/eviction");
            let eviction = json!({
                "apiVersion": "policy/v1", "kind": "Eviction",
                "metadata": {"name": pod, "namespace": "default"},
            });
            self.ask(&kube_sim::Request::new(Method::Post, &path).with_json(&eviction));
            self.wait(Duration::from_secs(10));
        }
        let reboot = Request::Reboot(machine::RebootRequest { mode: 0 });
        let reply = self.world.request(self.now, node, &Caller::admin(), reboot);
        assert!(matches!(reply, Reply::Unary(_)), "{reply:?}");
        self.step(self.now);
        for _ in 0..600 {
            self.wait(Duration::from_secs(1));
            if self.is_back(node, &name) {
                break;
            }
        }
        assert!(self.is_back(node, &name), "{name} does not come back");
        self.cordon(&name, false);
        self.now.since(began)
    }
}

/// The fastest of the rounds, and its result.
#[expect(clippy::disallowed_methods, reason = "a benchmark is about time")]
fn fastest<T, U>(make: impl Fn() -> T, mut work: impl FnMut(&mut T) -> U) -> (Duration, U) {
    let round = || {
        let mut subject = make();
        let began = Instant::now();
        let given = std::hint::black_box(work(&mut subject));
        (began.elapsed(), given)
    };
    let rounds = std::iter::repeat_with(round).take(ROUNDS);
    rounds.min_by_key(|(lasted, _)| *lasted).expect("at least one round")
}

#[expect(clippy::print_stdout, reason = "a benchmark prints what it has measured")]
fn main() {
    let asked: Vec<usize> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let shapes = match asked[..] {
        [control_planes, workers] => vec![(control_planes, workers)],
        _ => vec![(1, 0), (3, 0), (3, 2), (3, 5), (5, 10), (3, 50)],
    };
    let millis = |lasted: Duration| format!("{:.2} ms", lasted.as_secs_f64() * 1e3);
    println!("nodes   making     cloning    20 idle minutes (a node)    drain and reboot (a node)");
    let mut first = None;
    for (control_planes, workers) in shapes {
        let (making, both) = fastest(|| (), |()| Both::new(control_planes, workers));
        let (cloning, _) = fastest(|| (), |()| both.clone());
        let (idle, events) = fastest(
            || both.clone(),
            |both| {
                both.wait(IDLE);
                both.events
            },
        );
        let (busy, there) = fastest(|| both.clone(), Both::busy);
        let nodes = f64::from(u32::try_from(control_planes + workers).unwrap_or(u32::MAX));
        let each = [idle.as_secs_f64() / nodes, busy.as_secs_f64() / nodes];
        let base = *first.get_or_insert(each);
        println!(
            "{:<7} {:<10} {:<10} {:<10} x{:<5.2} {events:>4} events  {:<10} x{:<5.2} {} s there",
            format!("{control_planes}+{workers}"),
            millis(making),
            millis(cloning),
            millis(idle),
            each[0] / base[0],
            millis(busy),
            each[1] / base[1],
            there.as_secs(),
        );
    }
}
