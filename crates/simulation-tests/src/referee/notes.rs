//! The referee's notes for more than one rule: which process drives, which nodes we disrupted, and
//! who owns each cordon.

use std::collections::BTreeMap;
use std::sync::Arc;

use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::journal::Record;
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::Action;

use super::Wanted;
use super::driver::{Basis, Driver, action_of, disrupts};
use super::facts::{self, Facts, Node};
use crate::trace::{Act, ExternalAction, Fate, ProcessId, TraceEvent, TraceKind, View};

/// How long a node that received a request may look as if it had not.
const SLOW: SignedDuration = SignedDuration::from_secs(5);

/// The owner of a cordon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// We set it.
    Ours,
    /// Someone else set it.
    Theirs {
        /// When it was set.
        since: Timestamp,
    },
    /// Someone else lifted it.
    Lifted {
        /// When it was lifted.
        since: Timestamp,
        /// Whether it was ours.
        ours: bool,
    },
}

/// An arriving disruptive act.
pub(super) struct Blow<'a> {
    pub(super) act: &'a Act,
    pub(super) driver: &'a Driver,
    pub(super) node: &'a Node,
    pub(super) basis: Option<&'a Basis>,
}

/// The notes.
#[derive(Debug)]
pub(super) struct Notes {
    pub(super) facts: Facts,
    pub(super) drivers: BTreeMap<ProcessId, Driver>,
    /// The process that wrote last, and since when it has been the writer.
    pub(super) holder: Option<(ProcessId, Timestamp)>,
    /// Nodes that we acted on, and when last, until they serve again.
    touched: BTreeMap<NodeName, Timestamp>,
    cordons: BTreeMap<NodeName, Whose>,
    /// The number of faults on each node that we cannot fix.
    faults: BTreeMap<NodeName, u32>,
    /// Nodes that someone else reboots, and whether they have booted since, until they serve again.
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
            faults: BTreeMap::new(),
            rebooted: BTreeMap::new(),
        }
    }

    /// Reads the world before an event is judged.
    pub(super) fn observe(&mut self, seen: &TraceEvent, view: &View<'_>) {
        let haste = match &seen.what {
            TraceKind::Asked { .. } | TraceKind::Reported { .. } | TraceKind::Installs { .. } => {
                false
            }
            TraceKind::Act { act, .. } => action_of(act).is_some_and(|it| it != Action::Drain),
            TraceKind::Wrote { entry, .. } => match &entry.record {
                Record::Started { step, .. } | Record::Finished { step, .. } => {
                    disrupts(step.action)
                        || matches!(step.action, Action::Verify | Action::Uncordon)
                }
                _ => false,
            },
            _ => true,
        };
        self.facts.refresh(seen.at, view, haste);
        if haste {
            self.forget(seen.at, view);
        }
    }

    /// Reads the world at the end.
    pub(super) fn observe_end(&mut self, at: Timestamp, view: &View<'_>) {
        self.facts.refresh(at, view, true);
        self.forget(at, view);
    }

    /// Clears nodes that serve again without a cordon of ours. A control plane serves when its API
    /// server and its etcd answer, whatever the machine reports.
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

    /// Records an event after it was judged.
    pub(super) fn take(&mut self, seen: &TraceEvent, view: &View<'_>, wanted: &Arc<Wanted>) {
        let at = seen.at;
        match &seen.what {
            TraceKind::Starts { runner, plan, fresh: _ } => {
                let driver = Driver::new(at, plan, wanted);
                self.drivers.insert(*runner, driver);
            }
            TraceKind::Dies { runner } | TraceKind::Ends { runner, .. } => {
                if let Some(driver) = self.drivers.get_mut(runner) {
                    driver.lives = false;
                }
            }
            TraceKind::Wrote { runner, entry } => {
                if self.holder.is_none_or(|(holder, _)| holder < *runner) {
                    self.holder = Some((*runner, at));
                }
                if let Some(driver) = self.drivers.get_mut(runner) {
                    driver.wrote(at, entry);
                }
            }
            TraceKind::Asked { runner, question, answered, known } => {
                if let Some(driver) = self.drivers.get_mut(runner) {
                    driver.asked(question, *answered, *known);
                }
            }
            TraceKind::Act { runner, act, fate: Fate::Arrives } => {
                self.acted(at, *runner, act, view);
            }
            TraceKind::External { action } => {
                self.facts.disturb();
                self.others(at, action, view);
            }
            TraceKind::Boots { node } => {
                if let Some(booted) = self.rebooted.get_mut(node) {
                    *booted = true;
                }
            }
            TraceKind::Act { .. }
            | TraceKind::Installs { .. }
            | TraceKind::Reported { .. }
            | TraceKind::User { .. } => {}
        }
    }

    fn acted(&mut self, at: Timestamp, runner: ProcessId, act: &Act, view: &View<'_>) {
        let Some(node) = act.node() else { return };
        if let Act::Cordon { on: true, .. } = act {
            let knew = self.drivers.get(&runner).and_then(|it| it.basis(act)?.nodes.good);
            let whose = match self.cordons.get(node) {
                // Set after our last question: we cannot know that it is not ours.
                Some(Whose::Theirs { since }) if knew.is_none_or(|knew| knew <= *since) => {
                    Whose::Ours
                }
                Some(whose) if facts::is_cordoned(view, node) => *whose,
                None if facts::is_cordoned(view, node) => Whose::Theirs { since: at },
                _ => Whose::Ours,
            };
            self.cordons.insert(node.clone(), whose);
        }
        if let Act::Cordon { on: false, .. } = act
            && self.cordons.get(node) == Some(&Whose::Ours)
        {
            self.cordons.remove(node);
        }
        if matches!(act, Act::Cordon { .. }) && is_blow(act) {
            // A cordoned node still serves: it is back as soon as the cordon is lifted.
            let before = at.saturating_sub(SLOW).unwrap_or(at);
            self.touched.entry(node.clone()).or_insert(before);
        } else if is_blow(act) {
            self.touched.insert(node.clone(), at);
        }
    }

    fn others(&mut self, at: Timestamp, action: &ExternalAction, view: &View<'_>) {
        match action {
            ExternalAction::Cordon { node, on: true } => {
                if !facts::is_cordoned(view, node) {
                    let ours = self.ours_vanished_unseen(node);
                    let whose = if ours { Whose::Ours } else { Whose::Theirs { since: at } };
                    self.cordons.insert(node.clone(), whose);
                }
            }
            ExternalAction::Cordon { node, on: false } => {
                let ours = self.cordons.get(node) == Some(&Whose::Ours);
                self.cordons.insert(node.clone(), Whose::Lifted { since: at, ours });
            }
            ExternalAction::Leave { node } => {
                self.cordons.remove(node);
                self.touched.remove(node);
            }
            ExternalAction::Breaks { node, .. } => {
                *self.faults.entry(node.clone()).or_default() += 1;
            }
            ExternalAction::Mends { node, .. } => {
                let faults = self.faults.entry(node.clone()).or_default();
                *faults = faults.saturating_sub(1);
            }
            ExternalAction::Reboot { node } => drop(self.rebooted.insert(node.clone(), false)),
            ExternalAction::Arms { .. }
            | ExternalAction::Join { .. }
            | ExternalAction::Registers { .. }
            | ExternalAction::Stages { .. }
            | ExternalAction::Wires { .. } => {}
        }
    }

    /// Whether someone else lifted our cordon, and no process of ours has asked since. Our mark is
    /// still on the node, so a cordon set now cannot be told from ours.
    fn ours_vanished_unseen(&self, node: &NodeName) -> bool {
        let Some(Whose::Lifted { since, ours: true }) = self.cordons.get(node) else {
            return false;
        };
        let asked = |driver: &Driver| driver.nodes.good.is_some_and(|good| good > *since);
        !self.drivers.values().any(asked)
    }

    /// The owner of the node's cordon when it was last changed.
    pub(super) fn whose(&self, node: &NodeName) -> Option<Whose> {
        self.cordons.get(node).copied()
    }

    /// Nodes with a cordon of ours.
    pub(super) fn our_cordons<'a>(
        &'a self,
        view: &'a View<'_>,
    ) -> impl Iterator<Item = &'a NodeName> {
        let ours = self.cordons.iter().filter(|(_, whose)| **whose == Whose::Ours);
        ours.map(|(node, _)| node).filter(|node| facts::is_cordoned(view, node))
    }

    /// Nodes that we disrupted and that are not back.
    pub(super) fn disturbed(&self) -> impl Iterator<Item = &NodeName> {
        self.touched.keys()
    }

    /// Whether we disrupted the node and it is not back.
    pub(super) fn is_disturbed(&self, node: &NodeName) -> bool {
        self.touched.contains_key(node)
    }

    /// Whether the node has a fault that we cannot fix.
    pub(super) fn is_broken(&self, node: &NodeName) -> bool {
        self.faults.get(node).is_some_and(|faults| *faults > 0)
    }

    /// Whether someone else reboots the node and it is not back.
    pub(super) fn is_theirs(&self, node: &NodeName) -> bool {
        self.rebooted.contains_key(node)
    }

    /// The event, if it is an arriving disruptive act.
    pub(super) fn blow<'a>(&'a self, seen: &'a TraceEvent) -> Option<Blow<'a>> {
        let TraceKind::Act { runner, act, fate: Fate::Arrives } = &seen.what else { return None };
        if !is_blow(act) {
            return None;
        }
        let driver = self.drivers.get(runner)?;
        let node = self.facts.node(act.node()?).filter(|node| !node.gone)?;
        Some(Blow { act, driver, node, basis: driver.basis(act) })
    }
}

/// Whether an act is disruptive.
pub(super) fn is_blow(act: &Act) -> bool {
    action_of(act).is_some_and(|action| disrupts(action) && action != Action::Drain)
}
