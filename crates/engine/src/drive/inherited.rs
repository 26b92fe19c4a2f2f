//! Cordons of a run that this one replaces: nodes that serve are given back before
//! anything else begins, and none is left over at the end (rule 7).

use upgrade_core::jiff::Timestamp;
use upgrade_core::journal::Record;
use upgrade_core::reason::WaitReason;
use upgrade_core::snapshot::{Node, NodeName};

use super::{DriveError, Driver, Woke};
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

    /// Before anything begins: a node that serves again is given back first, since
    /// one that has our cordon is still out of service by us (rules 1 and 7). What
    /// cannot be lifted is waited for a while; the end of the run names it.
    pub(super) async fn held_back(&mut self, now: Timestamp) -> Result<Option<Woke>, DriveError> {
        if self.state.inherited_cordons().is_empty() {
            return Ok(None);
        }
        self.give_back().await?;
        let nodes = &self.picture.snapshot.nodes;
        let serves = |node: &&NodeName| nodes.get(*node).is_some_and(Node::is_up);
        let Some(node) = self.state.inherited_cordons().iter().find(serves).cloned() else {
            return Ok(None);
        };
        let reason = WaitReason::CordonLeft { node };
        let since = self.state.waiting_since(&reason.key()).unwrap_or(now);
        let until = since.saturating_add(self.plan.policy.timeouts.gate).unwrap_or(now);
        if now < until {
            return Ok(Some(self.wait(&reason, until, true).await?));
        }
        Ok(None)
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
