//! Machines that come and go while the cluster runs. Workers only: a control
//! plane is a member of etcd too, and no upgrade meets one that comes or goes.

use super::World;
use super::api::NodeIndex;
use super::new_node;
use super::node::Power;
use super::schedule::Due;
use super::spec::{NodeRole, NodeSpec};
use super::time::Time;

impl World {
    /// A new worker is switched on. It boots, joins discovery at once, and its
    /// kubelet registers it when it has come up. `None` for a control plane, and
    /// for a name or an address that a machine of the cluster has already.
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

    /// A worker is switched off and leaves for good: discovery forgets it, and
    /// nothing looks at it any more. Its index stays its own. The node's object
    /// in Kubernetes is for the caller to delete. `false` for a control plane,
    /// and for who has left already.
    pub fn leave(&mut self, now: Time, node: NodeIndex) -> bool {
        self.advance(now);
        if !self.is_present(node) || self.nodes[node.0].is_control_plane() {
            return false;
        }
        // First, so that no fault keeps anything of it.
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

    /// Whether there is such a machine, and it has not left.
    pub fn is_present(&self, node: NodeIndex) -> bool {
        self.nodes.get(node.0).is_some_and(|here| !here.gone)
    }

    /// All machines that belong to the cluster.
    pub fn present(&self) -> impl Iterator<Item = NodeIndex> {
        (0..self.nodes.len()).map(NodeIndex).filter(|node| self.is_present(*node))
    }
}
