//! Machines that join and leave while the cluster runs. Workers only: a control plane is also a
//! member of etcd, and no upgrade meets one that joins or leaves.

use std::net::IpAddr;
use std::time::Duration;

use super::World;
use super::api::NodeIndex;
use super::fault::{Fault, FaultKind};
use super::new_node;
use super::node::Power;
use super::schedule::Due;
use super::spec::{Discovery, NodeRole, NodeSpec};
use super::time::Time;

/// How long the discovery service keeps a node without news from it.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(30);

impl World {
    /// Powers on a new worker. It boots, joins discovery at once, and its kubelet registers it when
    /// it has come up. `None` for a control plane, and for a name or an address that a machine of
    /// the cluster already has.
    pub fn join(&mut self, now: Time, spec: NodeSpec) -> Option<NodeIndex> {
        self.advance(now);
        let known = std::iter::once(spec.hostname.clone())
            .chain(spec.addresses.iter().map(ToString::to_string))
            .any(|name| self.find(&name).is_some());
        if known || spec.role != NodeRole::Worker {
            return None;
        }
        let mut here = new_node(&self.spec, &spec, &mut self.random, self.now);
        here.services.clear();
        here.network = false;
        let index = NodeIndex(self.nodes.len());
        self.nodes.push(here);
        self.spec.nodes.push(spec);
        self.power_on(index);
        self.settle();
        Some(index)
    }

    /// A worker is powered off and leaves for good: discovery forgets it, and the model ignores it
    /// from then on. Its index is not used again. The caller deletes the Node object. `false` for a
    /// control plane, and for a node that has already left.
    pub fn leave(&mut self, now: Time, node: NodeIndex) -> bool {
        self.advance(now);
        if !self.is_present(node) || self.nodes[node.0].is_control_plane() {
            return false;
        }
        // Faults first, so that none of them keeps any state of it.
        self.faults.retain(|(index, _)| *index != node);
        self.go_down(node);
        self.schedule
            .retain(|due| !matches!(due, Due::PowerOn { node: other, .. } if *other == node));
        let here = &mut self.nodes[node.0];
        here.power = Power::Off;
        here.gone = true;
        self.settle();
        true
    }

    /// Changes how the nodes find each other from now on. Their configurations stay unchanged.
    pub fn discover_by(&mut self, discovery: Discovery) {
        self.spec.discovery = discovery;
    }

    /// Changes the cluster name that the machines report; an empty one means none, as before they
    /// have read their configuration.
    pub fn rename(&mut self, name: &str) {
        name.clone_into(&mut self.spec.name);
    }

    /// Makes discovery show a node at other addresses than its own, as for a machine that was
    /// recreated under its name: the old entry is forgotten after 30 minutes. `None` ends that.
    pub fn show_at(&mut self, node: NodeIndex, addresses: Option<Vec<IpAddr>>) {
        self.nodes[node.0].shown_at = addresses;
    }

    /// All addresses of a node, in Talos's order.
    pub(super) fn own_addresses(&self, node: NodeIndex) -> Vec<IpAddr> {
        let storage = self.spec.storage_address(node.0);
        let mut all: Vec<IpAddr> =
            self.nodes[node.0].addresses.iter().copied().chain(storage).collect();
        all.sort();
        all
    }

    /// The addresses that discovery shows of a node.
    pub(super) fn member_addresses(&self, node: NodeIndex) -> Vec<IpAddr> {
        self.nodes[node.0].shown_at.clone().unwrap_or_else(|| self.own_addresses(node))
    }

    /// The machines that a node knows through its discovery.
    pub fn members_of(&self, node: NodeIndex) -> Vec<NodeIndex> {
        let is_control_plane = |node: &NodeIndex| self.nodes[node.0].is_control_plane();
        match self.spec.discovery {
            Discovery::Off => Vec::new(),
            Discovery::Kubernetes if is_control_plane(&node) => {
                self.present().filter(is_control_plane).collect()
            }
            Discovery::AirGap | Discovery::Kubernetes => vec![node],
            Discovery::Service => {
                let shown = |other: &NodeIndex| {
                    *other == node || (!self.is_alone(node) && self.is_heard(*other))
                };
                self.present().filter(shown).collect()
            }
        }
    }

    /// Whether a node has lost the discovery service together with its list of members, which is in
    /// memory.
    fn is_alone(&self, node: NodeIndex) -> bool {
        let here = &self.nodes[node.0];
        match self.fault(node, FaultKind::DiscoveryCut) {
            Some(Fault::DiscoveryCut { now: true }) => true,
            Some(_) => here.unheard.is_some_and(|since| here.booted > since),
            None => false,
        }
    }

    /// Whether the discovery service still has a node: it forgets nodes without news for a while.
    fn is_heard(&self, node: NodeIndex) -> bool {
        if let Some(Fault::DiscoveryCut { now: true }) = self.fault(node, FaultKind::DiscoveryCut) {
            return false;
        }
        self.nodes[node.0].unheard.is_none_or(|since| self.now.since(since) < FORGOTTEN_AFTER)
    }

    /// Records whether the discovery service hears of a node.
    pub(super) fn note_heard(&mut self, node: NodeIndex) {
        let here = &self.nodes[node.0];
        let heard = here.power == Power::On
            && !self.is_cut_off(node)
            && self.fault(node, FaultKind::DiscoveryCut).is_none();
        let now = self.now;
        let here = &mut self.nodes[node.0];
        here.unheard = if heard { None } else { here.unheard.or(Some(now)) };
    }

    /// Whether there is such a machine, and it has not left.
    pub fn is_present(&self, node: NodeIndex) -> bool {
        self.nodes.get(node.0).is_some_and(|here| !here.gone)
    }

    /// All machines that belong to the cluster.
    pub fn present(&self) -> impl Iterator<Item = NodeIndex> {
        (0..self.nodes.len()).map(NodeIndex).filter(|node| self.is_present(*node))
    }
}
