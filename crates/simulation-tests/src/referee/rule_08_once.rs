//! Rule 8: a disruptive act is recorded before it is done, and not repeated once it has happened.

use std::collections::{BTreeMap, BTreeSet};

use upgrade_core::journal::Record;
use upgrade_core::plan::PlanHash;
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::Action;

use super::driver::{Driver, action_of};
use super::facts::{self, schematic_in};
use super::{Rule, Scene};
use crate::trace::{Act, Fate, TraceEvent, TraceKind};

#[derive(Default)]
pub(super) struct Once {
    /// The boot of a node when a hop of a plan first requested its reboot.
    asked: BTreeMap<(PlanHash, u32, NodeName), String>,
    /// Nodes whose adopted cordon a run has recorded: lifting it needs no other entry.
    inherited: BTreeSet<NodeName>,
    /// Nodes whose installer was called in the current attempt.
    called: BTreeSet<NodeName>,
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
        let answered = driver.facts(&node.name).any;
        if *before != node.boot_id.value {
            let known = answered.is_some_and(|answered| node.boot_id.since < answered);
            return known
                .then(|| format!("{act:?}, but it has already booted since the first request"));
        }
        let on_its_way = node.runs.was(&false, answered);
        on_its_way.then(|| format!("{act:?}, but its reboot is already in progress"))
    }

    /// A node that booted an installer does not get it again.
    fn writes(&self, driver: &Driver, act: &Act, scene: &Scene<'_>) -> Option<String> {
        let (Act::Install { node, image } | Act::Upgrade { node, image, .. }) = act else {
            return None;
        };
        let (hash, basis) = (driver.hash.as_ref()?, driver.basis(act)?);
        let node = scene.notes.facts.node(node)?;
        let before = self.asked.get(&(hash.clone(), basis.hop, node.name.clone()))?;
        let (version, schematic) = facts::installed(scene.view, node)?;
        let same = image.version() == Some(version) && schematic_in(image) == schematic.as_deref();
        let answered = driver.facts(&node.name).any;
        let known = answered.is_some_and(|answered| node.boot_id.since < answered);
        let booted = *before != node.boot_id.value;
        (same && booted && known).then(|| format!("{act:?}, but it already runs this"))
    }
}

impl Rule for Once {
    fn number(&self) -> u8 {
        8
    }

    fn see(&mut self, seen: &TraceEvent, scene: &Scene<'_>, found: &mut Vec<String>) {
        if let TraceKind::Wrote { entry, .. } = &seen.what
            && let Record::Inherited { cordons, .. } = &entry.record
        {
            self.inherited.extend(cordons.iter().cloned());
        }
        if let TraceKind::Wrote { entry, .. } = &seen.what
            && let Record::Started { step, .. } = &entry.record
            && let (Some(node), Action::Install) = (&step.node, step.action)
        {
            self.called.remove(node);
        }
        let TraceKind::Act { runner, act, fate } = &seen.what else { return };
        let uncordons =
            matches!(act, Act::Cordon { node, on: false } if self.inherited.contains(node));
        if uncordons {
            return;
        }
        let Some(driver) = scene.notes.drivers.get(runner) else { return };
        if action_of(act).is_some() && act.node().is_some() && driver.basis(act).is_none() {
            found.push(format!("{act:?} was not recorded before"));
        }
        if let Act::Install { node, .. } = act
            && !self.called.insert(node.clone())
        {
            // This includes a lost call: its sender cannot know that.
            found.push(format!("{act:?} is sent twice in one attempt"));
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

#[cfg(test)]
mod tests {
    use talos_sim::model::Fault;

    use super::super::testing::Bench;
    use crate::trace::{Act, TraceKind};

    fn reboot(bench: &mut Bench, runner: u32) {
        bench.wait(1);
        bench.observe(runner);
        bench.begins(runner, "1/worker-1/reboot");
        let mode = upgrade_core::plan::RebootMode::Default;
        bench.act(runner, Act::Reboot { node: "worker-1".into(), mode });
    }

    fn first() -> Bench {
        let mut bench = Bench::new(1, 2);
        bench.ready(1);
        bench.take(1, "worker-1");
        bench.drain(1, "worker-1");
        bench
    }

    #[test]
    fn no_node_boots_twice() {
        let mut bench = first();
        reboot(&mut bench, 1);
        bench.see(TraceKind::Dies { runner: 1 });
        bench.wait(240);
        bench.starts(2);
        bench.wait(1);
        bench.assert_broken(&[]);
        reboot(&mut bench, 2);
        bench.assert_broken(&[8]);
    }

    #[test]
    fn no_node_is_rebooted_while_it_reboots() {
        let mut bench = first();
        reboot(&mut bench, 1);
        bench.wait(5);
        bench.observe(1);
        bench.wait(5);
        reboot(&mut bench, 1);
        assert!(bench.broken().contains(&8), "{:?}", bench.referee.breaches());
    }

    #[test]
    fn a_node_that_missed_the_request_may_get_it_again() {
        let mut bench = first();
        bench.inject("worker-1", &Fault::LostReboot);
        reboot(&mut bench, 1);
        bench.wait(120);
        reboot(&mut bench, 1);
        bench.assert_broken(&[]);
    }

    #[test]
    fn leadership_that_returned_belongs_to_the_step_of_the_boot() {
        let mut bench = Bench::new(3, 0);
        bench.ready(1);
        bench.act(1, Act::Forfeit { node: "cp-1".into() });
        assert!(bench.broken().contains(&8), "{:?}", bench.referee.breaches());
        let mut bench = Bench::new(3, 0);
        bench.ready(1);
        bench.begins(1, "1/cp-1/reboot");
        bench.act(1, Act::Forfeit { node: "cp-1".into() });
        assert!(!bench.broken().contains(&8), "{:?}", bench.referee.breaches());
    }

    #[test]
    fn an_act_is_recorded_before_it_is_done() {
        let mut bench = Bench::new(1, 2);
        bench.ready(1);
        bench.act(1, Act::Cordon { node: "worker-1".into(), on: true });
        bench.assert_broken(&[8]);
    }
}
