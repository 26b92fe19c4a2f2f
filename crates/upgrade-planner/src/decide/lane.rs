//! A lane together with what the journal remembers of its steps.

use upgrade_core::journal::{Phase, State, StepState};
use upgrade_core::plan::{Hop, Lane, Plan};
use upgrade_core::step::{Action, StepId, StepName};

/// A hop and the state of its steps, which lie in plan order.
#[derive(Clone, Copy)]
pub(super) struct HopView<'a> {
    pub(super) hop: &'a Hop,
    steps: &'a [StepState],
}

/// A lane and the state of its steps.
#[derive(Clone, Copy)]
pub(super) struct LaneView<'a> {
    pub(super) hop: &'a Hop,
    pub(super) lane: &'a Lane,
    steps: &'a [StepState],
}

fn step_count(hop: &Hop) -> usize {
    hop.lanes().map(|lane| lane.steps.len()).sum()
}

impl<'a> HopView<'a> {
    /// The first hop with something left to do.
    pub(super) fn current(plan: &'a Plan, state: &'a State) -> Option<Self> {
        let mut rest = state.steps();
        plan.hops.iter().find_map(|hop| {
            let (steps, tail) = rest.split_at(step_count(hop).min(rest.len()));
            rest = tail;
            let unfinished = steps.iter().any(|step| step.phase != Phase::Done);
            unfinished.then_some(Self { hop, steps })
        })
    }

    /// The lanes of all waves, in plan order.
    pub(super) fn lanes(self) -> impl Iterator<Item = LaneView<'a>> {
        let mut rest = self.steps;
        self.hop.lanes().map(move |lane| {
            let (steps, tail) = rest.split_at(lane.steps.len().min(rest.len()));
            rest = tail;
            LaneView { hop: self.hop, lane, steps }
        })
    }

    /// The lanes of one wave, counted from 0.
    pub(super) fn wave(self, wave: usize) -> impl Iterator<Item = LaneView<'a>> {
        let lanes = |waves: &[upgrade_core::plan::Wave]| -> usize {
            waves.iter().map(|wave| wave.lanes.len()).sum()
        };
        let skip = lanes(self.hop.waves.get(..wave).unwrap_or(&self.hop.waves));
        let take = self.hop.waves.get(wave).map_or(0, |wave| wave.lanes.len());
        self.lanes().skip(skip).take(take)
    }

    /// The first wave with something left to do.
    pub(super) fn current_wave(self) -> Option<usize> {
        let mut lanes = self.lanes();
        self.hop.waves.iter().position(|wave| {
            // Every lane of the wave is taken from the iterator, finished or not.
            let left = lanes.by_ref().take(wave.lanes.len()).filter(|lane| !lane.is_done());
            left.count() > 0
        })
    }
}

impl<'a> LaneView<'a> {
    pub(super) fn is_done(&self) -> bool {
        self.steps.iter().all(|step| step.phase == Phase::Done)
    }

    /// The first step that is not done.
    pub(super) fn current(&self) -> Option<(&'a StepName, &'a StepState)> {
        let position = self.steps.iter().position(|step| step.phase != Phase::Done)?;
        Some((&self.lane.steps[position], &self.steps[position]))
    }

    /// All steps with their state, in order.
    pub(super) fn steps(self) -> impl Iterator<Item = (&'a StepName, &'a StepState)> {
        self.lane.steps.iter().zip(self.steps)
    }

    /// The lane's first step with this action.
    pub(super) fn step(&self, action: Action) -> Option<(&'a StepName, &'a StepState)> {
        self.steps().find(|(name, _)| name.action == action)
    }

    /// Whether its node is disrupted: a disruptive step began and the lane has
    /// not ended. Rule 1 counts from here.
    pub(super) fn is_entered(&self) -> bool {
        let begun = self
            .steps()
            .any(|(name, step)| name.action.is_disruptive() && step.phase != Phase::Pending);
        begun && !self.is_done()
    }

    /// Whether a boot of its node was asked for.
    pub(super) fn has_booted(&self) -> bool {
        let mut steps = self.steps();
        steps.any(|(name, step)| name.action.boots() && step.phase != Phase::Pending)
    }

    pub(super) fn id(&self, name: &StepName) -> StepId {
        self.lane.step_id(self.hop.number, name)
    }
}
