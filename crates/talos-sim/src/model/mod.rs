//! The model: a pure, synchronous state machine of one cluster of Talos nodes.
//!
//! A [`World`] takes requests and the time, and returns replies and consequences. It has no clock,
//! no sockets, no threads and no state outside itself; its only randomness is a seeded generator
//! that is part of its state. So the same seed and the same requests at the same times give the
//! same run, and a thousand worlds fit in one process.
//!
//! The driver of a world does this:
//!
//! ```text
//! loop:
//!     at the time of next_event():  advance(now)
//!     when a caller sends something: request(now, ...)
//!     after either:                  outputs() -> to the open streams
//! ```
//!
//! Time never goes back: a `now` earlier than the latest one counts as that. Before a request is
//! handled, everything that is due by then happens.
//!
//! Adapters own everything outside the node: TLS, the roles in a certificate, routing between nodes
//! by metadata, and dropping the connections of a node that is not
//! [reachable](World::is_reachable).
//!
//! Inside, a node is a struct of plain data (`node.rs`); it moves from one state to the next in a
//! sequence of phases (`sequence.rs`, `phases.rs`); everything that happens by itself is in a
//! schedule (`schedule.rs`); and resources (`cosi/`) are views of the state, made on demand.
//!
//! "Rule 5" in a comment is rule 5 of `docs/architecture.md`.

#![forbid(clippy::disallowed_methods)]

mod api;
mod boot;
mod config;
mod cosi;
mod dispatch;
mod drain;
mod etcd;
mod events;
mod fault;
mod ground_truth;
mod health;
mod images;
mod installer;
mod kubernetes;
mod machine_calls;
mod manifests;
mod membership;
mod node;
mod phases;
pub(crate) mod platform;
mod pull;
mod queries;
mod readiness;
mod reboot_estimate;
mod registry;
mod resource_value;
mod roles;
mod schedule;
mod sequence;
mod services;
mod slots;
mod snapshot_file;
mod spec;
mod streams;
mod time;
mod time_calls;
mod timing;

#[cfg(test)]
mod tests;

pub use api::{Code, Content, NodeIndex, Output, Reply, Request, Response, Status, StreamId};
pub use config::ConfigFiles;
pub use drain::DRAIN_TIMEOUT;
pub use fault::{ApiTrouble, Fault, FaultKind};
pub use ground_truth::{ComponentTruth, EtcdTruth, InstalledTruth, MemberTruth, NodeTruth};
pub use kubernetes::{Component, KubernetesNode, KubernetesPod};
pub use readiness::Condition;
pub use roles::{Caller, Role};
pub use spec::{
    ClusterSpec, Discovery, EMPTY_SCHEMATIC, ExtraManifest, NodeRole, NodeSpec, OwnInstaller,
    Registry, Renamed, Schematic, Secrets,
};
pub use time::Time;
pub use timing::{Range, Span, Timings};

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use upgrade_core::version::Version;

use config::Config;
use etcd::Etcd;
use events::Note;
use fault::FaultKind as Kind;
use kube_sim::random::Random;
use kubernetes::Kubernetes;
use node::{Node, Power, Stage};
use schedule::{Due, Schedule};
use slots::{Installed, Slots};
use streams::{Open, Stream};

/// How long the nodes of a new world have been up.
const UPTIME: Duration = Duration::from_hours(72);

/// One cluster.
///
/// It is serialisable, and continues where it was. Open streams do not survive, nor do pulls that a
/// caller waited for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct World {
    spec: ClusterSpec,
    now: Time,
    random: Random,
    nodes: Vec<Node>,
    etcd: Etcd,
    schedule: Schedule,
    faults: Vec<(NodeIndex, Fault)>,
    next_stream: u64,
    #[serde(skip)]
    streams: BTreeMap<StreamId, Open>,
    #[serde(skip)]
    outputs: Vec<Output>,
    #[serde(skip)]
    kubeconfig: Bytes,
    /// Counts changes of any node.
    #[serde(skip)]
    touched: u64,
    /// Counts changes that may affect all nodes.
    #[serde(skip)]
    touched_all: u64,
    /// Counts changes that affect one node only, by node.
    #[serde(skip)]
    touched_alone: Vec<u64>,
    /// Whether the current event affects more nodes than its own.
    #[serde(skip)]
    wide: bool,
}

impl World {
    /// A healthy cluster that has been running for a while.
    pub fn new(spec: &ClusterSpec, seed: u64, now: Time) -> Self {
        let mut random = Random::new(seed);
        let since = now.minus(UPTIME);
        let mut spec = spec.clone();
        spec.secrets = config::fill(&spec.secrets, &mut random);
        let nodes: Vec<Node> =
            spec.nodes.iter().map(|node| new_node(&spec, node, &mut random, since)).collect();
        let control_planes: Vec<NodeIndex> = (0..spec.nodes.len())
            .filter(|index| spec.nodes[*index].role == NodeRole::ControlPlane)
            .map(NodeIndex)
            .collect();
        let etcd = Etcd::new(&control_planes, &mut random, now);
        let etcd = etcd.of_versions(&nodes);
        let mut world = Self {
            spec,
            now,
            random,
            nodes,
            etcd,
            schedule: Schedule::default(),
            faults: Vec::new(),
            next_stream: 1,
            streams: BTreeMap::new(),
            outputs: Vec::new(),
            kubeconfig: Bytes::new(),
            touched: 0,
            touched_all: 0,
            touched_alone: Vec::new(),
            wide: false,
        };
        for node in control_planes {
            world.download(node);
        }
        world.settle();
        world
    }

    /// When the next event is due; `None` if nothing happens without a request.
    pub fn next_event(&self) -> Option<Time> {
        self.schedule.next_time()
    }

    /// Processes everything that is due by `now`, in order.
    pub fn advance(&mut self, now: Time) {
        let now = self.now.max(now);
        while let Some((at, due)) = self.schedule.take(now) {
            self.now = self.now.max(at);
            self.wide = false;
            match self.happen(due) {
                Some(node) if !self.wide => self.settle_one(node),
                _ => self.settle(),
            }
        }
        self.now = now;
    }

    /// Takes the output for open streams since the last call.
    pub fn outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    /// The caller is gone: nothing more is sent to the stream. A pull that it waited for is
    /// cancelled; an installer continues.
    pub fn close_stream(&mut self, now: Time, stream: StreamId) {
        self.advance(now);
        if let Some(open) = self.streams.remove(&stream)
            && matches!(open.stream, Stream::Pull)
        {
            self.cancel_pull(open.node, stream);
        }
        self.outputs.retain(|output| output.stream != stream);
    }

    /// Whether the node accepts connections: not while it is down, rebooting or cut off.
    pub fn is_reachable(&self, node: NodeIndex) -> bool {
        self.nodes.get(node.0).is_some_and(|here| {
            here.power == Power::On
                && here.service_runs("apid")
                && here.finds_network()
                && !self.is_cut_off(node)
        })
    }

    /// Whether no message reaches or leaves the node.
    pub fn is_cut_off(&self, node: NodeIndex) -> bool {
        self.fault(node, Kind::Partition).is_some() || self.is_silent(node)
    }

    /// Whether the node accepts messages and never answers: it hangs, or lost power. A node that is
    /// merely down refuses connections.
    pub fn is_silent(&self, node: NodeIndex) -> bool {
        self.fault(node, Kind::Silent).is_some()
    }

    /// Whether apid drops this new connection or call; each call of this counts as one.
    pub fn drops_connection(&mut self, node: NodeIndex) -> bool {
        self.drops_next(node, false)
    }

    /// Whether apid drops this call: a forwarded one has its own connection.
    pub fn drops_call(&mut self, node: NodeIndex, request: &Request, forwarded: bool) -> bool {
        forwarded && self.drops_next(node, false)
            || roles::is_read(request) && self.drops_next(node, true)
    }

    /// Whether the next one is dropped, of all calls or of those that read.
    fn drops_next(&mut self, node: NodeIndex, reads: bool) -> bool {
        let every = match self.fault(node, Kind::ApidDrops) {
            Some(Fault::ApidDrops { every, reads: only }) if *only == reads => (*every).max(1),
            _ => return false,
        };
        let here = &mut self.nodes[node.0];
        here.connections = here.connections.wrapping_add(1);
        here.connections.is_multiple_of(every)
    }

    /// Powers on a machine that was shut down.
    pub fn switch_on(&mut self, now: Time, node: NodeIndex) {
        self.advance(now);
        if let Some(here) = self.nodes.get_mut(node.0)
            && here.power == Power::Off
            && !here.gone
        {
            here.power = Power::Down;
            self.schedule_power_on(node);
        }
    }

    /// The latest time it has been advanced to.
    pub fn now(&self) -> Time {
        self.now
    }

    /// A number that changes whenever a node may have changed.
    pub fn touched(&self) -> u64 {
        self.touched
    }

    /// A number that changes whenever this node may have changed.
    pub fn touched_of(&self, node: NodeIndex) -> u64 {
        self.touched_all + self.touched_alone.get(node.0).copied().unwrap_or(0)
    }

    /// The number of nodes, including those that have left.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The spec at the start; the registry and the nodes may have grown since.
    pub fn spec(&self) -> &ClusterSpec {
        &self.spec
    }

    /// The version of Talos that a node runs.
    pub fn talos_version(&self, node: NodeIndex) -> Option<&Version> {
        self.nodes.get(node.0).map(Node::version)
    }

    /// The node with this host name or address.
    pub fn find(&self, name_or_address: &str) -> Option<NodeIndex> {
        let named = |node: &Node| {
            let address = |address: &std::net::IpAddr| address.to_string() == name_or_address;
            !node.gone && (node.hostname == name_or_address || node.addresses.iter().any(address))
        };
        self.nodes.iter().position(named).map(NodeIndex)
    }

    /// Adds a schematic to the registries, as the Image Factory does for a posted one.
    pub fn add_schematic(&mut self, id: String, schematic: Schematic) {
        self.spec.registry.schematics.insert(id, schematic);
    }

    /// The answer to `Kubeconfig`: a gzipped tar archive with one file. The adapter owns the
    /// Kubernetes side; until it sets this, the call fails.
    pub fn set_kubeconfig(&mut self, archive: Bytes) {
        self.kubeconfig = archive;
    }

    /// Draws a duration from one of the configured ranges.
    fn draw(&mut self, node: NodeIndex, span: Span) -> Duration {
        if let Some(own) = self.own_time(node, span) {
            return own;
        }
        let Range { min, max } = self.spec.timings.range(span);
        self.random.duration(min, max)
    }

    /// Processes a due event, unless the machine has rebooted since. Returns the node of the event,
    /// if it has one.
    fn happen(&mut self, due: Due) -> Option<NodeIndex> {
        let (node, boot) = match &due {
            Due::Step { node, boot }
            | Due::PowerOn { node, boot }
            | Due::BootTimeout { node, boot }
            | Due::Rejoin { node, boot, .. }
            | Due::Pull { node, boot, .. }
            | Due::Install { node, boot }
            | Due::RevertConfig { node, boot, .. }
            | Due::Kubelet { node, boot, .. }
            | Due::Pod { node, boot, .. }
            | Due::ApiServer { node, boot, .. }
            | Due::PodStatuses { node, boot, .. }
            | Due::Probes { node, boot, .. }
            | Due::Download { node, boot }
            | Due::Service { node, boot, .. } => (Some(*node), *boot),
            Due::Election { .. } | Due::EtcdVersions | Due::Health { .. } => (None, 0),
        };
        if node.is_some_and(|node| self.nodes[node.0].boot != boot) {
            return node;
        }
        match due {
            Due::Step { node, .. } => self.end_phase(node),
            Due::PowerOn { node, .. } => self.power_on(node),
            Due::BootTimeout { node, .. } => self.boot_timed_out(node),
            Due::Rejoin { node, part, .. } => self.rejoin(node, part),
            Due::Pull { node, pull, .. } => self.step_pull(node, pull),
            Due::Install { node, .. } => self.step_install(node),
            Due::Election { round } => self.elect(round),
            Due::EtcdVersions => self.check_etcd_versions(),
            Due::RevertConfig { node, trial, .. } => self.revert_config(node, trial),
            Due::Kubelet { node, restart, .. } => self.kubelet_is_back(node, restart),
            Due::Pod { node, component, restart, .. } => self.pod_is_back(node, component, restart),
            Due::ApiServer { node, restart, .. } => self.api_server_answers(node, restart),
            Due::PodStatuses { node, restart, .. } => self.pods_are_asked_for(node, restart),
            Due::Probes { node, restart, .. } => self.pods_are_probed(node, restart),
            Due::Health { stream } => self.run_health_checks(stream),
            Due::Service { node, service, .. } => self.service_is_back(node, &service),
            Due::Download { node, .. } => self.download(node),
        }
        node
    }

    /// After every change: publishes machine statuses and notifies watches.
    fn settle(&mut self) {
        self.touched += 1;
        self.touched_all += 1;
        for index in 0..self.nodes.len() {
            self.note_heard(NodeIndex(index));
            self.publish_status(NodeIndex(index));
        }
        self.refresh_watched(None);
    }

    /// The same after a change that affects only one node.
    fn settle_one(&mut self, node: NodeIndex) {
        self.touched += 1;
        self.touched_alone.resize(self.nodes.len(), 0);
        self.touched_alone[node.0] += 1;
        self.note_heard(node);
        self.publish_status(node);
        self.refresh_watched(Some(node));
    }

    /// Publishes a machine's status if it differs from the last one.
    fn publish_status(&mut self, node: NodeIndex) {
        if self.nodes[node.0].power != Power::On {
            return;
        }
        let unmet = self.unmet_conditions(node);
        let here = &mut self.nodes[node.0];
        let stage = here.stage;
        let same = here.last_status.as_ref().is_some_and(|(last, reasons)| {
            *last == stage
                && reasons.len() == unmet.len()
                && reasons
                    .iter()
                    .zip(&unmet)
                    .all(|(one, other)| one.0 == other.0 && one.1 == other.1)
        });
        if same {
            return;
        }
        here.last_status = Some((
            stage,
            unmet.iter().map(|(name, reason)| ((*name).to_owned(), reason.clone())).collect(),
        ));
        if stage == Stage::Running && unmet.is_empty() {
            here.slots.previous = false;
        }
        let unmet = unmet.into_iter().map(|(name, reason)| (Cow::Borrowed(name), reason)).collect();
        self.publish(node, "", Note::Machine { stage, unmet });
    }
}

fn new_node(spec: &ClusterSpec, node: &NodeSpec, random: &mut Random, since: Time) -> Node {
    let control_plane = node.role == NodeRole::ControlPlane;
    let slots = Slots::new(Installed {
        version: node.talos.clone(),
        schematic: node.schematic.clone(),
        platform: node.platform.clone(),
        signed: node.secure_boot,
        extensions: spec.registry.own_extensions(node),
    });
    let minor = Version::new(1, 0, 0).minor().steps_to(node.talos.minor()).unwrap_or(0);
    let config = Config::new(config::generate(spec, node, &spec.secrets), minor);
    Node {
        hostname: node.hostname.clone(),
        role: node.role,
        addresses: node.addresses.clone(),
        shown_at: None,
        identity: random.token(43),
        slots,
        grub: spec.grub,
        platform: node.platform.clone(),
        secure_boot: node.secure_boot,
        power: Power::On,
        stage: Stage::Running,
        boot_id: random.uuid(),
        boot: 1,
        booted: since,
        network: true,
        sequence: None,
        services: services::running(node.role, since),
        kubernetes: Kubernetes::running(&config.components, control_plane, since),
        images: images::initial(&config.components, control_plane, since),
        config,
        install: None,
        staged_upgrade: None,
        events: events::Ring::default(),
        last_status: None,
        connections: 0,
        api_requests: 0,
        downloads: BTreeMap::new(),
        pulls: Vec::new(),
        gone: false,
        kexec: false,
        unmet_since_boot: None,
        unheard: None,
        wiped: 0,
        installs: 0,
        cosi: cosi::Store::default(),
    }
}
