//! What a run takes over from the one that it replaces: cordons that are ours to lift (rule 7),
//! and armed nodes (rule 5). `decide` says when a cordon is lifted.

use upgrade_core::journal::Record;
use upgrade_planner::decide::Lift;

use super::{DriveError, Driver, Woke};
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

    /// Lifts cordons. What does not work now may be decided again on the next observation.
    pub(super) async fn lift(&mut self, lifts: Vec<Lift>) -> Result<Woke, DriveError> {
        self.tried.lifted_on = Some(self.picture.snapshot.taken_at);
        for Lift { node, is_gone } in lifts {
            self.guard.holds()?;
            let kubernetes = self.io.kubernetes();
            if is_gone
                || limited(&*self.io, kubernetes.set_unschedulable(&node, false)).await.is_ok()
            {
                self.write(Record::Lifted { node }).await?;
            }
        }
        Ok(Woke::Again)
    }
}
