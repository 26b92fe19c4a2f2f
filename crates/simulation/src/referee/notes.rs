//! What the referee remembers that more than one rule needs: who drives, which
//! nodes we disturbed, and whose a cordon is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::journal::{Outcome, Record};
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::Action;

use super::Wanted;
use super::driver::{Basis, Driver, action_of, disrupts};
use super::facts::{self, Facts, Node};
use crate::seen::{Act, Deed, Fate, Runner, Seen, View, What};

/// How long a node that was asked to do something may look as if it had not
/// been asked.
const SLOW: SignedDuration = SignedDuration::from_secs(5);

/// Whose a cordon is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// We set it.
    Ours,
    /// Somebody else set it.
    Theirs {
        /// When.
        since: Timestamp,
    },
    /// Somebody else lifted it.
    Lifted {
        /// When.
        since: Timestamp,
        /// Whether it was ours.
        ours: bool,
    },
}

/// An arriving act that takes something away from the cluster.
pub(super) struct Blow<'a> {
    pub(super) act: &'a Act,
    pub(super) driver: &'a Driver,
    pub(super) node: &'a Node,
    pub(super) basis: Option<&'a Basis>,
}

/// All of it.
#[derive(Debug)]
pub(super) struct Notes {
    pub(super) facts: Facts,
    pub(super) drivers: BTreeMap<Runner, Driver>,
    /// Who wrote last, and since when it is the one that does.
    pub(super) holder: Option<(Runner, Timestamp)>,
    /// Nodes that we did something to, and when last, until they serve again.
    touched: BTreeMap<NodeName, Timestamp>,
    cordons: BTreeMap<NodeName, Whose>,
    /// Nodes whose cordon we lifted without having written that it is done, and
    /// when.
    lifting: BTreeMap<NodeName, Timestamp>,
    /// Nodes whose cordon is written down as begun, and not as ended: one that
    /// somebody sets meanwhile cannot be told from ours.
    cordoning: BTreeSet<NodeName>,
    /// How many faults nodes have that we cannot help.
    faults: BTreeMap<NodeName, u32>,
    /// Nodes that somebody else reboots, and whether they have booted since, until
    /// they serve again.
    rebooted: BTreeMap<NodeName, bool>,
}

impl Notes {
    pub(super) fn new(start: Timestamp, view: &View<'_>) -> Self {
        let facts = Facts::new(start, view);
        let found = facts.nodes().filter(|node| facts::is_cordoned(view, &node.name));
        let cordons = found.map(|node| (node.name.clone(), Whose::Theirs { since: start }));
        Self {
            cordons: cordons.collect(),
            facts,
            drivers: BTreeMap::new(),
            holder: None,
            touched: BTreeMap::new(),
            lifting: BTreeMap::new(),
            cordoning: BTreeSet::new(),
            faults: BTreeMap::new(),
            rebooted: BTreeMap::new(),
        }
    }

    /// Looks at the world before something is judged.
    pub(super) fn look(&mut self, seen: &Seen, view: &View<'_>) {
        let haste = match &seen.what {
            What::Asked { .. } | What::Told { .. } | What::Installs { .. } => false,
            What::Act { act, .. } => action_of(act).is_some_and(|it| it != Action::Drain),
            What::Wrote { entry, .. } => match &entry.record {
                Record::Started { step, .. } | Record::Finished { step, .. } => {
                    disrupts(step.action)
                        || matches!(step.action, Action::Verify | Action::Uncordon)
                }
                _ => false,
            },
            _ => true,
        };
        self.facts.look(seen.at, view, haste);
        if haste {
            self.forget(seen.at, view);
        }
    }

    /// Looks at the world at the end.
    pub(super) fn look_again(&mut self, at: Timestamp, view: &View<'_>) {
        self.facts.look(at, view, true);
        self.forget(at, view);
    }

    /// Nodes that serve again without a cordon of ours are themselves again. A control
    /// plane serves when its API server and its etcd answer, whatever the machine says.
    fn forget(&mut self, at: Timestamp, view: &View<'_>) {
        let Self { facts, touched, cordons, rebooted, .. } = self;
        let serves = |name: &NodeName| facts.node(name).is_some_and(|node| node.up.value);
        rebooted.retain(|name, booted| !(*booted && serves(name)));
        touched.retain(|name, last| {
            let Some(node) = facts.node(name).filter(|node| !node.gone) else { return false };
            let ours = cordons.get(name) == Some(&Whose::Ours) && facts::is_cordoned(view, name);
            ours || !node.up.value || !node.controls.value || at.duration_since(*last) < SLOW
        });
    }

    /// Takes in what was judged.
    pub(super) fn take(&mut self, seen: &Seen, view: &View<'_>, wanted: &Arc<Wanted>) {
        let at = seen.at;
        match &seen.what {
            What::Starts { runner, plan, fresh: _ } => {
                let driver = Driver::new(at, plan, wanted);
                self.drivers.insert(*runner, driver);
            }
            What::Dies { runner } | What::Ends { runner, .. } => {
                if let Some(driver) = self.drivers.get_mut(runner) {
                    driver.lives = false;
                }
            }
            What::Wrote { runner, entry } => {
                if self.holder.is_none_or(|(holder, _)| holder < *runner) {
                    self.holder = Some((*runner, at));
                }
                match &entry.record {
                    Record::Started { step, .. } if step.action == Action::Cordon => {
                        self.cordoning.extend(step.node.clone());
                    }
                    Record::Finished { step, .. } if step.action == Action::Cordon => {
                        self.cordoning.retain(|node| Some(node) != step.node.as_ref());
                    }
                    _ => {}
                }
                if let Some(node) = lifted(&entry.record) {
                    self.lifting.remove(node);
                }
                if let Some(driver) = self.drivers.get_mut(runner) {
                    driver.wrote(at, entry);
                }
            }
            What::Asked { runner, question, answered, known } => {
                if let Some(driver) = self.drivers.get_mut(runner) {
                    driver.asked(question, *answered, *known);
                }
            }
            What::Act { runner, act, fate: Fate::Arrives } => self.acted(at, *runner, act, view),
            What::Others { deed } => {
                self.facts.disturb();
                self.others(at, deed, view);
            }
            What::Boots { node } => {
                if let Some(booted) = self.rebooted.get_mut(node) {
                    *booted = true;
                }
            }
            What::Act { .. } | What::Installs { .. } | What::Told { .. } | What::Says { .. } => {}
        }
    }

    fn acted(&mut self, at: Timestamp, runner: Runner, act: &Act, view: &View<'_>) {
        let Some(node) = act.node() else { return };
        if let Act::Cordon { on: true, .. } = act {
            let knew = self.drivers.get(&runner).and_then(|it| it.basis(act)?.nodes.good);
            let whose = match self.cordons.get(node) {
                // Set after we last asked: we cannot have known that it is not ours.
                Some(Whose::Theirs { since }) if knew.is_none_or(|knew| knew <= *since) => {
                    Whose::Ours
                }
                Some(whose) if facts::is_cordoned(view, node) => *whose,
                None if facts::is_cordoned(view, node) => Whose::Theirs { since: at },
                _ => Whose::Ours,
            };
            self.cordons.insert(node.clone(), whose);
        }
        if let Act::Cordon { on: false, .. } = act {
            self.lifting.insert(node.clone(), at);
        }
        if matches!(act, Act::Cordon { .. }) && is_blow(act) {
            // What is cordoned serves on: it is given back as soon as that is over.
            let before = at.saturating_sub(SLOW).unwrap_or(at);
            self.touched.entry(node.clone()).or_insert(before);
        } else if is_blow(act) {
            self.touched.insert(node.clone(), at);
        }
    }

    fn others(&mut self, at: Timestamp, deed: &Deed, view: &View<'_>) {
        match deed {
            Deed::Cordon { node, on: true } => {
                if !facts::is_cordoned(view, node) {
                    let whose = if self.nobody_saw_ours_gone(node) || self.cordoning.contains(node)
                    {
                        Whose::Ours
                    } else {
                        Whose::Theirs { since: at }
                    };
                    self.cordons.insert(node.clone(), whose);
                }
            }
            Deed::Cordon { node, on: false } => {
                let ours = self.cordons.get(node) == Some(&Whose::Ours);
                self.cordons.insert(node.clone(), Whose::Lifted { since: at, ours });
            }
            Deed::Leave { node } => {
                self.cordons.remove(node);
                self.touched.remove(node);
            }
            Deed::Breaks { node, .. } => *self.faults.entry(node.clone()).or_default() += 1,
            Deed::Mends { node, .. } => {
                let faults = self.faults.entry(node.clone()).or_default();
                *faults = faults.saturating_sub(1);
            }
            Deed::Reboot { node } => drop(self.rebooted.insert(node.clone(), false)),
            Deed::Arms { .. }
            | Deed::Join { .. }
            | Deed::Registers { .. }
            | Deed::Stages { .. }
            | Deed::Wires { .. } => {}
        }
    }

    /// Whether our cordon is gone and nobody of us can know it: somebody else lifted
    /// it, or the answer to our own lifting was lost, and none of us has asked since.
    /// Whoever sets one now cannot be told from us.
    fn nobody_saw_ours_gone(&self, node: &NodeName) -> bool {
        let since = match self.cordons.get(node) {
            Some(Whose::Lifted { since, ours: true }) => Some(since),
            Some(Whose::Ours) => self.lifting.get(node),
            _ => None,
        };
        let Some(since) = since else { return false };
        let asked = |driver: &Driver| driver.nodes.good.is_some_and(|good| good > *since);
        !self.drivers.values().any(asked)
    }

    /// Whose the node's cordon was when it was last touched.
    pub(super) fn whose(&self, node: &NodeName) -> Option<Whose> {
        self.cordons.get(node).copied()
    }

    /// Nodes with a cordon that we set and that stands.
    pub(super) fn our_cordons<'a>(
        &'a self,
        view: &'a View<'_>,
    ) -> impl Iterator<Item = &'a NodeName> {
        let ours = self.cordons.iter().filter(|(_, whose)| **whose == Whose::Ours);
        ours.map(|(node, _)| node).filter(|node| facts::is_cordoned(view, node))
    }

    /// Nodes that we took away and that are not back.
    pub(super) fn disturbed(&self) -> impl Iterator<Item = &NodeName> {
        self.touched.keys()
    }

    /// Whether we took the node away, and it is not back.
    pub(super) fn is_disturbed(&self, node: &NodeName) -> bool {
        self.touched.contains_key(node)
    }

    /// Whether the node has a fault that we cannot help.
    pub(super) fn is_broken(&self, node: &NodeName) -> bool {
        self.faults.get(node).is_some_and(|faults| *faults > 0)
    }

    /// Whether somebody else reboots the node, and it is not back.
    pub(super) fn is_theirs(&self, node: &NodeName) -> bool {
        self.rebooted.contains_key(node)
    }

    /// What is seen, if it is an arriving act that takes something away.
    pub(super) fn blow<'a>(&'a self, seen: &'a Seen) -> Option<Blow<'a>> {
        let What::Act { runner, act, fate: Fate::Arrives } = &seen.what else { return None };
        if !is_blow(act) {
            return None;
        }
        let driver = self.drivers.get(runner)?;
        let node = self.facts.node(act.node()?).filter(|node| !node.gone)?;
        Some(Blow { act, driver, node, basis: driver.basis(act) })
    }
}

/// The node whose cordon is lifted for certain, by what was written.
fn lifted(record: &Record) -> Option<&NodeName> {
    match record {
        Record::Lifted { node } => Some(node),
        Record::Finished { step, outcome: Outcome::Done { .. }, .. } => {
            step.node.as_ref().filter(|_| step.action == Action::Uncordon)
        }
        _ => None,
    }
}

/// Whether an act takes something away from the cluster.
pub(super) fn is_blow(act: &Act) -> bool {
    action_of(act).is_some_and(|action| disrupts(action) && action != Action::Drain)
}
