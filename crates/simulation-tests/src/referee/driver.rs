//! The referee's view of a process: its questions, what it could know when it began a step, and
//! which step an act belongs to.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use upgrade_core::jiff::Timestamp;
use upgrade_core::journal::{Entry, Record};
use upgrade_core::plan::{Plan, PlanHash};
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::{Action, StepId};

use super::Wanted;
use crate::trace::{Act, Question};

/// When a question was last answered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answers {
    /// The time of the last answer with a value.
    pub(super) good: Option<Timestamp>,
    /// The time of the last answer of any kind, even one that says "unknown".
    pub(super) any: Option<Timestamp>,
    /// The observation in which the last answer with a value came.
    pub(super) observation: u64,
    /// The observation in which it was last asked.
    asked: u64,
}

impl Answers {
    fn take(&mut self, answered: Timestamp, known: bool, observation: u64) {
        self.any = self.any.max(Some(answered));
        self.asked = observation;
        if known {
            self.good = self.good.max(Some(answered));
            self.observation = observation;
        }
    }
}

/// What a process could know when it recorded the start of a step.
#[derive(Clone, Debug)]
pub(super) struct Basis {
    /// When it recorded the start.
    pub(super) at: Timestamp,
    pub(super) hop: u32,
    /// The observation that it began on: observations are counted by their first question, which is
    /// for the machines.
    pub(super) observation: u64,
    /// Whether that question was answered.
    pub(super) machines: bool,
    pub(super) facts: Answers,
    pub(super) etcd: Answers,
    pub(super) nodes: Answers,
    /// The machines asked in that observation, whether they answered or not.
    pub(super) asked: BTreeSet<NodeName>,
    /// The recorded end of the last disruption before it, or the start of the process if there was
    /// none.
    pub(super) calm_since: Timestamp,
}

/// A process that drives.
#[derive(Debug)]
pub(super) struct Driver {
    pub(super) plan: Arc<Plan>,
    /// Set from its first entry on.
    pub(super) hash: Option<PlanHash>,
    pub(super) wanted: Arc<Wanted>,
    pub(super) lives: bool,
    observation: u64,
    machines: bool,
    etcd: Answers,
    pub(super) nodes: Answers,
    /// The last observation in which only a part of Kubernetes answered.
    half: Option<u64>,
    facts: HashMap<NodeName, Answers>,
    slots: HashMap<NodeName, Answers>,
    calm_since: Timestamp,
    begun: HashMap<(NodeName, Action), Basis>,
}

impl Driver {
    /// A process that starts.
    pub(super) fn new(at: Timestamp, plan: &Arc<Plan>, wanted: &Arc<Wanted>) -> Self {
        Self {
            plan: Arc::clone(plan),
            hash: None,
            wanted: Arc::clone(wanted),
            lives: true,
            observation: 0,
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

    /// The answers about a node.
    pub(super) fn facts(&self, node: &NodeName) -> Answers {
        self.facts.get(node).copied().unwrap_or_default()
    }

    /// When the boot order of a node was last reported.
    pub(super) fn slots(&self, node: &NodeName) -> Option<Timestamp> {
        self.slots.get(node).and_then(|answers| answers.good)
    }

    /// Whether the node answered in the last observation.
    pub(super) fn answered_of(&self, node: &NodeName) -> bool {
        self.machines && self.facts(node).observation == self.observation
    }

    /// Whether Kubernetes answered in the last observation.
    pub(super) fn answered_of_kubernetes(&self) -> bool {
        self.machines
            && self.nodes.observation == self.observation
            && self.half != Some(self.observation)
    }

    /// Whether Kubernetes answered after the last question for the machines, even if that one was
    /// not answered.
    pub(super) fn heard_kubernetes(&self) -> bool {
        self.nodes.observation == self.observation && self.half != Some(self.observation)
    }

    /// Whether etcd answered in the last observation.
    pub(super) fn answered_of_etcd(&self) -> bool {
        self.machines && self.etcd.observation == self.observation
    }

    /// Whether the node was asked in the last observation, answered or not.
    pub(super) fn asked_of(&self, node: &NodeName) -> bool {
        self.facts(node).asked == self.observation
    }

    fn asked_in(&self, observation: u64) -> BTreeSet<NodeName> {
        let asked = self.facts.iter().filter(|(_, answers)| answers.asked == observation);
        asked.map(|(name, _)| name.clone()).collect()
    }

    /// What it could know when it began the step of this act.
    pub(super) fn basis(&self, act: &Act) -> Option<&Basis> {
        let node = act.node()?;
        let begun = |action: Action| self.begun.get(&(node.clone(), action));
        let own = begun(action_of(act)?);
        if own.is_none() && matches!(act, Act::Reboot { .. }) {
            // Only the next attempt boots a default that a rollback has changed.
            return begun(Action::Rollback);
        }
        if own.is_none() && matches!(act, Act::Forfeit { .. }) {
            // Leadership that has returned is moved again in the step of the boot.
            return [Action::Upgrade, Action::Reboot, Action::Rollback].into_iter().find_map(begun);
        }
        own
    }

    pub(super) fn asked(&mut self, question: &Question, answered: Timestamp, known: bool) {
        let observation = self.observation;
        match question {
            Question::Machines => {
                self.observation += 1;
                self.machines = known;
            }
            Question::Facts(node) => {
                // This is called too often to copy the name each time.
                if !self.facts.contains_key(node) {
                    self.facts.insert(node.clone(), Answers::default());
                }
                if let Some(answers) = self.facts.get_mut(node) {
                    answers.take(answered, known, observation);
                }
            }
            Question::Slots(node) => {
                self.slots.entry(node.clone()).or_default().take(answered, known, observation);
            }
            Question::Etcd => self.etcd.take(answered, known, observation),
            Question::Nodes => self.nodes.take(answered, known, observation),
            // A partial answer of Kubernetes does not count.
            Question::Other("capacity") if !known => {
                self.half = Some(observation);
                self.nodes.take(answered, known, observation);
            }
            Question::Images(_) | Question::ApiServer(_) | Question::Other(_) => {}
        }
    }

    pub(super) fn wrote(&mut self, at: Timestamp, entry: &Entry) {
        self.hash.get_or_insert_with(|| entry.plan.clone());
        match &entry.record {
            Record::Started { step: StepId { hop, node: Some(node), action, .. }, .. } => {
                let basis = Basis {
                    at,
                    hop: *hop,
                    observation: self.observation,
                    machines: self.machines,
                    facts: self.facts(node),
                    etcd: self.etcd,
                    nodes: self.nodes,
                    asked: self.asked_in(self.observation),
                    calm_since: self.calm_since,
                };
                self.begun.insert((node.clone(), *action), basis);
            }
            Record::Finished { step, .. } if disrupts(step.action) => self.calm_since = at,
            _ => {}
        }
    }
}

/// Whether a step is disruptive.
pub(super) fn disrupts(action: Action) -> bool {
    matches!(
        action,
        Action::Cordon
            | Action::Drain
            | Action::Reboot
            | Action::Upgrade
            | Action::Rollback
            | Action::ExternalUpgrade
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
