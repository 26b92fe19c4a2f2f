//! The gates before a step: what has to be seen, and seen recently, before
//! something is taken away from the cluster.

use upgrade_core::mutant::{self, Mutant};
use upgrade_core::plan::{Change, Target};
use upgrade_core::reason::{HaltReason, WaitReason};
use upgrade_core::snapshot::{Node, NodeName, Role};
use upgrade_core::step::Action;
use upgrade_core::version::Version;

use super::Run;
use super::away::Away;
use super::lane::LaneView;
use crate::downgrade;
use crate::etcd;

/// How many nodes a reason names before it counts.
const NAMED_NODES: usize = 3;

/// A gate that does not let a step pass.
#[derive(Debug)]
pub(super) enum Closed {
    /// It may open by itself.
    Now(WaitReason),
    /// It will not.
    Never(HaltReason),
}

impl Run<'_> {
    /// Whether the step may start, given who is away.
    pub(super) fn pass(
        &self,
        lane: &LaneView<'_>,
        action: Action,
        away: &Away<'_>,
    ) -> Result<(), Closed> {
        if action == Action::SnapshotEtcd {
            return self.somebody_to_ask();
        }
        if action == Action::Verify {
            return self.listed(lane);
        }
        // What writes a slot needs to know what it overwrites, and on a control
        // plane that no other is away; what disrupts nothing needs nothing.
        let guarded = action.is_disruptive() || action == Action::Install;
        let (true, Some(name)) = (guarded, &lane.lane.node) else {
            return Ok(());
        };
        if action.is_disruptive() {
            self.fresh()?;
            self.given_back(lane, name)?;
            self.all_known()?;
        }
        let node = self.seen(name, action)?;
        as_expected(lane, name, node)?;
        if action == Action::Install {
            return match node.role {
                Role::ControlPlane if !mutant::is(Mutant::ControlPlaneAhead) => {
                    self.alone(name, away)
                }
                _ => Ok(()),
            };
        }
        match node.role {
            Role::ControlPlane => self.quorum(lane, name, away),
            // A way back waits for nobody's health (rule 12).
            Role::Worker => room(lane, name, node, away, self.is_way_back()),
        }
    }

    /// Rule 10: a snapshot is taken once a control plane was seen; an attempt before
    /// that would only be wasted.
    fn somebody_to_ask(&self) -> Result<(), Closed> {
        let mut unseen = None;
        for (name, node) in self.snapshot.nodes_with(Role::ControlPlane) {
            match node.talos.as_result() {
                Ok(_) => return Ok(()),
                Err(why) => unseen = unseen.or(Some((name, why))),
            }
        }
        let Some((node, why)) = unseen else { return Ok(()) };
        let (node, why) = (node.clone(), why.to_owned());
        Err(Closed::Now(WaitReason::NodeUnknown { node, why }))
    }

    /// Rule 10: a node is verified once somebody knows its machine. One that reboots where
    /// discovery does not show it is found when it is back.
    fn listed(&self, lane: &LaneView<'_>) -> Result<(), Closed> {
        match &lane.lane.node {
            Some(node) if !self.snapshot.nodes.contains_key(node) => {
                let why = match self.snapshot.unmatched.get(node) {
                    Some(why) => format!("no machine is known for it: {why}"),
                    None => "it is not in the cluster any more".to_owned(),
                };
                Err(Closed::Now(WaitReason::NodeUnknown { node: node.clone(), why }))
            }
            _ => Ok(()),
        }
    }

    /// Rule 2: an observation newer than the last disruption.
    fn fresh(&self) -> Result<(), Closed> {
        match self.state.observe_after() {
            _ if mutant::is(Mutant::StaleObservation) => Ok(()),
            Some(newer_than) if self.snapshot.taken_at <= newer_than => {
                Err(Closed::Now(WaitReason::StaleObservation { newer_than }))
            }
            _ => Ok(()),
        }
    }

    /// Rules 1 and 7: a node with a cordon of an earlier run of ours is out of
    /// service by us. One that serves is given back before anything else is
    /// disrupted, and a control plane is waited for; who is in the middle of a node
    /// goes on.
    fn given_back(&self, lane: &LaneView<'_>, name: &NodeName) -> Result<(), Closed> {
        let holds = |other: &&NodeName| {
            let node = self.snapshot.nodes.get(*other);
            node.is_some_and(|node| node.is_up() || node.role == Role::ControlPlane)
        };
        let mut left = self.state.inherited_cordons().iter().filter(|other| *other != name);
        match left.find(holds).filter(|_| !lane.is_entered()) {
            Some(node) => Err(Closed::Now(WaitReason::CordonLeft { node: node.clone() })),
            None => Ok(()),
        }
    }

    /// Rule 10: the node can be seen. A way back is held up only by what it
    /// needs itself, which is the Talos API (rule 12).
    fn seen(&self, name: &NodeName, action: Action) -> Result<&Node, Closed> {
        let unknown = |why: &str| {
            Closed::Now(WaitReason::NodeUnknown { node: name.clone(), why: why.to_owned() })
        };
        let Some(node) = self.snapshot.nodes.get(name) else {
            return Err(unknown("it is not in the cluster any more"));
        };
        if mutant::is(Mutant::UnknownIsFine) {
            return Ok(node);
        }
        node.talos.as_result().map_err(unknown)?;
        if action.is_disruptive() && !self.is_way_back() {
            node.kubernetes.as_result().map_err(unknown)?;
        }
        Ok(node)
    }

    /// Rule 10: every node of Kubernetes has a known machine. One that is not seen may be
    /// away already, and counts in no limit.
    fn all_known(&self) -> Result<(), Closed> {
        let mut unknown = self.snapshot.unknown_nodes(&self.plan.policy.foreign_nodes);
        match unknown.next().filter(|_| !self.is_way_back()) {
            Some((node, why)) => {
                let why = format!("no machine is known for it: {why}");
                Err(Closed::Now(WaitReason::NodeUnknown { node: node.clone(), why }))
            }
            None => Ok(()),
        }
    }

    /// Rule 12: a way back passes gates that others wait at.
    fn is_way_back(&self) -> bool {
        self.plan.rollback && !mutant::is(Mutant::WayBackGated)
    }

    /// Rules 1 and 3: one control plane at a time, and only while etcd can
    /// spare it, with a snapshot to fall back on.
    fn quorum(&self, lane: &LaneView<'_>, name: &NodeName, away: &Away<'_>) -> Result<(), Closed> {
        let skipped = mutant::is(Mutant::SnapshotSkipped);
        if self.state.snapshot(lane.hop.number).is_none() && !skipped {
            return Err(Closed::Never(HaltReason::NoSnapshot { hop: lane.hop.number }));
        }
        let reboots = matches!(lane.hop.change, Change::Talos { .. });
        let members = self.snapshot.etcd.known().map_or(0, |etcd| etcd.members.len());
        let mut problems = etcd::problems(self.snapshot, Some(name), self.is_way_back());
        if reboots && !etcd::survives_one_loss(members) && !self.plan.policy.accept_outage {
            problems.push(format!("{members} members are no quorum without it"));
        }
        problems.extend(self.newer_data(lane));
        if !problems.is_empty() {
            let why = problems.join("; ");
            return Err(Closed::Now(WaitReason::EtcdUnsafe { node: name.clone(), why }));
        }
        if mutant::is(Mutant::TwoControlPlanes) {
            return Ok(());
        }
        self.alone(name, away)
    }

    /// Rule 1: no other control plane is away. Nothing heavy is written to the disk
    /// of one meanwhile either: it has etcd's log.
    fn alone(&self, name: &NodeName, away: &Away<'_>) -> Result<(), Closed> {
        // Whoever has etcd's word may go back even if Kubernetes is not well
        // elsewhere (rule 12); a lane in flight still excludes every other.
        let down = away
            .control_planes()
            .filter(|other| *other != name)
            .find(|other| !self.is_way_back() || away.is_entered(other));
        match down {
            Some(down) => Err(Closed::Now(WaitReason::ControlPlaneDown {
                node: name.clone(),
                down: down.clone(),
                why: self.snapshot.nodes.get(down).and_then(Node::why_down),
            })),
            None => Ok(()),
        }
    }

    /// Rule 13: a member of a lower minor ends itself while the data is of a newer
    /// one. That is no matter of health, so a way back waits for it too.
    fn newer_data(&self, lane: &LaneView<'_>) -> Option<String> {
        let Target::Talos(target) = &lane.lane.target else { return None };
        let etcd = target.etcd.filter(|_| !mutant::is(Mutant::DowngradeSkipped))?;
        let newer = downgrade::newer_data(self.snapshot.etcd.known()?, etcd);
        let (node, minor) = newer.first()?;
        Some(format!(
            "the data of etcd on {node} is of {minor}, and etcd {etcd} does not start on it"
        ))
    }
}

/// The node runs what the plan expects: the version before, or already the
/// one after.
fn as_expected(lane: &LaneView<'_>, name: &NodeName, node: &Node) -> Result<(), Closed> {
    let (Target::Talos(target), Some(talos)) = (&lane.lane.target, node.talos.known()) else {
        return Ok(());
    };
    let to: &Version = lane.hop.change.to();
    if talos.version == target.from || talos.version == *to {
        return Ok(());
    }
    Err(Closed::Never(HaltReason::Drift {
        node: name.clone(),
        expected: target.from.clone(),
        found: talos.version.clone(),
    }))
}

/// Rule 6: no more workers away than the policy allows, this one included. With
/// `mends`, only those in flight count.
fn room(
    lane: &LaneView<'_>,
    name: &NodeName,
    node: &Node,
    away: &Away<'_>,
    mends: bool,
) -> Result<(), Closed> {
    let (pool, limit) = lane.hop.limit_for(node.pool.as_deref());
    // A worker that is down takes nothing away with it: only those in flight
    // count beside it, or a pool with too many down could never be mended.
    let mends = mends || !node.is_up();
    let counts = |other: &NodeName| other != name && (!mends || away.is_entered(other));
    let others = || away.workers(pool).filter(|other| counts(other));
    if others().take(limit).count() < limit || mutant::is(Mutant::WorkerLimit) {
        return Ok(());
    }
    Err(Closed::Now(WaitReason::NoRoom {
        pool: pool.map(ToOwned::to_owned),
        limit,
        away: others().take(NAMED_NODES).cloned().collect(),
        count: others().count(),
    }))
}
