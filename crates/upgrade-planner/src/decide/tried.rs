//! What a process tried that is in no journal: nothing of it changed the cluster, and the next
//! process begins without it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use upgrade_core::jiff;
use upgrade_core::step::StepId;

/// How long a step whose evidence could not be read is left alone.
const PAUSE: SignedDuration = SignedDuration::from_secs(5);

/// What this process tried.
#[derive(Clone, Debug, Default)]
pub struct Tried {
    /// The observation on which cordons of an earlier run were last lifted.
    pub lifted_on: Option<Timestamp>,
    /// Steps that could not begin, since what is true before them could not be read: since
    /// when, and when to try again.
    unread: BTreeMap<StepId, (Timestamp, Timestamp)>,
}

/// What becomes of a step whose evidence could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It is tried again in a moment.
    Again,
    /// It has failed without having begun (rule 10).
    Failed,
}

impl Tried {
    /// Evidence of a step could not be read. It is tried again until a call would have had its
    /// time, which is `limit` (rule 11).
    pub fn unread(&mut self, step: &StepId, now: Timestamp, limit: SignedDuration) -> Unread {
        let (since, _) = *self.unread.entry(step.clone()).or_insert((now, now));
        if now.duration_since(since) >= limit {
            self.unread.remove(step);
            return Unread::Failed;
        }
        let again = now.saturating_add(PAUSE).unwrap_or(now);
        self.unread.insert(step.clone(), (since, again));
        Unread::Again
    }

    /// A step began.
    pub fn began(&mut self, step: &StepId) {
        self.unread.remove(step);
    }

    /// When a step may be tried again that is left alone for now.
    pub fn held_until(&self, step: &StepId, now: Timestamp) -> Option<Timestamp> {
        self.unread.get(step).map(|(_, again)| *again).filter(|again| now < *again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_evidence_is_tried_again_until_its_time_is_over() {
        // Rules 10 and 11.
        let at = |second| Timestamp::from_second(second).unwrap();
        let step: StepId = "1/worker-1/reboot".parse().unwrap();
        let limit = SignedDuration::from_secs(12);
        let mut tried = Tried::default();
        assert_eq!(tried.held_until(&step, at(0)), None);
        assert_eq!(tried.unread(&step, at(0), limit), Unread::Again);
        assert_eq!(tried.held_until(&step, at(4)), Some(at(5)));
        assert_eq!(tried.held_until(&step, at(5)), None);
        assert_eq!(tried.unread(&step, at(5), limit), Unread::Again);
        assert_eq!(tried.unread(&step, at(12), limit), Unread::Failed);
        // Another attempt has its own time.
        assert_eq!(tried.unread(&step, at(20), limit), Unread::Again);
        tried.began(&step);
        assert_eq!(tried.held_until(&step, at(21)), None);
    }
}
