//! Which nodes are unavailable right now (rules 1 and 6).

use std::collections::{BTreeMap, BTreeSet};

use upgrade_core::plan::Change;
use upgrade_core::snapshot::{NodeName, Role, Snapshot};

use super::Run;
use super::lane::{HopView, LaneView};

/// Nodes that do not serve, that we cordoned, or whose lane is under way, by
/// the limit that counts for them.
pub(super) struct Away<'a> {
    control_planes: BTreeSet<&'a NodeName>,
    workers: BTreeMap<Option<&'a str>, BTreeSet<&'a NodeName>>,
    entered: BTreeSet<&'a NodeName>,
}

impl<'a> Away<'a> {
    pub(super) fn new(run: &Run<'a>) -> Self {
        let mut away = Self {
            control_planes: BTreeSet::new(),
            workers: BTreeMap::new(),
            entered: BTreeSet::new(),
        };
        // A kubelet that restarts takes no pod away, so workers that are down
        // for other reasons do not count against its width.
        let only_entered = matches!(run.hop.hop.change, Change::Kubernetes { .. });
        let down = run.snapshot.nodes.iter().filter(|(_, node)| !node.is_up());
        for name in down.map(|(name, _)| name).chain(run.state.our_cordons()) {
            let is_worker =
                run.snapshot.nodes.get(name).is_some_and(|node| node.role == Role::Worker);
            if !(only_entered && is_worker) {
                away.add(&run.hop, name, run.snapshot);
            }
        }
        for lane in run.hop.lanes().filter(LaneView::is_entered) {
            away.enter(&run.hop, &lane, run.snapshot);
        }
        away
    }

    /// Counts a lane that is under way, or is about to be.
    pub(super) fn enter(&mut self, hop: &HopView<'a>, lane: &LaneView<'a>, snapshot: &Snapshot) {
        if let Some(name) = &lane.lane.node {
            self.entered.insert(name);
            self.add(hop, name, snapshot);
        }
    }

    fn add(&mut self, hop: &HopView<'a>, name: &'a NodeName, snapshot: &Snapshot) {
        match snapshot.nodes.get(name) {
            Some(node) if node.role == Role::Worker => {
                let (pool, _) = hop.hop.limit_for(node.pool.as_deref());
                self.workers.entry(pool).or_default().insert(name);
            }
            // A node that left the cluster may have been a control plane: unknown
            // is unsafe (rule 10).
            _ => {
                self.control_planes.insert(name);
            }
        }
    }

    pub(super) fn control_planes(&self) -> impl Iterator<Item = &'a NodeName> {
        self.control_planes.iter().copied()
    }

    /// Those away whose limit is the pool's own, or the shared one.
    pub(super) fn workers(&self, pool: Option<&str>) -> impl Iterator<Item = &NodeName> {
        let found = self.workers.iter().find(|(key, _)| **key == pool);
        found.into_iter().flat_map(|(_, names)| names.iter().copied())
    }

    pub(super) fn is_entered(&self, name: &NodeName) -> bool {
        self.entered.contains(name)
    }
}
