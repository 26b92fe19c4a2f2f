//! Draining, as far as it can be thought through: which pods leave a node,
//! which stay, which stop everything; and what a plan's drains will meet.
//!
//! The engine asks the same questions while it drains, so that what the plan
//! warned about is what happens.

mod simulate;

use upgrade_core::policy::{AtStake, Drain};
use upgrade_core::workload::{Budget, Pod};

pub(crate) use simulate::simulate;

/// What becomes of a pod when its node is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is evicted (rule 6).
    Evicted,
    /// It is on its way already, and is waited for.
    Going,
    /// It stays; the text says why.
    Stays(&'static str),
    /// It stops the drain before it begins; the text says what is at stake.
    Halts(&'static str),
}

/// What is at stake with a pod that is not recreated.
pub const NO_CONTROLLER: &str = "no controller";

/// What is at stake with a pod that keeps data on its node.
pub const EMPTY_DIR: &str = "emptyDir";

/// What becomes of a pod. As with kubectl, pods that would come back to the same
/// node at once do not matter: mirrors of static pods, and those of a `DaemonSet`.
/// A finished pod runs nothing and is left with its logs.
pub fn fate(pod: &Pod, policy: &Drain) -> Fate {
    if pod.mirror {
        return Fate::Stays("it mirrors a static pod");
    }
    if pod.is_finished() {
        return Fate::Stays("it has finished");
    }
    if pod.is_daemon() {
        return Fate::Stays("a DaemonSet keeps it there");
    }
    if pod.deleting_since.is_some() {
        return Fate::Going;
    }
    let bare = (pod.controller.is_none(), policy.bare_pods, NO_CONTROLLER);
    let scratch = (pod.empty_dir, policy.empty_dir, EMPTY_DIR);
    let stakes = [bare, scratch].into_iter().filter(|(applies, ..)| *applies);
    let mut fate = Fate::Evicted;
    for (_, choice, stake) in stakes {
        match choice {
            AtStake::Halt => return Fate::Halts(stake),
            AtStake::Leave => fate = Fate::Stays("the policy leaves it there"),
            AtStake::Evict => {}
        }
    }
    fate
}

/// The budgets that count a pod.
pub fn budgets_of<'a>(pod: &Pod, budgets: &'a [Budget]) -> Vec<&'a Budget> {
    budgets.iter().filter(|budget| budget.selects(pod)).collect()
}
