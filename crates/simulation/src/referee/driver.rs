//! A process, as the referee knows it: what it asked, what it could know when it
//! began a step, and which step an act belongs to.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use upgrade_core::jiff::Timestamp;
use upgrade_core::journal::{Entry, Record};
use upgrade_core::plan::{Plan, PlanHash};
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::{Action, StepId};

use super::Wanted;
use crate::seen::{Act, Question};

/// When a question was last answered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answers {
    /// How old the last answer is that said something.
    pub(super) good: Option<Timestamp>,
    /// How old the last one is, if only to say that it is not known.
    pub(super) any: Option<Timestamp>,
    /// In which look the last good one came.
    pub(super) look: u64,
    /// In which look it was last asked.
    asked: u64,
}

impl Answers {
    fn take(&mut self, answered: Timestamp, known: bool, look: u64) {
        self.any = self.any.max(Some(answered));
        self.asked = look;
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
    /// The machines that were asked in that look, whether they answered or not.
    pub(super) asked: BTreeSet<NodeName>,
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
    /// The last look in which only a part of Kubernetes answered.
    half: Option<u64>,
    facts: HashMap<NodeName, Answers>,
    slots: HashMap<NodeName, Answers>,
    calm_since: Timestamp,
    begun: HashMap<(NodeName, Action), Basis>,
}

impl Driver {
    /// One that starts.
    pub(super) fn new(at: Timestamp, plan: &Arc<Plan>, wanted: &Arc<Wanted>) -> Self {
        Self {
            plan: Arc::clone(plan),
            hash: None,
            wanted: Arc::clone(wanted),
            lives: true,
            look: 0,
            machines: false,
            etcd: Answers::default(),
            nodes: Answers::default(),
            half: None,
            facts: HashMap::new(),
            slots: HashMap::new(),
            calm_since: at,
            begun: HashMap::new(),
        }
    }

    /// What it was told of a node.
    pub(super) fn facts(&self, node: &NodeName) -> Answers {
        self.facts.get(node).copied().unwrap_or_default()
    }

    /// When it was last told what a node boots next.
    pub(super) fn slots(&self, node: &NodeName) -> Option<Timestamp> {
        self.slots.get(node).and_then(|answers| answers.good)
    }

    /// Whether the node answered in the last look.
    pub(super) fn answered_of(&self, node: &NodeName) -> bool {
        self.machines && self.facts(node).look == self.look
    }

    /// Whether Kubernetes answered in the last look.
    pub(super) fn answered_of_kubernetes(&self) -> bool {
        self.machines && self.nodes.look == self.look && self.half != Some(self.look)
    }

    /// Whether Kubernetes answered after the machines were last asked for, even if they
    /// did not come.
    pub(super) fn heard_kubernetes(&self) -> bool {
        self.nodes.look == self.look && self.half != Some(self.look)
    }

    /// Whether etcd answered in the last look.
    pub(super) fn answered_of_etcd(&self) -> bool {
        self.machines && self.etcd.look == self.look
    }

    /// Whether the node was asked in the last look, answered or not.
    pub(super) fn asked_of(&self, node: &NodeName) -> bool {
        self.facts(node).asked == self.look
    }

    fn asked_in(&self, look: u64) -> BTreeSet<NodeName> {
        let asked = self.facts.iter().filter(|(_, answers)| answers.asked == look);
        asked.map(|(name, _)| name.clone()).collect()
    }

    /// What it could know when it began the step that this act belongs to.
    pub(super) fn basis(&self, act: &Act) -> Option<&Basis> {
        let node = act.node()?;
        let begun = |action: Action| self.begun.get(&(node.clone(), action));
        let own = begun(action_of(act)?);
        if own.is_none() && matches!(act, Act::Reboot { .. }) {
            // A default that a rollback has changed is only booted by its next attempt.
            return begun(Action::Rollback);
        }
        if own.is_none() && matches!(act, Act::Forfeit { .. }) {
            // Leadership that has come back is given away in the step of the boot.
            return [Action::Upgrade, Action::Reboot, Action::Rollback].into_iter().find_map(begun);
        }
        own
    }

    pub(super) fn asked(&mut self, question: &Question, answered: Timestamp, known: bool) {
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
            Question::Slots(node) => {
                self.slots.entry(node.clone()).or_default().take(answered, known, look);
            }
            Question::Etcd => self.etcd.take(answered, known, look),
            Question::Nodes => self.nodes.take(answered, known, look),
            // Half of a look at Kubernetes is none.
            Question::Other("capacity") if !known => {
                self.half = Some(look);
                self.nodes.take(answered, known, look);
            }
            Question::Images(_) | Question::ApiServer(_) | Question::Other(_) => {}
        }
    }

    pub(super) fn wrote(&mut self, at: Timestamp, entry: &Entry) {
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
                    asked: self.asked_in(self.look),
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
        Act::Pull { .. }
        | Act::Snapshot
        | Act::Downgrade { .. }
        | Act::Delete { .. }
        | Act::Apply { .. } => return None,
    })
}
