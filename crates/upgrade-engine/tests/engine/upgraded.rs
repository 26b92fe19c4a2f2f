//! What a run that ended well leaves.

use std::collections::BTreeMap;

use upgrade_core::snapshot::Role;

use crate::common::{Driver, boots_of};

impl Driver {
    /// Everything is as the plan wanted it, and nothing happened twice.
    pub(crate) fn assert_upgraded(&self, to: &str) {
        let cluster = self.world.cluster();
        for (name, sim) in &cluster.nodes {
            assert_eq!(sim.version, to.parse().unwrap(), "{name}");
            assert!(sim.ready && sim.node_ready, "{name}");
            assert!(sim.role == Role::Worker || sim.api, "{name}: its API server does not answer");
        }
        assert!(cluster.cordoned().is_empty(), "rule 7: {:?}", cluster.cordoned());
        let mut boots = BTreeMap::<&str, usize>::new();
        for act in cluster.acts.iter().filter(|it| it.starts_with("boot ")) {
            *boots.entry(act).or_default() += 1;
        }
        assert_eq!(boots.len(), cluster.nodes.len());
        drop(cluster);
        for (act, times) in boots_of(&self.world) {
            assert_eq!(times, 1, "rule 8: {act}\n{}", self.trace());
        }
    }
}
