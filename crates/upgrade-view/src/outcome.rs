//! What a run did to each node, and to the cluster.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use upgrade_core::jiff;
use upgrade_core::journal::Outcome;
use upgrade_core::plan::{Change, Group, Hop, Lane, Plan, Target, Wave};
use upgrade_core::product::Product;
use upgrade_core::reason::Failure;
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::{Action, StepId, StepName};
use upgrade_core::version::Version;

use crate::run::lane_order;
use crate::timeline::{Attempt, Timeline, busy};

/// What a run did, summed up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcomes {
    /// Every node that something was done to, in plan order.
    pub nodes: Vec<NodeOutcome>,
    /// What was done to the cluster as a whole, if anything was.
    pub cluster: Option<ClusterOutcome>,
}

/// What a run did to one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOutcome {
    /// The node.
    pub node: NodeName,
    /// From the first version to the last of each product, over all hops that it finished.
    pub changes: Vec<VersionChange>,
    /// How far it got in hops that it did not finish.
    pub unfinished: Vec<Unfinished>,
    /// The time spent on it.
    pub took: SignedDuration,
    /// What was verified afterwards.
    pub verified: BTreeSet<Verified>,
}

/// A product that a node runs in another version now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionChange {
    /// The product.
    pub product: Product,
    /// The version before.
    pub from: Version,
    /// The version now; the same if only the schematic changed.
    pub to: Version,
}

/// Where a node stopped in a hop that it did not finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// A step failed, and no later attempt succeeded.
    Failed(Action, Failure),
    /// This step was the last that ended.
    StoppedAfter(Action),
    /// This step was interrupted.
    Interrupted(Action),
}

/// What was done to the cluster as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterOutcome {
    /// How many etcd snapshots were taken.
    pub snapshots: usize,
    /// Whether the manifests were applied.
    pub manifests: bool,
    /// The time spent on it.
    pub took: SignedDuration,
}

/// What was compared with the plan after a change; in the order in which it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verified {
    /// Another boot.
    Boot,
    /// The version of Talos.
    Version,
    /// The schematic (rule 4).
    Schematic,
    /// The extensions (rule 4).
    Extensions,
    /// The images of Kubernetes.
    Images,
    /// The etcd member is healthy and has caught up (rule 1).
    Etcd,
    /// Kubernetes reports the node as Ready.
    Ready,
}

impl Outcomes {
    /// Sums up a run, as far as it is known at `now`.
    pub fn of(plan: &Plan, timeline: &Timeline, now: Timestamp) -> Self {
        let nodes = lane_order(plan).into_iter().map(|name| node(plan, timeline, name, now));
        let nodes = nodes.filter(|node| !node.changes.is_empty() || !node.unfinished.is_empty());
        Self { nodes: nodes.collect(), cluster: cluster(plan, timeline, now) }
    }
}

fn node(plan: &Plan, timeline: &Timeline, name: &NodeName, now: Timestamp) -> NodeOutcome {
    let mut outcome = NodeOutcome {
        node: name.clone(),
        changes: Vec::new(),
        unfinished: Vec::new(),
        took: busy(timeline.of(Some(name)), now),
        verified: BTreeSet::new(),
    };
    for hop in &plan.hops {
        match finished(hop, timeline, name, &mut outcome.verified) {
            Some(true) => outcome.change(&hop.change),
            Some(false) => outcome.unfinished.extend(unfinished(timeline, hop.number, name)),
            None => {}
        }
    }
    outcome
}

impl NodeOutcome {
    fn change(&mut self, change: &Change) {
        let (product, to) = (change.product(), change.to().clone());
        match self.changes.iter_mut().find(|known| known.product == product) {
            Some(known) => known.to = to,
            None => {
                self.changes.push(VersionChange { product, from: change.from().clone(), to });
            }
        }
        if product == Product::Kubernetes {
            self.verified.extend([Verified::Images, Verified::Ready]);
        }
    }
}

/// Whether a node finished a hop, if it takes part in it: every step that proves a change did
/// its work.
fn finished(
    hop: &Hop,
    timeline: &Timeline,
    node: &NodeName,
    verified: &mut BTreeSet<Verified>,
) -> Option<bool> {
    let lanes = hop.waves.iter().flat_map(|wave| wave.lanes.iter().map(move |lane| (wave, lane)));
    let mut finished = None;
    for (wave, lane) in lanes.filter(|(_, lane)| lane.node.as_ref() == Some(node)) {
        for name in proving(lane) {
            let this = succeeded(timeline, hop.number, Some(node), name);
            finished = Some(finished.unwrap_or(true) && this);
        }
        if matches!(lane.target, Target::Talos(_)) && finished == Some(true) {
            verified.extend(after_boot(wave));
        }
    }
    finished
}

/// The steps that show that a lane's change was made.
fn proving(lane: &Lane) -> impl Iterator<Item = &StepName> {
    lane.steps.iter().filter(|name| match &lane.target {
        Target::Talos(_) => name.action == Action::Verify,
        Target::Kubernetes { .. } => name.action.component().is_some(),
        Target::Cluster | Target::Etcd { .. } | Target::Pulled { .. } => false,
    })
}

fn after_boot(wave: &Wave) -> impl Iterator<Item = Verified> {
    let etcd = (wave.group == Group::ControlPlane).then_some(Verified::Etcd);
    [Verified::Boot, Verified::Version, Verified::Schematic, Verified::Extensions, Verified::Ready]
        .into_iter()
        .chain(etcd)
}

fn succeeded(timeline: &Timeline, hop: u32, node: Option<&NodeName>, name: &StepName) -> bool {
    let step = StepId::new(hop, node.cloned(), name.clone());
    timeline.attempts.iter().any(|attempt| attempt.step == step && attempt.succeeded())
}

/// What failed in a hop and was not made good, else the last step of it.
fn unfinished(timeline: &Timeline, hop: u32, node: &NodeName) -> Option<Unfinished> {
    let attempts: Vec<&Attempt> =
        timeline.of(Some(node)).filter(|attempt| attempt.step.hop == hop).collect();
    let made_good = |failed: &Attempt| {
        attempts.iter().any(|other| other.step == failed.step && other.succeeded())
    };
    let failed = attempts.iter().rev().find(|attempt| attempt.failed() && !made_good(attempt));
    let last = failed.or(attempts.last())?;
    let action = last.step.action;
    Some(match &last.outcome {
        Some(Outcome::Failed { failure }) => Unfinished::Failed(action, failure.clone()),
        Some(_) => Unfinished::StoppedAfter(action),
        None => Unfinished::Interrupted(action),
    })
}

fn cluster(plan: &Plan, timeline: &Timeline, now: Timestamp) -> Option<ClusterOutcome> {
    let snapshots = timeline.snapshots().count();
    let synced = |hop: &Hop| succeeded(timeline, hop.number, None, &Action::SyncManifests.into());
    let manifests = plan.hops.iter().any(synced);
    let took = busy(timeline.of(None), now);
    (snapshots > 0 || manifests).then_some(ClusterOutcome { snapshots, manifests, took })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_fixtures::{self as fixtures, time};

    fn outcomes(entries: &[upgrade_core::journal::Entry]) -> Outcomes {
        Outcomes::of(&fixtures::plan(), &Timeline::from_entries(entries), time(10_000))
    }

    #[test]
    fn a_whole_run_changed_every_node() {
        let outcomes = outcomes(&fixtures::whole(&fixtures::plan()));
        let names: Vec<_> = outcomes.nodes.iter().map(|node| node.node.0.as_str()).collect();
        assert_eq!(names, ["cp-2", "cp-1", "worker-1"]);
        for node in &outcomes.nodes {
            let to = &node.changes[0].to;
            assert_eq!((node.changes.len(), to), (1, &Version::new(1, 13, 9)));
            assert!(node.unfinished.is_empty(), "{node:?}");
            assert!(node.verified.contains(&Verified::Extensions), "{node:?}");
        }
        let etcd = |node: &NodeOutcome| node.verified.contains(&Verified::Etcd);
        assert!(etcd(&outcomes.nodes[0]));
        assert!(!etcd(&outcomes.nodes[2]), "a worker has no etcd");
        let cluster = outcomes.cluster.unwrap();
        assert_eq!((cluster.snapshots, cluster.manifests), (1, false));
    }

    #[test]
    fn a_failure_outweighs_what_came_after_it() {
        let plan = fixtures::plan();
        let outcomes = outcomes(&fixtures::halted(&plan, "1/cp-2/reboot"));
        let [cp_2, ..] = outcomes.nodes.as_slice() else { panic!() };
        let [Unfinished::Failed(Action::Reboot, failure)] = cp_2.unfinished.as_slice() else {
            panic!("{cp_2:?}")
        };
        assert_eq!(failure.text(), fixtures::FAILURE);
        assert!(cp_2.changes.is_empty() && cp_2.verified.is_empty());
    }

    #[test]
    fn an_interrupted_step_is_named() {
        let plan = fixtures::plan();
        let outcomes = outcomes(&fixtures::killed(&plan, "1/cp-2/drain"));
        assert_eq!(outcomes.nodes[0].unfinished, [Unfinished::Interrupted(Action::Drain)]);
    }
}
