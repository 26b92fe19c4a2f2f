//! What a run takes over from the one that it replaces: cordons that are ours to lift (rule 7),
//! and armed nodes (rule 5).
//!
//! An adopted cordon is lifted here and not by a step: its node may have no lane in this plan,
//! and the plan is immutable, so no step can be added for it. `decide` says which cordons are
//! lifted and when ([`Decision::Lift`]); the driver makes the one call and journals it. Nothing
//! is waited for or retried here: a cordon that could not be lifted is still adopted, and
//! `decide` returns it again on the next observation.
//!
//! [`Decision::Lift`]: upgrade_planner::decide::Decision::Lift

use upgrade_core::journal::Record;
use upgrade_planner::decide::Lift;

use super::{DriveError, Driver, Wakeup};
use crate::io::{Io, Kubernetes as _};
use crate::journal::Journal;
use crate::observe::limited;
use crate::store::Inherited;

impl<I: Io, J: Journal> Driver<I, J> {
    /// Journals what is taken over, so that a crash does not forget it. Once only: what was lifted
    /// since is not ours any more.
    pub(super) async fn inherit(&mut self) -> Result<(), DriveError> {
        let inherited = std::mem::take(&mut self.inherited);
        if !inherited.is_empty() && !self.state.has_inherited() {
            let Inherited { cordons, armed } = inherited;
            self.write(Record::Inherited { cordons, armed }).await?;
        }
        Ok(())
    }

    /// Lifts cordons. Those that could not be lifted are decided again on the next observation.
    pub(super) async fn lift(&mut self, lifts: Vec<Lift>) -> Result<Wakeup, DriveError> {
        self.tried.lifted_on = Some(self.observation.snapshot.taken_at);
        for Lift { node, is_gone } in lifts {
            self.guard.holds()?;
            let kubernetes = self.io.kubernetes();
            if is_gone
                || limited(&*self.io, kubernetes.set_unschedulable(&node, false)).await.is_ok()
            {
                self.write(Record::Lifted { node }).await?;
            }
        }
        Ok(Wakeup::Decide)
    }
}
