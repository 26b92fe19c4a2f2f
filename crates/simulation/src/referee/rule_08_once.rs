//! Rule 8: what disrupts is written down before it is done, and not done again
//! once it has happened.

use std::collections::BTreeMap;

use upgrade_core::plan::PlanHash;
use upgrade_core::snapshot::NodeName;

use super::facts::{self, schematic_in};
use super::notes::{Driver, action_of};
use super::{Rule, Scene};
use crate::seen::{Act, Fate, Seen, What};

#[derive(Default)]
pub(super) struct Once {
    /// The boot that a node was in when a hop of a plan first asked it to boot.
    asked: BTreeMap<(PlanHash, u32, NodeName), String>,
}

impl Once {
    fn boots(&mut self, driver: &Driver, act: &Act, scene: &Scene<'_>) -> Option<String> {
        let (hash, basis) = (driver.hash.as_ref()?, driver.basis(act)?);
        let node = scene.notes.facts.node(act.node()?)?;
        let key = (hash.clone(), basis.hop, node.name.clone());
        let Some(before) = self.asked.get(&key) else {
            self.asked.insert(key, node.boot_id.value.clone());
            return None;
        };
        let looked = driver.facts(&node.name).any;
        if *before != node.boot_id.value {
            let known = looked.is_some_and(|looked| node.boot_id.since < looked);
            return known.then(|| format!("{act:?}, and it has booted since it was first asked"));
        }
        let on_its_way = node.runs.was(&false, looked);
        on_its_way.then(|| format!("{act:?}, and it is on its way already"))
    }

    /// A node that booted what it was given is not given it again.
    fn writes(&self, driver: &Driver, act: &Act, scene: &Scene<'_>) -> Option<String> {
        let (Act::Install { node, image } | Act::Upgrade { node, image }) = act else {
            return None;
        };
        let (hash, basis) = (driver.hash.as_ref()?, driver.basis(act)?);
        let node = scene.notes.facts.node(node)?;
        let before = self.asked.get(&(hash.clone(), basis.hop, node.name.clone()))?;
        let (version, schematic) = facts::installed(scene.view, node)?;
        let same = image.version() == Some(version) && schematic_in(image) == schematic.as_deref();
        let looked = driver.facts(&node.name).any;
        let known = looked.is_some_and(|looked| node.boot_id.since < looked);
        let booted = *before != node.boot_id.value;
        (same && booted && known).then(|| format!("{act:?}, which it runs already"))
    }
}

impl Rule for Once {
    fn number(&self) -> u8 {
        8
    }

    fn see(&mut self, seen: &Seen, scene: &Scene<'_>, found: &mut Vec<String>) {
        let What::Act { runner, act, fate } = &seen.what else { return };
        let Some(driver) = scene.notes.drivers.get(runner) else { return };
        if action_of(act).is_some() && act.node().is_some() && driver.basis(act).is_none() {
            found.push(format!("{act:?} was not written down before"));
        }
        if *fate == Fate::Lost {
            return;
        }
        found.extend(self.writes(driver, act, scene));
        if act.boots() {
            found.extend(self.boots(driver, act, scene));
        }
    }
}
