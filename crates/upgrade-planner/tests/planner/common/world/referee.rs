//! The rules, checked on the world itself at every change.

use upgrade_core::journal::Phase;
use upgrade_core::plan::{Change, Group, Target};
use upgrade_core::snapshot::{NodeName, Role};
use upgrade_core::step::StepId;

use super::World;

impl World {
    pub(super) fn referee(&mut self) {
        let away = |role: Role| -> Vec<&NodeName> {
            let nodes = self.truth.nodes_with(role);
            nodes
                .filter(|(_, node)| {
                    let cordoned = node.kubernetes.known().is_some_and(|facts| facts.unschedulable);
                    !node.is_up() || cordoned
                })
                .map(|(name, _)| name)
                .collect()
        };
        let control_planes = away(Role::ControlPlane);
        assert!(control_planes.len() <= 1, "rule 1: {control_planes:?}\n{}", self.trace());
        let workers = away(Role::Worker).len();
        self.most_workers_away = self.most_workers_away.max(workers);
        let hop = self.plan.hops.first();
        if let Some(hop) = hop.filter(|hop| hop.pool_limits.is_empty()) {
            let os = matches!(hop.change, Change::Talos { .. });
            // Workers that were down before we came are not our doing.
            let limit = hop.limit.max(self.down_at_start);
            assert!(!os || workers <= limit, "rule 6: {workers}\n{}", self.trace());
        }
        self.armed_at_most_a_wave_ahead();
    }

    /// No node is armed beyond the wave after the current one.
    fn armed_at_most_a_wave_ahead(&self) {
        let done =
            |step: &StepId| self.state.step(step).is_some_and(|state| state.phase == Phase::Done);
        for hop in &self.plan.hops {
            let current = hop.waves.iter().position(|wave| {
                wave.lanes.iter().any(|lane| {
                    lane.steps.iter().any(|name| !done(&lane.step_id(hop.number, name)))
                })
            });
            let Some(current) = current else { continue };
            // Rule 1: only workers are written ahead of their turn.
            let ahead = hop.waves.get(current + 1).filter(|wave| wave.group == Group::ControlPlane);
            let beyond = hop.waves.iter().skip(current + 2).chain(ahead);
            let beyond = beyond.flat_map(|wave| &wave.lanes);
            for lane in beyond.filter(|lane| matches!(lane.target, Target::Talos(_))) {
                let armed = self.state.armed().contains_key(lane.node.as_ref().unwrap());
                assert!(!armed, "armed too early: {:?}\n{}", lane.node, self.trace());
            }
            return;
        }
    }
}
