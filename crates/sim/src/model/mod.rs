//! The model: a pure, synchronous state machine of one cluster of Talos nodes.
//!
//! A [`World`] takes requests and the time, and gives replies and what happens
//! next. It has no clock, no sockets, no threads and no state outside itself;
//! its only chance is a seeded generator that is part of its state. So the same
//! seed and the same requests at the same times give the same run, and a
//! thousand worlds fit in one process.
//!
//! Whoever drives a world does this:
//!
//! ```text
//! loop:
//!     at the time of next_event():  advance(now)
//!     when a caller sends something: request(now, ...)
//!     after either:                  outputs() -> to the open streams
//! ```
//!
//! Time never goes back: a `now` earlier than the latest one counts as that.
//! Before a request is looked at, everything that is due by then happens.
//!
//! Doors own what is not the node itself: TLS, the roles in a certificate,
//! routing between nodes by metadata, and dropping the connections of a node
//! that [cannot be reached](World::is_reachable).

#![forbid(clippy::disallowed_methods)]

mod api;
mod fault;
mod random;
mod roles;
mod spec;
mod time;
mod timing;

pub use api::{Code, Content, NodeIndex, Output, Reply, Request, Response, Status, StreamId};
pub use fault::{Fault, FaultKind};
pub use roles::{Caller, Role};
pub use spec::{ClusterSpec, EMPTY_SCHEMATIC, NodeRole, NodeSpec, Registry, Schematic, Secrets};
pub use time::Time;
pub use timing::{Range, Timings};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use talos_proto::machine;

use random::Random;

/// One cluster.
///
/// It is serialisable: what survives is everything that a power cut of all
/// nodes at once would leave, and what they were doing; open streams do not.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct World {
    spec: ClusterSpec,
    now: Time,
    random: Random,
    faults: Vec<(NodeIndex, Fault)>,
    #[serde(skip)]
    outputs: Vec<Output>,
    #[serde(skip)]
    kubeconfig: Bytes,
}

impl World {
    /// A healthy cluster that has been running for a while.
    pub fn new(spec: &ClusterSpec, seed: u64, now: Time) -> Self {
        Self {
            spec: spec.clone(),
            now,
            random: Random::new(seed),
            faults: Vec::new(),
            outputs: Vec::new(),
            kubeconfig: Bytes::new(),
        }
    }

    /// A call that has reached a node. The door has checked that the node
    /// [can be reached](Self::is_reachable).
    pub fn request(
        &mut self,
        now: Time,
        node: NodeIndex,
        caller: &Caller,
        request: Request,
    ) -> Reply {
        self.advance(now);
        let _ = caller;
        let Some(node) = self.spec.nodes.get(node.0) else {
            return Status::unavailable("no such node").into();
        };
        match request {
            Request::Version => Reply::Unary(
                machine::VersionResponse {
                    messages: vec![machine::Version {
                        metadata: None,
                        version: Some(machine::VersionInfo {
                            tag: node.talos.tag(),
                            ..Default::default()
                        }),
                        platform: None,
                        features: Some(machine::FeaturesInfo { rbac: true }),
                    }],
                }
                .into(),
            ),
            _ => Status::unimplemented("unknown method").into(),
        }
    }

    /// When something happens by itself next; `None` if nothing will unless
    /// somebody asks for it.
    pub fn next_event(&self) -> Option<Time> {
        None
    }

    /// Makes everything happen that is due by `now`, in order.
    pub fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    /// Takes what has come up for open streams since the last call.
    pub fn outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    /// The caller has gone away: nothing more is sent to the stream, and what
    /// it kept running (a pull, an installer) is cancelled.
    pub fn close_stream(&mut self, now: Time, stream: StreamId) {
        let _ = (now, stream);
    }

    /// Whether the node answers connections: not while it is down, rebooting or
    /// cut off.
    pub fn is_reachable(&self, node: NodeIndex) -> bool {
        node.0 < self.spec.nodes.len()
    }

    /// Whether apid drops this new connection or call; each question counts as
    /// one.
    pub fn drops_connection(&mut self, node: NodeIndex) -> bool {
        let _ = node;
        false
    }

    /// Makes something go wrong on a node, or on all of them.
    pub fn inject(&mut self, now: Time, node: Option<NodeIndex>, fault: &Fault) {
        self.advance(now);
        for index in 0..self.spec.nodes.len() {
            let index = NodeIndex(index);
            if node.is_none_or(|only| only == index) {
                self.faults.push((index, fault.clone()));
            }
        }
    }

    /// Ends a fault on a node, or on all of them.
    pub fn clear(&mut self, now: Time, node: Option<NodeIndex>, fault: FaultKind) {
        self.advance(now);
        self.faults.retain(|(index, present)| {
            present.kind() != fault || node.is_some_and(|only| only != *index)
        });
    }

    /// The faults that hold now.
    pub fn faults(&self) -> &[(NodeIndex, Fault)] {
        &self.faults
    }

    /// The latest time the world has been told.
    pub fn now(&self) -> Time {
        self.now
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.spec.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.spec.nodes.is_empty()
    }

    /// What the world began as; the registry may have grown since.
    pub fn spec(&self) -> &ClusterSpec {
        &self.spec
    }

    /// The node with this host name or address.
    pub fn find(&self, name_or_address: &str) -> Option<NodeIndex> {
        self.spec
            .nodes
            .iter()
            .position(|node| {
                node.hostname == name_or_address
                    || node
                        .addresses
                        .iter()
                        .any(|address| address.to_string() == name_or_address)
            })
            .map(NodeIndex)
    }

    /// Tells the registries of a schematic, as the Image Factory does when
    /// somebody posts one.
    pub fn add_schematic(&mut self, id: String, schematic: Schematic) {
        self.spec.registry.schematics.insert(id, schematic);
    }

    /// What `Kubeconfig` answers: a gzipped tar archive with one file. The
    /// Kubernetes side belongs to a door; until it sets this, the call fails.
    pub fn set_kubeconfig(&mut self, archive: Bytes) {
        self.kubeconfig = archive;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use upgrade_core::version::Version;

    #[test]
    fn version_answers() {
        let spec = ClusterSpec::new(3, 2, &Version::new(1, 12, 6), &Version::new(1, 34, 2));
        let mut world = World::new(&spec, 0, Time::from_secs(1));
        let reply = world.request(
            Time::from_secs(2),
            NodeIndex(0),
            &Caller::admin(),
            Request::Version,
        );
        let Reply::Unary(response) = reply else {
            panic!("{reply:?}");
        };
        let version = machine::VersionResponse::try_from(response).unwrap();
        assert_eq!(version.messages[0].version.as_ref().unwrap().tag, "v1.12.6");
        assert_eq!(world.find("worker-1"), Some(NodeIndex(3)));
    }
}
