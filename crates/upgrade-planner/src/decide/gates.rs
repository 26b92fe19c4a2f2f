//! The gates before a step: what has to be observed, and observed recently, before
//! something is disrupted.

use upgrade_core::guard;
use upgrade_core::jiff::Timestamp;
use upgrade_core::mutant::Mutant;
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
    /// It may open later.
    Now(WaitReason),
    /// It never opens.
    Never(HaltReason),
}

impl Run<'_> {
    /// Whether the step may start, given the nodes that are unavailable.
    pub(super) fn pass(
        &self,
        lane: &LaneView<'_>,
        action: Action,
        away: &Away<'_>,
    ) -> Result<(), Closed> {
        if action == Action::SnapshotEtcd {
            return self.control_plane_answers();
        }
        if action == Action::Verify {
            return self.has_machine(lane);
        }
        // What writes a slot needs to know what it overwrites, and on a control plane
        // that no other is unavailable; what disrupts nothing needs nothing.
        let (true, Some(name)) = (action.needs_observation(), &lane.lane.node) else {
            return Ok(());
        };
        if action.is_disruptive() {
            self.fresh()?;
            self.adopted_cordons(lane, name)?;
            self.all_known()?;
        }
        let node = self.seen(name, action)?;
        as_expected(lane, name, node)?;
        if action == Action::Install {
            return match node.role {
                // A node without a known machine may be a control plane that is away.
                Role::ControlPlane if guard!(Mutant::ControlPlaneAhead) => {
                    self.all_known().and_then(|()| self.alone(name, away))
                }
                _ => Ok(()),
            };
        }
        match node.role {
            Role::ControlPlane => self.quorum(lane, name, away),
            // A rollback does not wait for the health of other nodes (rule 12).
            Role::Worker => room(lane, name, node, away, self.is_rollback()),
        }
    }

    /// Rule 10: a snapshot is taken once a control plane was observed; an earlier attempt
    /// would fail.
    fn control_plane_answers(&self) -> Result<(), Closed> {
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

    /// Rule 10: a node is verified once its machine is known. One that reboots where
    /// discovery does not show it is found when it is back.
    fn has_machine(&self, lane: &LaneView<'_>) -> Result<(), Closed> {
        match &lane.lane.node {
            Some(node) if !self.snapshot.nodes.contains_key(node) => {
                let why = match self.snapshot.unmatched.get(node) {
                    Some(unmatched) => format!("no machine is known for it: {}", unmatched.why),
                    None => "it is no longer in the cluster".to_owned(),
                };
                Err(Closed::Now(WaitReason::NodeUnknown { node: node.clone(), why }))
            }
            _ => Ok(()),
        }
    }

    /// Rule 2: an observation newer than the last disruption.
    fn fresh(&self) -> Result<(), Closed> {
        let stale =
            |after: &Timestamp| guard!(Mutant::StaleObservation, self.snapshot.taken_at <= *after);
        match self.state.observe_after().filter(stale) {
            Some(newer_than) => Err(Closed::Now(WaitReason::StaleObservation { newer_than })),
            None => Ok(()),
        }
    }

    /// Rules 1 and 7: a node that an earlier run of ours cordoned counts as disrupted. If it
    /// is up it is uncordoned before anything else is disrupted; a control plane blocks the
    /// run until then. Lanes that are in flight continue.
    fn adopted_cordons(&self, lane: &LaneView<'_>, name: &NodeName) -> Result<(), Closed> {
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

    /// Rule 10: the node was observed. A rollback waits only for what it needs itself,
    /// which is the Talos API (rule 12).
    fn seen(&self, name: &NodeName, action: Action) -> Result<&Node, Closed> {
        let unknown = |why: &str| {
            Closed::Now(WaitReason::NodeUnknown { node: name.clone(), why: why.to_owned() })
        };
        let Some(node) = self.snapshot.nodes.get(name) else {
            return Err(unknown("it is no longer in the cluster"));
        };
        if !guard!(Mutant::UnknownIsFine) {
            return Ok(node);
        }
        node.talos.as_result().map_err(unknown)?;
        if action.is_disruptive() && !self.is_rollback() {
            node.kubernetes.as_result().map_err(unknown)?;
        }
        Ok(node)
    }

    /// Rule 10: every node of Kubernetes has a known machine. One that is not observed may
    /// be down already, and counts in no limit.
    fn all_known(&self) -> Result<(), Closed> {
        let mut unknown = self.snapshot.unknown_nodes(&self.plan.policy.foreign_nodes);
        match unknown.next().filter(|_| !self.is_rollback()) {
            Some((node, why)) => {
                let why = format!("no machine is known for it: {why}");
                Err(Closed::Now(WaitReason::NodeUnknown { node: node.clone(), why }))
            }
            None => Ok(()),
        }
    }

    /// Rule 12: a rollback passes gates that others wait at.
    fn is_rollback(&self) -> bool {
        guard!(Mutant::RollbackGated, self.plan.rollback)
    }

    /// Rules 1 and 3: one control plane at a time, only while etcd keeps quorum without it,
    /// and with a snapshot to fall back on.
    fn quorum(&self, lane: &LaneView<'_>, name: &NodeName, away: &Away<'_>) -> Result<(), Closed> {
        let missing = self.state.snapshot(lane.hop.number).is_none();
        if guard!(Mutant::SnapshotSkipped, missing) {
            return Err(Closed::Never(HaltReason::NoSnapshot { hop: lane.hop.number }));
        }
        let reboots = matches!(lane.hop.change, Change::Talos { .. });
        let members = self.snapshot.etcd.known().map_or(0, |etcd| etcd.members.len());
        let mut problems = etcd::problems(self.snapshot, Some(name), self.is_rollback());
        if reboots && !etcd::survives_one_loss(members) && !self.plan.policy.accept_outage {
            problems.push(format!("etcd would lose quorum: {members} members cannot lose one"));
        }
        problems.extend(self.newer_data(lane));
        if !problems.is_empty() {
            let why = problems.join("; ");
            return Err(Closed::Now(WaitReason::EtcdUnsafe { node: name.clone(), why }));
        }
        if !guard!(Mutant::TwoControlPlanes) {
            return Ok(());
        }
        self.alone(name, away)
    }

    /// Rule 1: no other control plane is unavailable. Nothing heavy is written to the disk
    /// of one meanwhile either: it has etcd's log.
    fn alone(&self, name: &NodeName, away: &Away<'_>) -> Result<(), Closed> {
        // With etcd's quorum a rollback may start even if Kubernetes is not healthy on
        // other nodes (rule 12); a lane in flight still excludes every other.
        let down = away
            .control_planes()
            .filter(|other| *other != name)
            .find(|other| !self.is_rollback() || away.is_entered(other));
        match down {
            Some(down) => Err(Closed::Now(WaitReason::ControlPlaneDown {
                node: name.clone(),
                down: down.clone(),
                why: self.snapshot.nodes.get(down).and_then(Node::why_down),
            })),
            None => Ok(()),
        }
    }

    /// Rule 13: a member of a lower minor exits while the data is of a newer one. That is
    /// not a question of health, so a rollback waits for it too.
    fn newer_data(&self, lane: &LaneView<'_>) -> Option<String> {
        let Target::Talos(target) = &lane.lane.target else { return None };
        let etcd = target.etcd.filter(|_| guard!(Mutant::DowngradeSkipped))?;
        let newer = downgrade::newer_data(self.snapshot.etcd.known()?, etcd);
        let (node, minor) = newer.first()?;
        Some(format!(
            "the data of etcd on {node} has the format of {minor}, which etcd {etcd} does not read"
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

/// Rule 6: no more workers unavailable than the policy allows, this one included. With
/// `repairs`, only those in flight count.
fn room(
    lane: &LaneView<'_>,
    name: &NodeName,
    node: &Node,
    away: &Away<'_>,
    repairs: bool,
) -> Result<(), Closed> {
    let (pool, limit) = lane.hop.limit_for(node.pool.as_deref());
    // Upgrading a worker that is down disrupts nothing: only those in flight count beside
    // it, or a pool with too many down could never be repaired.
    let repairs = repairs || !node.is_up();
    let counts = |other: &NodeName| other != name && (!repairs || away.is_entered(other));
    let others = || away.workers(pool).filter(|other| counts(other));
    if !guard!(Mutant::WorkerLimit, others().take(limit).count() >= limit) {
        return Ok(());
    }
    Err(Closed::Now(WaitReason::NoRoom {
        pool: pool.map(ToOwned::to_owned),
        limit,
        away: others().take(NAMED_NODES).cloned().collect(),
        count: others().count(),
    }))
}
