//! When the specs of a unit are settled.
//!
//! Tools write the objects of a cluster one after the other, within moments. A run that began with
//! the first of them would be cancelled by the second.

use upgrade_core::jiff::SignedDuration;

/// How long nothing may change: tools apply one object after the other without a pause.
const QUIET: SignedDuration = SignedDuration::from_secs(5);

/// How long changes can hold up a run, so that an object that is written all the time does not
/// hold it up for ever (rule 11).
const LONGEST: SignedDuration = SignedDuration::from_secs(30);

/// How long to wait, given the times since the first and the last change that no run has taken
/// into account; `None` once the specs are settled.
pub fn until_settled(
    since_first: SignedDuration,
    since_last: SignedDuration,
) -> Option<SignedDuration> {
    let left = (QUIET - since_last).min(LONGEST - since_first);
    left.is_positive().then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_waited_for_and_not_for_ever() {
        // Rule 11.
        let seconds = SignedDuration::from_secs;
        for (first, last, left) in [
            (0, 0, Some(5)),
            (2, 2, Some(3)),
            (12, 1, Some(4)),
            (5, 5, None),
            (28, 0, Some(2)),
            (30, 0, None),
            (90, 60, None),
        ] {
            assert_eq!(until_settled(seconds(first), seconds(last)), left.map(seconds), "{first}");
        }
    }
}
