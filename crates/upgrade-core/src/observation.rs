//! All that a plan is made on: the cluster, what runs on it, and what left Talos's
//! manifests.

use std::collections::BTreeSet;

use crate::manifests::Manifests;
use crate::snapshot::{Fact, NodeName, Role, Snapshot};
use crate::workload::Workloads;

/// What was observed for a plan.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Machines, etcd and nodes.
    pub snapshot: Snapshot,
    /// What runs on them.
    pub workloads: Fact<Workloads>,
    /// What left Talos's manifests.
    pub manifests: Fact<Manifests>,
}

impl Observation {
    /// Whether another look may show more: something is unknown, or a control plane does
    /// not serve (it may be starting). A plan would be refused for most of it. Nodes that
    /// the user lists as foreign stay without a machine.
    pub fn has_gaps(&self, foreign: &BTreeSet<NodeName>) -> bool {
        let Self { snapshot, workloads, manifests } = self;
        let nodes = snapshot.nodes.values().any(|node| {
            node.talos.why_unknown().is_some()
                || node.kubernetes.why_unknown().is_some()
                || node.images.why_unknown().is_some()
                || (node.role == Role::ControlPlane && !node.is_up())
        });
        let etcd = match &snapshot.etcd {
            Fact::Known(etcd) => etcd.members.iter().any(|it| it.status.why_unknown().is_some()),
            Fact::Unknown(_) => true,
            Fact::Unasked => false,
        };
        let unmatched = snapshot.unknown_nodes(foreign).next().is_some();
        nodes
            || unmatched
            || etcd
            || workloads.why_unknown().is_some()
            || manifests.why_unknown().is_some()
    }

    /// Whether every machine was seen, and Kubernetes told nothing.
    pub fn lacks_api(&self) -> bool {
        self.snapshot.nodes.values().all(|node| {
            node.talos.why_unknown().is_none() && node.kubernetes.why_unknown().is_some()
        })
    }
}
