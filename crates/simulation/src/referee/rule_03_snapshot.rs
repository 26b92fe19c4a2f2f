//! Rule 3: before a plan first disrupts a control plane, an etcd snapshot was
//! taken for it, and lies off the cluster.

use std::collections::BTreeSet;

use upgrade_core::plan::PlanHash;

use super::{Rule, Scene};
use crate::seen::{Act, Fate, Seen, What};

#[derive(Default)]
pub(super) struct Snapshot {
    /// Plans that have one, whichever process took it.
    taken: BTreeSet<PlanHash>,
}

impl Rule for Snapshot {
    fn number(&self) -> u8 {
        3
    }

    fn see(&mut self, seen: &Seen, scene: &Scene<'_>, found: &mut Vec<String>) {
        if let What::Act { runner, act: Act::Snapshot { .. }, fate: Fate::Arrives } = &seen.what {
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
