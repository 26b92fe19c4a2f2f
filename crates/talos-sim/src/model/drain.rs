//! The node's own drain, in the legacy upgrade and before a shutdown.
//!
//! The node cordons itself and evicts its pods through the Kubernetes API. If the adapter has pods,
//! it takes the drain over and reports when the node is empty; without pods, the drain lasts its
//! drawn time.

use std::time::Duration;

use super::World;
use super::api::NodeIndex;
use super::node::Power;
use super::phases::Effect;
use super::schedule::Due;
use super::time::Time;

/// How long a node waits until the API server has its cordon; after that the sequence fails.
pub(super) const CORDON_TIMEOUT: Duration = Duration::from_mins(1);

/// How long a drain may last. Pods that are still there then go down with the node.
pub const DRAIN_TIMEOUT: Duration = Duration::from_mins(5);

impl World {
    /// Whether the node is draining itself.
    fn is_draining(&self, node: NodeIndex) -> bool {
        let here = &self.nodes[node.0];
        here.power == Power::On
            && here
                .sequence
                .as_ref()
                .is_some_and(|sequence| sequence.effect(here.minor()) == Some(Effect::Drain))
    }

    /// The nodes that are evicting their own pods.
    pub fn draining(&self) -> impl Iterator<Item = (NodeIndex, &str)> {
        let nodes = self.nodes.iter().enumerate().map(|(index, node)| (NodeIndex(index), node));
        nodes
            .filter(|(index, _)| self.is_draining(*index))
            .map(|(index, node)| (index, node.hostname.as_str()))
    }

    /// Takes the drain over: it lasts until [`drained`](Self::drained), at most until Talos's
    /// deadline.
    pub fn hold_drain(&mut self, now: Time, node: NodeIndex) {
        self.advance(now);
        if self.is_draining(node) {
            self.end_drain_at(node, now.plus(DRAIN_TIMEOUT));
        }
    }

    /// The node is empty, or the drain gave up on the remaining pods.
    pub fn drained(&mut self, now: Time, node: NodeIndex) {
        self.advance(now);
        if self.is_draining(node) {
            self.end_drain_at(node, now);
            self.advance(now);
        }
    }

    fn end_drain_at(&mut self, node: NodeIndex, at: Time) {
        let boot = self.nodes[node.0].boot;
        let step = Due::Step { node, boot };
        self.schedule.retain(|due| *due != step);
        self.schedule.put(at, step);
    }
}
