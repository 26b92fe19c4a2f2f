//! `ClusterService.HealthCheck`: a control plane checks its cluster, check by check, until all pass
//! or the time is up.

use std::time::Duration;

use talos_proto::cluster;

use super::World;
use super::api::{NodeIndex, Reply, Status, StreamId};
use super::node::{Power, Stage};
use super::schedule::Due;
use super::streams::Stream;
use super::time::Time;

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_secs(5);

/// The default timeout.
const TIMEOUT: Duration = Duration::from_mins(20);

/// A running health check.
#[derive(Clone, Debug)]
pub(super) struct HealthCheck {
    /// The index of the next check.
    check: usize,
    until: Time,
    /// The last message, so that it is not repeated.
    said: String,
}

type Check = fn(&World) -> Result<(), String>;

const CHECKS: &[(&str, Check)] = &[
    ("etcd to be healthy", etcd_is_healthy),
    ("apid to be ready", apid_is_ready),
    ("kubelet to be healthy", kubelet_is_healthy),
    ("all nodes to finish boot sequence", nodes_run),
    ("all k8s nodes to report ready", nodes_ready),
    ("all control plane static pods to be running", pods_run),
];

fn named(world: &World, wrong: impl Fn(NodeIndex) -> bool, what: &str) -> Result<(), String> {
    let names: Vec<&str> = world
        .present()
        .filter(|node| wrong(*node))
        .map(|node| world.nodes[node.0].hostname.as_str())
        .collect();
    if names.is_empty() { Ok(()) } else { Err(format!("{what}: {}", names.join(", "))) }
}

fn etcd_is_healthy(world: &World) -> Result<(), String> {
    let wrong = |node: NodeIndex| world.etcd.member_of(node).is_some() && !world.etcd_serves(node);
    named(world, wrong, "etcd is not healthy on")
}

fn apid_is_ready(world: &World) -> Result<(), String> {
    named(world, |node| !world.is_reachable(node), "no answer from")
}

fn kubelet_is_healthy(world: &World) -> Result<(), String> {
    let wrong = |node: NodeIndex| !world.nodes[node.0].service_is_healthy("kubelet");
    named(world, wrong, "kubelet is not healthy on")
}

fn nodes_run(world: &World) -> Result<(), String> {
    let wrong = |node: NodeIndex| {
        world.nodes[node.0].power != Power::On || world.nodes[node.0].stage != Stage::Running
    };
    named(world, wrong, "not running yet")
}

fn nodes_ready(world: &World) -> Result<(), String> {
    named(world, |node| !world.node_ready(node), "not ready yet")
}

fn pods_run(world: &World) -> Result<(), String> {
    let wrong = |node: NodeIndex| {
        let kubernetes = &world.nodes[node.0].kubernetes;
        // A pod without a known status is not running.
        kubernetes.known_pods().count() < kubernetes.pods.len()
            || !world.pod_problems(node).is_empty()
    };
    named(world, wrong, "static pods are not ready on")
}

impl World {
    pub(super) fn health_check(
        &mut self,
        node: NodeIndex,
        request: &cluster::HealthCheckRequest,
    ) -> Reply {
        if !self.nodes[node.0].is_control_plane() {
            return Status::unimplemented(
                "cluster health check is only available on control plane nodes",
            )
            .into();
        }
        let timeout = request
            .wait_timeout
            .and_then(|timeout| Duration::try_from(timeout).ok())
            .unwrap_or(TIMEOUT);
        let check = HealthCheck { check: 0, until: self.now.plus(timeout), said: String::new() };
        let stream = self.open(node, Stream::Health(check));
        self.run_health_checks(stream);
        Reply::Stream(stream)
    }

    /// Runs the checks until one fails.
    pub(super) fn run_health_checks(&mut self, stream: StreamId) {
        let Some(Stream::Health(mut health)) =
            self.streams.get(&stream).map(|open| open.stream.clone())
        else {
            return;
        };
        while let Some((what, check)) = CHECKS.get(health.check) {
            let (done, line) = match check(self) {
                Ok(()) => (true, format!("waiting for {what}: OK")),
                Err(problem) => (false, format!("waiting for {what}: {problem}")),
            };
            if health.check == 0 && health.said.is_empty() {
                self.say(stream, format!("waiting for {what}: ..."));
            }
            if line != health.said {
                self.say(stream, line.clone());
                health.said.clone_from(&line);
            }
            if done {
                health.check += 1;
                continue;
            }
            if self.now >= health.until {
                self.end(stream, Err(Status::deadline_exceeded(line)));
                return;
            }
            let at = self.now.plus(PAUSE).min(health.until);
            self.schedule.put(at, Due::Health { stream });
            if let Some(open) = self.streams.get_mut(&stream) {
                open.stream = Stream::Health(health);
            }
            return;
        }
        self.end(stream, Ok(()));
    }

    fn say(&mut self, stream: StreamId, message: String) {
        self.send(stream, cluster::HealthCheckProgress { metadata: None, message });
    }
}
