//! What the referee remembers that more than one rule needs: who drives, what
//! each process could know when it began a step, which nodes we disturbed, and
//! whose a cordon is.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::journal::{Entry, Record};
use upgrade_core::plan::{Plan, PlanHash};
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::{Action, StepId};

use super::Wanted;
use super::facts::{self, Facts, Node};
use crate::seen::{Act, Deed, Fate, Question, Runner, Seen, View, What};

/// How long a node that was asked to do something may look as if it had not
/// been asked.
const SLOW: SignedDuration = SignedDuration::from_secs(5);

/// When a question was last answered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answers {
    /// How old the last answer is that said something.
    pub(super) good: Option<Timestamp>,
    /// How old the last one is, if only to say that it is not known.
    pub(super) any: Option<Timestamp>,
    /// In which look the last good one came.
    pub(super) look: u64,
}

impl Answers {
    fn take(&mut self, answered: Timestamp, known: bool, look: u64) {
        self.any = self.any.max(Some(answered));
        if known {
            self.good = self.good.max(Some(answered));
            self.look = look;
        }
    }
}

/// What a process could know when it wrote down that a step begins.
#[derive(Clone, Debug)]
pub(super) struct Basis {
    /// When it wrote that.
    pub(super) at: Timestamp,
    pub(super) hop: u32,
    /// The look that it began on: looks are counted by their first question,
    /// which is for the machines.
    pub(super) look: u64,
    /// Whether that question was answered.
    pub(super) machines: bool,
    pub(super) facts: Answers,
    pub(super) etcd: Answers,
    pub(super) nodes: Answers,
    /// The end of the last disruption before, as it was written down; the start
    /// of the process if there was none.
    pub(super) calm_since: Timestamp,
}

/// A process.
#[derive(Debug)]
pub(super) struct Driver {
    pub(super) plan: Arc<Plan>,
    /// From its first entry on.
    pub(super) hash: Option<PlanHash>,
    pub(super) wanted: Arc<Wanted>,
    pub(super) lives: bool,
    look: u64,
    machines: bool,
    etcd: Answers,
    pub(super) nodes: Answers,
    facts: HashMap<NodeName, Answers>,
    calm_since: Timestamp,
    begun: HashMap<(NodeName, Action), Basis>,
}

impl Driver {
    /// What it was told of a node.
    pub(super) fn facts(&self, node: &NodeName) -> Answers {
        self.facts.get(node).copied().unwrap_or_default()
    }

    /// Whether the node answered in the last look.
    pub(super) fn answered_of(&self, node: &NodeName) -> bool {
        self.machines && self.facts(node).look == self.look
    }

    /// Whether Kubernetes answered in the last look.
    pub(super) fn answered_of_kubernetes(&self) -> bool {
        self.machines && self.nodes.look == self.look
    }

    /// Whether etcd answered in the last look.
    pub(super) fn answered_of_etcd(&self) -> bool {
        self.machines && self.etcd.look == self.look
    }

    /// What it could know when it began the step that this act belongs to.
    pub(super) fn basis(&self, act: &Act) -> Option<&Basis> {
        let node = act.node()?;
        let begun = |action: Action| self.begun.get(&(node.clone(), action));
        let own = begun(action_of(act)?);
        if own.is_none() && matches!(act, Act::Forfeit { .. }) {
            // Leadership that has come back is given away in the step of the boot.
            return [Action::Upgrade, Action::Reboot, Action::Rollback].into_iter().find_map(begun);
        }
        own
    }

    fn asked(&mut self, question: &Question, answered: Timestamp, known: bool) {
        let look = self.look;
        match question {
            Question::Machines => {
                self.look += 1;
                self.machines = known;
            }
            Question::Facts(node) => {
                // Asked far too often to copy the name each time.
                if !self.facts.contains_key(node) {
                    self.facts.insert(node.clone(), Answers::default());
                }
                if let Some(answers) = self.facts.get_mut(node) {
                    answers.take(answered, known, look);
                }
            }
            Question::Etcd => self.etcd.take(answered, known, look),
            Question::Nodes => self.nodes.take(answered, known, look),
            // Half of a look at Kubernetes is none.
            Question::Other("capacity") if !known => self.nodes.take(answered, known, look),
            Question::Images(_) | Question::Other(_) => {}
        }
    }

    fn wrote(&mut self, at: Timestamp, entry: &Entry) {
        self.hash.get_or_insert_with(|| entry.plan.clone());
        match &entry.record {
            Record::Started { step: StepId { hop, node: Some(node), action }, .. } => {
                let basis = Basis {
                    at,
                    hop: *hop,
                    look: self.look,
                    machines: self.machines,
                    facts: self.facts(node),
                    etcd: self.etcd,
                    nodes: self.nodes,
                    calm_since: self.calm_since,
                };
                self.begun.insert((node.clone(), *action), basis);
            }
            Record::Finished { step, .. } if disrupts(step.action) => self.calm_since = at,
            _ => {}
        }
    }
}

/// Whether a step takes something away, for a while at least.
pub(super) fn disrupts(action: Action) -> bool {
    matches!(
        action,
        Action::Cordon
            | Action::Drain
            | Action::Reboot
            | Action::Upgrade
            | Action::Rollback
            | Action::SetKubeApiserver
            | Action::SetKubeControllerManager
            | Action::SetKubeScheduler
            | Action::SetKubelet
    )
}

/// The step that an act belongs to.
pub(super) fn action_of(act: &Act) -> Option<Action> {
    Some(match act {
        Act::Install { .. } => Action::Install,
        Act::Upgrade { .. } => Action::Upgrade,
        Act::Reboot { .. } => Action::Reboot,
        Act::Rollback { .. } => Action::Rollback,
        Act::Forfeit { .. } => Action::Forfeit,
        Act::Cordon { on: true, .. } => Action::Cordon,
        Act::Cordon { on: false, .. } => Action::Uncordon,
        Act::Evict { .. } => Action::Drain,
        Act::Configure { images, .. } => match images.first()?.0.as_str() {
            "kube-apiserver" => Action::SetKubeApiserver,
            "kube-controller-manager" => Action::SetKubeControllerManager,
            "kube-scheduler" => Action::SetKubeScheduler,
            "kube-proxy" => Action::SetKubeProxy,
            _ => Action::SetKubelet,
        },
        Act::Pull { .. } | Act::Snapshot { .. } | Act::Delete { .. } | Act::Apply { .. } => {
            return None;
        }
    })
}

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
        }
    }

    /// Looks at the world before something is judged.
    pub(super) fn look(&mut self, seen: &Seen, view: &View<'_>) {
        let haste = match &seen.what {
            What::Asked { .. } | What::Told { .. } => false,
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

    /// Nodes that serve again without a cordon of ours are themselves again.
    fn forget(&mut self, at: Timestamp, view: &View<'_>) {
        let Self { facts, touched, cordons, .. } = self;
        touched.retain(|name, last| {
            let Some(node) = facts.node(name).filter(|node| !node.gone) else { return false };
            let ours = cordons.get(name) == Some(&Whose::Ours) && facts::is_cordoned(view, name);
            ours || !node.up.value || at.duration_since(*last) < SLOW
        });
    }

    /// Takes in what was judged.
    pub(super) fn take(&mut self, seen: &Seen, view: &View<'_>, wanted: &Arc<Wanted>) {
        let at = seen.at;
        match &seen.what {
            What::Starts { runner, plan, fresh: _ } => {
                let driver = Driver {
                    plan: Arc::clone(plan),
                    hash: None,
                    wanted: Arc::clone(wanted),
                    lives: true,
                    look: 0,
                    machines: false,
                    etcd: Answers::default(),
                    nodes: Answers::default(),
                    facts: HashMap::new(),
                    calm_since: at,
                    begun: HashMap::new(),
                };
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
            What::Act { .. } | What::Told { .. } | What::Boots { .. } | What::Says { .. } => {}
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
                    let whose = if self.never_saw_ours_lifted(node) {
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
            Deed::Reboot { .. } | Deed::Join { .. } | Deed::Breaks { .. } | Deed::Mends { .. } => {}
        }
    }

    /// Whether our cordon was lifted and nobody of us has asked since: whoever sets
    /// one now cannot be told from us.
    fn never_saw_ours_lifted(&self, node: &NodeName) -> bool {
        let Some(Whose::Lifted { since, ours: true }) = self.cordons.get(node) else {
            return false;
        };
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

/// Whether an act takes something away from the cluster.
pub(super) fn is_blow(act: &Act) -> bool {
    action_of(act).is_some_and(|action| disrupts(action) && action != Action::Drain)
}
