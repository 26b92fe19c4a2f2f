//! Rule 3: before a plan first disrupts a control plane, it has an etcd snapshot, stored outside
//! the cluster.

use std::collections::BTreeSet;

use upgrade_core::plan::PlanHash;

use super::{Rule, Scene};
use crate::trace::{Act, Fate, TraceEvent, TraceKind};

#[derive(Default)]
pub(super) struct Snapshot {
    /// Plans with a snapshot, from any process.
    taken: BTreeSet<PlanHash>,
}

impl Rule for Snapshot {
    fn number(&self) -> u8 {
        3
    }

    fn see(&mut self, seen: &TraceEvent, scene: &Scene<'_>, found: &mut Vec<String>) {
        if let TraceKind::Act { runner, act: Act::Snapshot, fate: Fate::Arrives } = &seen.what {
            let driver = scene.notes.drivers.get(runner);
            self.taken.extend(driver.and_then(|driver| driver.hash.clone()));
            return;
        }
        let Some(blow) = scene.notes.blow(seen).filter(|blow| blow.node.control_plane) else {
            return;
        };
        if !blow.driver.hash.as_ref().is_some_and(|hash| self.taken.contains(hash)) {
            found.push(format!("{:?} without an etcd snapshot", blow.act));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;

    #[test]
    fn no_control_plane_is_disrupted_without_a_snapshot() {
        let mut bench = Bench::new(3, 1);
        bench.starts(1);
        bench.take(1, "worker-1");
        bench.verify_and_uncordon(1, "worker-1");
        bench.assert_broken(&[]);
        let names = bench.control_planes();
        bench.take(1, &names[0]);
        bench.assert_broken(&[3]);
    }

    #[test]
    fn a_snapshot_of_an_earlier_process_counts() {
        let mut bench = Bench::new(3, 1);
        bench.ready(1);
        bench.see(crate::trace::TraceKind::Dies { runner: 1 });
        bench.starts(2);
        let names = bench.control_planes();
        bench.take(2, &names[0]);
        bench.assert_broken(&[]);
    }
}
