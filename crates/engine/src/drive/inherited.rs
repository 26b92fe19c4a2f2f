//! Cordons of a run that this one replaces: nodes that serve are given back before
//! anything else begins, and none is left over at the end (rule 7).

use upgrade_core::event::EventKind;
use upgrade_core::jiff::Timestamp;
use upgrade_core::journal::Record;
use upgrade_core::reason::{HaltReason, WaitReason};
use upgrade_core::snapshot::{Node, NodeName, Role};
use upgrade_planner::decide::Start;

use super::{DriveError, Driver, End, Woke};
use crate::io::{Io, Kubernetes as _};
use crate::journal::Journal;
use crate::observe::limited;

impl<I: Io, J: Journal> Driver<I, J> {
    /// Writes down what is taken over, so that a crash does not forget it. Once
    /// only: what was lifted since is not ours any more.
    pub(super) async fn inherit(&mut self) -> Result<(), DriveError> {
        let cordons = std::mem::take(&mut self.inherited_cordons);
        if !cordons.is_empty() && !self.state.took_over_cordons() {
            self.write(Record::Inherited { cordons }).await?;
        }
        Ok(())
    }

    /// Lifts them where the node serves. What does not work now is tried again.
    pub(super) async fn give_back(&mut self) -> Result<(), DriveError> {
        let nodes = &self.picture.snapshot.nodes;
        let serves = |node: &&NodeName| nodes.get(*node).is_some_and(Node::is_up);
        let serving: Vec<NodeName> =
            self.state.inherited_cordons().iter().filter(serves).cloned().collect();
        for node in serving {
            self.guard.holds()?;
            let kubernetes = self.io.kubernetes();
            if limited(&*self.io, kubernetes.set_unschedulable(&node, false)).await.is_ok() {
                self.write(Record::Lifted { node }).await?;
            }
        }
        Ok(())
    }

    /// Starts what may begin. A node that has a cordon of an earlier run of ours is
    /// out of service by us: one that serves again is given back first, and as long
    /// as a control plane is not, no other node is disrupted (rules 1 and 7).
    pub(super) async fn start_or_give_back(
        &mut self,
        starts: Vec<Start>,
        now: Timestamp,
    ) -> Result<Result<Woke, End>, DriveError> {
        if self.state.inherited_cordons().is_empty() {
            return Ok(Ok(self.start(starts).await?));
        }
        self.give_back().await?;
        let nodes = &self.picture.snapshot.nodes;
        let holds = |node: &Node| node.is_up() || node.role == Role::ControlPlane;
        let mut left = self.state.inherited_cordons().iter();
        let Some(node) = left.find(|node| nodes.get(*node).is_some_and(holds)).cloned() else {
            return Ok(Ok(self.start(starts).await?));
        };
        let harmless = |start: &Start| {
            !start.step.action.is_disruptive() || start.step.node.as_ref() == Some(&node)
        };
        let (harmless, held): (Vec<_>, Vec<_>) = starts.into_iter().partition(harmless);
        if !harmless.is_empty() {
            return Ok(Ok(self.start(harmless).await?));
        }
        let reason = WaitReason::CordonLeft { node };
        let under_way = !self.flights.is_empty() || self.state.our_cordons().next().is_some();
        if under_way && now >= self.gives_up(&reason, now).1 {
            // Who is in the middle of a node brings that to its end.
            return Ok(Ok(self.start(held).await?));
        }
        self.wait_for_cordon(reason, now).await
    }

    /// Waits until a cordon is lifted, or halts when that took too long (rule 11).
    pub(super) async fn wait_for_cordon(
        &mut self,
        reason: WaitReason,
        now: Timestamp,
    ) -> Result<Result<Woke, End>, DriveError> {
        let (since, until) = self.gives_up(&reason, now);
        if now < until {
            return Ok(Ok(self.wait(&reason, until, true).await?));
        }
        let why = HaltReason::WaitedTooLong { since, waiting_for: reason };
        self.write(Record::Halted { why: why.clone() }).await?;
        self.tell(EventKind::Halted { why: why.clone() });
        let cordoned = self.state.inherited_cordons().iter().cloned().collect();
        Ok(Err(End::Halted { reason: why, armed: Vec::new(), cordoned }))
    }

    /// Since when it is waited for this, and until when.
    fn gives_up(&self, reason: &WaitReason, now: Timestamp) -> (Timestamp, Timestamp) {
        let since = self.state.waiting_since(&reason.key()).unwrap_or(now);
        (since, since.saturating_add(self.plan.policy.timeouts.gate).unwrap_or(now))
    }

    /// What keeps a run from being over: a node of the cluster that still has a
    /// cordon of ours.
    pub(super) fn not_given_back(&self) -> Option<WaitReason> {
        let nodes = &self.picture.snapshot.nodes;
        let mut left = self.state.inherited_cordons().iter();
        let node = left.find(|node| nodes.contains_key(*node))?.clone();
        Some(WaitReason::CordonLeft { node })
    }
}
