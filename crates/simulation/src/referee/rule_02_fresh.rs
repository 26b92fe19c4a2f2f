//! Rule 2: what disrupts begins on a look that is newer than the end of the last
//! disruption.
//!
//! A step begins when its process writes that down; what it knew then is its
//! [`Basis`](super::notes::Basis). Steps that run side by side may begin on one
//! look; an end counts from when it was written.

use upgrade_core::jiff::{SignedDuration, Timestamp};

use super::notes::Answers;
use super::{Rule, Scene};
use crate::seen::Seen;

/// How old a look may be, even if nothing was disrupted since: a few seconds by
/// intention, and what a look at many nodes that do not answer takes.
const OLDEST: SignedDuration = SignedDuration::from_secs(60);

pub(super) struct Fresh;

impl Rule for Fresh {
    fn number(&self) -> u8 {
        2
    }

    fn see(&mut self, seen: &Seen, scene: &Scene<'_>, found: &mut Vec<String>) {
        let Some(blow) = scene.notes.blow(seen) else { return };
        // Never written down: that is rule 8's.
        let Some(basis) = blow.basis else { return };
        let rollback = blow.driver.plan.rollback;
        let etcd = blow.node.control_plane && !rollback;
        let oldest = basis.at.saturating_sub(OLDEST).unwrap_or(Timestamp::MIN);
        for (what, needed, answers) in [
            ("the node", true, basis.facts),
            ("Kubernetes", !rollback, basis.nodes),
            ("etcd", etcd, basis.etcd),
        ] {
            // One that was never answered is rule 10's.
            let Answers { good: Some(good), .. } = answers else { continue };
            let act = blow.act;
            if !needed {
                continue;
            }
            if good <= basis.calm_since {
                let since = basis.calm_since;
                found.push(format!(
                    "{act:?} on a look at {what} of {good}, and something was disrupted until {since}"
                ));
            } else if good < oldest {
                found.push(format!("{act:?} on a look at {what} of {good}, which is too old"));
            }
        }
    }
}
