//! What the journal remembers for the way back. Pure.

use std::collections::BTreeMap;

use upgrade_core::image::ImageRef;
use upgrade_core::journal::{Phase, State};
use upgrade_core::plan::{Change, Group, Hop, Lane, Plan, Target, Wave};
use upgrade_core::snapshot::{Component, NodeName};
use upgrade_core::step::{Action, StepId};
use upgrade_core::version::Version;

/// What a node ran before an upgrade that the journal remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Before {
    /// The version.
    pub version: Version,
    /// Its installer, where it was known.
    pub image: Option<ImageRef>,
}

/// What `node` ran before it came to run `running`; plans newest first.
pub fn before(plans: &[Plan], node: &NodeName, running: &Version) -> Option<Before> {
    let hops = plans.iter().flat_map(|plan| plan.hops.iter().rev());
    let mut hops = hops.filter(|hop| hop.change.to() == running && !is_back(hop));
    hops.find_map(|hop| {
        let mut lanes = hop.waves.iter().flat_map(|wave| &wave.lanes);
        lanes.find_map(|lane| match &lane.target {
            Target::Talos(target) if lane.node.as_ref() == Some(node) => Some(Before {
                version: target.from.clone(),
                image: target.previous.as_ref().map(|image| image.with_tag(&target.from.tag())),
            }),
            _ => None,
        })
    })
}

/// A way back is not what one goes back from.
fn is_back(hop: &Hop) -> bool {
    hop.change.to() < hop.change.from()
}

fn number(waves: &mut [Wave]) {
    for (wave, number) in waves.iter_mut().zip(1..) {
        wave.number = number;
    }
}

/// Gives every Kubernetes component whose step failed, or is in doubt, the image
/// that it had before. `None` if there is none.
pub fn components(plan: &Plan, state: &State) -> Option<Plan> {
    let hop = plan.hops.iter().find(|hop| {
        let is_kubernetes = matches!(hop.change, Change::Kubernetes { .. });
        is_kubernetes && lanes(hop).any(|lane| !failed(hop, lane, state).is_empty())
    })?;
    let mut waves = vec![Wave {
        number: 1,
        group: Group::Prepare,
        lanes: vec![Lane {
            node: None,
            pool: None,
            target: Target::Cluster,
            steps: vec![Action::SnapshotEtcd],
        }],
    }];
    // The other way round: what came last goes back first, so that no kubelet
    // is ever newer than its API server.
    for (group, lane) in hop.waves.iter().rev().flat_map(|wave| {
        wave.lanes.iter().rev().map(move |lane| (wave.group, lane))
    }) {
        let steps = failed(hop, lane, state);
        let Target::Kubernetes { images, previous } = &lane.target else { continue };
        let of = |from: &BTreeMap<Component, ImageRef>| -> BTreeMap<Component, ImageRef> {
            let parts = steps.iter().filter_map(|step| step.component());
            parts.filter_map(|part| Some((part, from.get(&part)?.clone()))).collect()
        };
        if steps.is_empty() {
            continue;
        }
        let target = Target::Kubernetes { images: of(previous), previous: of(images) };
        let lane = Lane { target, steps, ..lane.clone() };
        waves.push(Wave { number: 1, group, lanes: vec![lane] });
    }
    number(&mut waves);
    let (from, to) = (hop.change.to().clone(), hop.change.from().clone());
    let mut versions = hop.versions.clone();
    versions.kubernetes = Some(to.clone());
    let back = Hop {
        number: 1,
        change: Change::Kubernetes { from, to },
        versions: versions.clone(),
        waves,
        ..hop.clone()
    };
    Some(Plan {
        parent: Some(plan.hash()),
        rollback: true,
        from: hop.versions.clone(),
        to: versions,
        hops: vec![back],
        ..plan.clone()
    })
}

fn lanes(hop: &Hop) -> impl Iterator<Item = &Lane> {
    hop.waves.iter().flat_map(|wave| &wave.lanes)
}

/// The component steps of a lane that began and did not end well, last first.
fn failed(hop: &Hop, lane: &Lane, state: &State) -> Vec<Action> {
    let is_stuck = |action: &&Action| {
        let step = StepId { hop: hop.number, node: lane.node.clone(), action: **action };
        let phase = state.step(&step).map(|known| &known.phase);
        action.component().is_some()
            && matches!(phase, Some(Phase::Failed { .. } | Phase::InDoubt | Phase::Running { .. }))
    };
    lane.steps.iter().rev().filter(is_stuck).copied().collect()
}

#[cfg(test)]
mod tests {
    use upgrade_core::journal::{Entry, Outcome, Record};
    use upgrade_core::reason::{Failure, FailureKind};

    use super::*;
    use crate::sample;

    #[test]
    fn what_ran_before_is_remembered() {
        let plan = sample::plan();
        let plans = [plan];
        let cp: NodeName = "cp-1".into();
        let found = before(&plans, &cp, &Version::new(1, 13, 9)).unwrap();
        assert_eq!(found.version, Version::new(1, 12, 4));
        assert!(found.image.unwrap().to_string().ends_with(":v1.12.4"));
        assert_eq!(before(&plans, &cp, &Version::new(1, 12, 4)), None);
        assert_eq!(before(&plans, &"nobody".into(), &Version::new(1, 13, 9)), None);
    }

    #[test]
    fn a_component_that_failed_gets_its_previous_image() {
        let plan = sample::plan();
        let step: StepId = plan
            .steps()
            .find(|step| step.action == Action::SetKubeScheduler)
            .expect("a scheduler step");
        let entry = |record| Entry {
            at: sample::time(1),
            plan: plan.hash(),
            runner: "r".to_owned(),
            record,
        };
        let failure = Failure::new(FailureKind::Deadline, "not ready");
        let entries = [
            entry(Record::Started { step: step.clone(), attempt: 1, evidence: None }),
            entry(Record::Finished {
                step: step.clone(),
                attempt: 1,
                outcome: Outcome::Failed { failure },
            }),
        ];
        let state = State::fold(&plan, &entries).unwrap();
        let back = components(&plan, &state).unwrap();
        let steps: Vec<StepId> = back.steps().collect();
        assert_eq!(steps.len(), 2);
        assert_eq!((&steps[1].node, steps[1].action), (&step.node, Action::SetKubeScheduler));
        let Target::Kubernetes { images, .. } = &back.hops[0].waves[1].lanes[0].target else {
            panic!()
        };
        assert!(images[&Component::KubeScheduler].to_string().ends_with(":v1.35.2"), "{images:?}");
        assert!(back.rollback && back.parent == Some(plan.hash()));
        assert!(components(&plan, &State::new(&plan)).is_none());
    }
}
