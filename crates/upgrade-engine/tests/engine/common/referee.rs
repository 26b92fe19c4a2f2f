//! The rules, checked on the cluster itself at every change.

use upgrade_core::snapshot::{NodeName, Role};
use upgrade_core::workload::Pod;

use super::Cluster;

impl Cluster {
    fn away(&self, role: Role) -> Vec<&NodeName> {
        let nodes = self.nodes.iter().filter(|(_, sim)| sim.role == role);
        let away = nodes.filter(|(_, sim)| {
            let serves = sim.role == Role::Worker || sim.api;
            // A node that another user cordoned still serves.
            let ours = sim.unschedulable && sim.marked;
            !sim.answers || !sim.node_ready || ours || !serves
        });
        away.map(|(name, _)| name).collect()
    }

    pub(super) fn referee(&mut self) {
        let control_planes = self.away(Role::ControlPlane);
        assert!(control_planes.len() <= 1, "rule 1: {control_planes:?}\n{:?}", self.acts);
        let workers = self.away(Role::Worker).len();
        assert!(workers <= self.limit, "rule 6: {:?}\n{:?}", self.away(Role::Worker), self.acts);
        self.most_workers_away = self.most_workers_away.max(workers);
    }

    /// Before a node goes down.
    pub(super) fn referee_boot(&self, node: &NodeName) {
        let sim = &self.nodes[node];
        // No node can be cordoned while no API server answers; a rollback does not wait for one.
        let may = self.kubernetes_answers();
        assert!(sim.unschedulable || !may, "rule 6: {node} boots uncordoned\n{:?}", self.acts);
        // One without a controller stays only if the policy leaves it there.
        let leaves = |pod: &&Pod| pod.node.as_ref() == Some(node) && pod.controller.is_some();
        let pods: Vec<_> = self.pods.iter().filter(leaves).collect();
        assert!(pods.is_empty() || self.budget_blocks || !may, "rule 6: {node} boots with pods");
        if sim.role == Role::ControlPlane {
            let taken = self.acts.iter().any(|act| act.starts_with("snapshot"));
            assert!(taken, "rule 3: {node} boots without a snapshot");
            let alone = self.nodes.values().filter(|sim| sim.role == Role::ControlPlane).count();
            assert!(alone == 1 || self.leader != *node, "rule 1: {node} leads and boots");
        }
    }
}
