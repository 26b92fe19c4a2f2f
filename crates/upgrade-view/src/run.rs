//! Where a run stands, by hop, wave, node and step.

use std::collections::HashMap;

use jiff::Timestamp;
use upgrade_core::jiff;
use upgrade_core::journal::{Arming, Phase, State, StepState};
use upgrade_core::plan::{Hop, Lane, Plan, Target, Wave};
use upgrade_core::reason::{Failure, WaitReason};
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::{Action, StepLabel, StepName};

use crate::live::{Overlay, Waiting};
use crate::result::RunResult;

/// Where a run stands: a lens on its plan and the fold of its journal, which have to belong
/// to each other. It costs nothing to make; its answers are computed when asked for.
#[derive(Clone, Copy, Debug)]
pub struct RunView<'a> {
    plan: &'a Plan,
    state: &'a State,
    overlay: Option<&'a Overlay>,
}

/// One step and what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct StepProgress<'a> {
    /// The hop's number.
    pub hop: u32,
    /// What is done.
    pub action: Action,
    /// What tells it apart from other steps of this action in its lane.
    pub label: Option<&'a StepLabel>,
    /// Whether its lane changes the node. Lanes that only pull images do not.
    pub changes_node: bool,
    /// Attempts, phase and evidence.
    pub state: &'a StepState,
    /// The step's own words about its progress; only a live run has them.
    pub message: Option<&'a str>,
}

/// The steps of one node over all hops, in plan order, or those of the cluster.
#[derive(Clone, Debug)]
pub struct NodeProgress<'a> {
    /// The node; `None` for the cluster as a whole.
    pub node: Option<&'a NodeName>,
    /// Its steps.
    pub steps: Vec<StepProgress<'a>>,
}

/// What a node is at.
#[derive(Clone, Copy, Debug)]
pub enum Stage<'a> {
    /// A step is running: the newest, since pulls run beside other steps.
    Running {
        /// The step.
        step: StepProgress<'a>,
        /// Its beginning.
        since: Timestamp,
    },
    /// A step failed, and nothing runs.
    Failed {
        /// The step that failed last.
        step: StepProgress<'a>,
        /// Its failure.
        failure: &'a Failure,
    },
    /// A step was interrupted and may have acted; it is checked before it is repeated (rule 8).
    Interrupted {
        /// The step.
        step: StepProgress<'a>,
    },
    /// Steps are left, and none of them has begun.
    Queued {
        /// Steps done before.
        done: usize,
        /// Steps in all.
        of: usize,
    },
    /// Nothing is left to do.
    Done,
}

/// Why nothing is done to a node that has steps left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Queued<'a> {
    /// The run halted.
    Halted,
    /// A gate is closed for this node, or for every node.
    Waiting(&'a WaitReason),
    /// Others come first; `None` is the cluster as a whole.
    Behind(Vec<Option<&'a NodeName>>),
    /// Nothing runs right now.
    Next,
}

/// How far one hop is.
#[derive(Clone, Debug)]
pub struct HopProgress<'a> {
    /// The hop.
    pub hop: &'a Hop,
    /// Steps done.
    pub done: usize,
    /// Steps in all.
    pub steps: usize,
    /// The first wave with something left to do.
    pub wave: Option<&'a Wave>,
}

impl<'a> RunView<'a> {
    /// The view of a stored run, or of one at a journal entry.
    pub const fn new(plan: &'a Plan, state: &'a State) -> Self {
        Self { plan, state, overlay: None }
    }

    pub(crate) const fn live(plan: &'a Plan, state: &'a State, overlay: &'a Overlay) -> Self {
        Self { plan, state, overlay: Some(overlay) }
    }

    /// The plan.
    pub const fn plan(&self) -> &'a Plan {
        self.plan
    }

    /// How the run ended, or that it has not.
    pub fn result(&self) -> RunResult {
        RunResult::of(self.state)
    }

    /// Steps done, and steps in all.
    pub fn progress(&self) -> (usize, usize) {
        self.state.progress()
    }

    /// Every node in the order of [`lane_order`], then the cluster if it has steps.
    pub fn nodes(&self) -> Vec<NodeProgress<'a>> {
        let order = lane_order(self.plan).into_iter().map(Some).chain([None]);
        let mut nodes: Vec<NodeProgress<'a>> =
            order.map(|node| NodeProgress { node, steps: Vec::new() }).collect();
        let positions: HashMap<Option<&NodeName>, usize> =
            nodes.iter().enumerate().map(|(position, node)| (node.node, position)).collect();
        // The fold keeps its steps in plan order.
        let mut states = self.state.steps().iter();
        for (hop, lane) in self.plan.lanes() {
            let changes_node = matches!(lane.target, Target::Talos(_) | Target::Kubernetes { .. });
            let node = &mut nodes[positions[&lane.node.as_ref()]];
            for (name, state) in lane.steps.iter().zip(&mut states) {
                let message = self.message(hop, lane, name, &state.phase);
                let (hop, action, label) = (hop.number, name.action, name.label.as_ref());
                node.steps.push(StepProgress { hop, action, label, changes_node, state, message });
            }
        }
        nodes.retain(|node| !node.steps.is_empty());
        nodes
    }

    fn message(&self, hop: &Hop, lane: &Lane, name: &StepName, phase: &Phase) -> Option<&'a str> {
        if !matches!(phase, Phase::Running { .. }) {
            return None;
        }
        let step = lane.step_id(hop.number, name);
        self.overlay?.messages.get(&step).map(String::as_str)
    }

    /// Every hop of the plan.
    pub fn hops(&self) -> Vec<HopProgress<'a>> {
        let mut states = self.state.steps().iter();
        let progress = |hop: &'a Hop| {
            let mut progress = HopProgress { hop, done: 0, steps: 0, wave: None };
            for wave in &hop.waves {
                let count = wave.lanes.iter().map(|lane| lane.steps.len()).sum::<usize>();
                let done = states.by_ref().take(count).filter(|step| step.phase == Phase::Done);
                let done = done.count();
                progress.steps += count;
                progress.done += done;
                if done < count {
                    progress.wave.get_or_insert(wave);
                }
            }
            progress
        };
        self.plan.hops.iter().map(progress).collect()
    }

    /// The hop in progress: the first with something left to do.
    pub fn hop(&self) -> Option<HopProgress<'a>> {
        self.hops().into_iter().find(|hop| hop.wave.is_some())
    }

    /// What a live run waits for, unless it is its own steps.
    pub fn waiting(&self) -> Option<&'a Waiting> {
        self.overlay?.waiting.as_ref()
    }

    /// Why nothing is done to a node that has steps left. `nodes` are those of this view.
    pub fn queued<'n>(&self, node: Option<&NodeName>, nodes: &'n [NodeProgress<'a>]) -> Queued<'n>
    where
        'a: 'n,
    {
        if self.state.halted().is_some() {
            return Queued::Halted;
        }
        if let Some(Waiting { why, .. }) = self.waiting()
            && concerns(why, node)
        {
            return Queued::Waiting(why);
        }
        let running = nodes.iter().filter(|node| node.running().is_some());
        let running: Vec<_> = running.map(|node| node.node).collect();
        if running.is_empty() { Queued::Next } else { Queued::Behind(running) }
    }

    /// Nodes that the plan leaves as they are because the user wants it so (rule 12).
    pub fn held(&self) -> impl Iterator<Item = &'a NodeName> + use<'a> {
        self.plan.nodes.iter().filter(|(_, own)| own.hold).map(|(name, _)| name)
    }

    /// Nodes that the run cordoned and has not uncordoned (rule 7).
    pub fn cordons(&self) -> impl Iterator<Item = &'a NodeName> + use<'a> {
        self.state.our_cordons()
    }

    /// Nodes whose next boot is into another version, or may be (rule 5).
    pub fn next_boots(&self) -> Vec<(NodeName, Arming)> {
        self.state.next_boots()
    }
}

impl<'a> NodeProgress<'a> {
    /// What the node is at.
    pub fn stage(&self) -> Stage<'a> {
        if let Some((step, since)) = self.running() {
            return Stage::Running { step, since };
        }
        if let Some((step, failure)) = self.failed() {
            return Stage::Failed { step, failure };
        }
        let interrupted = |step: &&StepProgress<'_>| step.state.phase == Phase::InDoubt;
        if let Some(step) = self.steps.iter().find(interrupted) {
            return Stage::Interrupted { step: *step };
        }
        match self.progress() {
            (done, of) if done == of => Stage::Done,
            (done, of) => Stage::Queued { done, of },
        }
    }

    /// Steps done, and steps in all.
    pub fn progress(&self) -> (usize, usize) {
        let done = self.steps.iter().filter(|step| step.state.phase == Phase::Done).count();
        (done, self.steps.len())
    }

    /// The node without the lanes that leave it as it is; `None` if nothing is left then.
    pub fn changes(&self) -> Option<Self> {
        let steps: Vec<_> = self.steps.iter().filter(|step| step.changes_node).copied().collect();
        (!steps.is_empty()).then_some(Self { node: self.node, steps })
    }

    fn running(&self) -> Option<(StepProgress<'a>, Timestamp)> {
        let running = self.steps.iter().filter_map(|step| match step.state.phase {
            Phase::Running { since } => Some((*step, since)),
            _ => None,
        });
        running.max_by_key(|(_, since)| *since)
    }

    /// The step that failed last, whether or not another one runs.
    pub fn failed(&self) -> Option<(StepProgress<'a>, &'a Failure)> {
        let failed = self.steps.iter().filter_map(|step| match &step.state.phase {
            Phase::Failed { at, failure } => Some((*step, *at, failure)),
            _ => None,
        });
        failed.max_by_key(|(_, at, _)| *at).map(|(step, _, failure)| (step, failure))
    }
}

/// Whether a closed gate is the reason that nothing is done to this node.
fn concerns(wait: &WaitReason, node: Option<&NodeName>) -> bool {
    match wait {
        WaitReason::EtcdUnsafe { node: held, .. }
        | WaitReason::ControlPlaneDown { node: held, .. }
        | WaitReason::NodeUnknown { node: held, .. }
        | WaitReason::CordonLeft { node: held } => Some(held) == node,
        WaitReason::Backoff { step, .. } => step.node.as_ref() == node,
        WaitReason::Window { .. }
        | WaitReason::Paused { .. }
        | WaitReason::StaleObservation { .. }
        | WaitReason::NoRoom { .. } => true,
        WaitReason::Running { .. } => false,
    }
}

/// The nodes of a plan in the order in which they are changed; nodes that only pull come last.
pub fn lane_order(plan: &Plan) -> Vec<&NodeName> {
    let lanes = || plan.lanes().map(|(_, lane)| lane);
    let changing = lanes().filter(|lane| !matches!(lane.target, Target::Pulled { .. }));
    let mut known = std::collections::HashSet::new();
    changing
        .chain(lanes())
        .filter_map(|lane| lane.node.as_ref())
        .filter(|node| known.insert(*node))
        .collect()
}

#[cfg(test)]
mod tests {
    use upgrade_core::journal::Entry;

    use super::*;
    use crate::test_fixtures as fixtures;

    fn folded(entries: &[Entry]) -> (Plan, State) {
        let plan = fixtures::plan();
        let state = State::fold(&plan, entries).unwrap();
        (plan, state)
    }

    fn stage<'a>(view: &RunView<'a>, name: &str) -> Stage<'a> {
        let nodes = view.nodes();
        let node = nodes.iter().find(|node| node.node.is_some_and(|node| node.0 == name));
        node.expect("a node of the plan").stage()
    }

    #[test]
    fn nodes_come_in_the_order_of_their_change_and_the_cluster_last() {
        let (plan, state) = folded(&[]);
        let nodes = RunView::new(&plan, &state).nodes();
        let names: Vec<_> =
            nodes.iter().map(|node| node.node.map_or("*", |name| name.0.as_str())).collect();
        assert_eq!(names, ["cp-2", "cp-1", "worker-1", "*"]);
        let steps: usize = nodes.iter().map(|node| node.steps.len()).sum();
        assert_eq!(steps, plan.steps().count());
    }

    #[test]
    fn a_new_run_is_queued_and_a_whole_one_done() {
        let (plan, state) = folded(&[]);
        let view = RunView::new(&plan, &state);
        assert!(matches!(stage(&view, "cp-1"), Stage::Queued { done: 0, of: 7 }));
        assert_eq!(view.hop().map(|hop| (hop.hop.number, hop.done)), Some((1, 0)));
        let entries = fixtures::whole(&plan);
        let state = State::fold(&plan, &entries).unwrap();
        let view = RunView::new(&plan, &state);
        assert!(view.nodes().iter().all(|node| matches!(node.stage(), Stage::Done)));
        assert!(view.hop().is_none());
        assert!(view.hops().iter().all(|hop| hop.done == hop.steps));
        assert_eq!(view.result(), RunResult::Completed);
    }

    #[test]
    fn a_step_of_a_process_that_is_gone_is_interrupted() {
        let plan = fixtures::plan();
        let entries = fixtures::killed(&plan, "1/cp-2/drain");
        let (taken_over, before) = entries.split_last().unwrap();
        assert_eq!(taken_over.record, upgrade_core::journal::Record::Began);
        let state = State::fold(&plan, before).unwrap();
        let view = RunView::new(&plan, &state);
        let Stage::Running { step, .. } = stage(&view, "cp-2") else { panic!() };
        assert_eq!(step.action, Action::Drain);
        let state = State::fold(&plan, &entries).unwrap();
        let view = RunView::new(&plan, &state);
        let Stage::Interrupted { step } = stage(&view, "cp-2") else { panic!() };
        assert_eq!(step.action, Action::Drain);
    }

    #[test]
    fn a_halted_run_names_what_failed_and_what_it_left() {
        let plan = fixtures::plan();
        let entries = fixtures::halted(&plan, "1/cp-2/reboot");
        let state = State::fold(&plan, &entries).unwrap();
        let view = RunView::new(&plan, &state);
        let Stage::Failed { step, failure } = stage(&view, "cp-2") else { panic!() };
        assert_eq!((step.action, failure.text()), (Action::Reboot, fixtures::FAILURE));
        assert!(matches!(view.result(), RunResult::Halted { .. }));
        let nodes = view.nodes();
        assert_eq!(view.queued(Some(&"cp-1".into()), &nodes), Queued::Halted);
        assert_eq!(view.cordons().collect::<Vec<_>>(), [&NodeName::from("cp-2")]);
        assert_eq!(view.next_boots().len(), 1, "installed and not booted (rule 5)");
    }

    #[test]
    fn lanes_that_only_pull_do_not_change_a_node() {
        let plan = fixtures::plan();
        let entries = fixtures::until(&plan, "1/cp-2/install");
        let state = State::fold(&plan, &entries).unwrap();
        let nodes = RunView::new(&plan, &state).nodes();
        let node = nodes.iter().find(|node| node.node == Some(&"cp-1".into())).unwrap();
        assert!(matches!(node.stage(), Stage::Queued { done: 1, .. }), "pulled");
        let changes = node.changes().unwrap();
        assert!(matches!(changes.stage(), Stage::Queued { done: 0, .. }));
    }

    #[test]
    fn the_wave_in_progress_is_the_first_with_something_left() {
        let plan = fixtures::plan();
        let entries = fixtures::until(&plan, "1/cp-1/install");
        let state = State::fold(&plan, &entries).unwrap();
        let hop = RunView::new(&plan, &state).hop().unwrap();
        assert_eq!((hop.hop.number, hop.wave.unwrap().number), (1, 3));
        assert!(hop.done > 0 && hop.done < hop.steps);
    }
}
