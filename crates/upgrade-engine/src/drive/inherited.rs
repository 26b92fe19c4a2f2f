//! Cordons of a run that this one replaces: nodes that serve are given back before
//! anything else begins, and none is left over at the end (rule 7). What it armed
//! is remembered (rule 5).

use upgrade_core::event::EventKind;
use upgrade_core::jiff::Timestamp;
use upgrade_core::journal::Record;
use upgrade_core::reason::{HaltReason, WaitReason};
use upgrade_core::snapshot::{Node, NodeName};

use super::{DriveError, Driver, End, Woke};
use crate::io::{Io, Kubernetes as _};
use crate::journal::Journal;
use crate::observe::limited;
use crate::store::Inherited;

impl<I: Io, J: Journal> Driver<I, J> {
    /// Writes down what is taken over, so that a crash does not forget it. Once
    /// only: what was lifted since is not ours any more.
    pub(super) async fn inherit(&mut self) -> Result<(), DriveError> {
        let inherited = std::mem::take(&mut self.inherited);
        if !inherited.is_empty() && !self.state.has_inherited() {
            let Inherited { cordons, armed } = inherited;
            self.write(Record::Inherited { cordons, armed }).await?;
        }
        Ok(())
    }

    /// Lifts them where the node serves, once on each picture. What does not work
    /// now is tried again on the next; `decide` lets nothing begin before.
    pub(super) async fn give_back(&mut self) -> Result<(), DriveError> {
        if self.state.inherited_cordons().is_empty() || !self.picture.is_first_used() {
            return Ok(());
        }
        let nodes = &self.picture.snapshot.nodes;
        let serves = |node: &&NodeName| nodes.get(*node).is_some_and(Node::is_up);
        let serving: Vec<NodeName> =
            self.state.inherited_cordons().iter().filter(serves).cloned().collect();
        for node in serving {
            self.guard.holds()?;
            let kubernetes = self.io.kubernetes();
            // An answer may have been lost: what is gone already is not asked for
            // again, or a cordon that somebody sets now would go with it.
            if self.is_seen_lifted(&node)
                || limited(&*self.io, kubernetes.set_unschedulable(&node, false)).await.is_ok()
            {
                self.write(Record::Lifted { node }).await?;
            }
        }
        Ok(())
    }

    /// Whether the node has no cordon in the picture.
    fn is_seen_lifted(&self, node: &NodeName) -> bool {
        let seen = self.picture.snapshot.nodes.get(node).and_then(|node| node.kubernetes.known());
        seen.is_some_and(|facts| !facts.unschedulable)
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
        let armed = self.state.next_boots();
        Ok(Err(End::Halted { reason: why, armed, cordoned }))
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
