//! Pauses, limits and counters of a reconciler, as pure functions.

use std::time::Duration;

use tokio::time::Instant;

/// How soon an action that failed for now is tried again.
pub(super) const SOON: Duration = Duration::from_secs(5);

/// The first pause after a failed observation; it doubles up to the usual interval.
const OBSERVE_AGAIN: Duration = Duration::from_secs(15);

/// How old an observation may be that is planned on. It is the one that the target was
/// judged on, a few requests to the hub ago; the engine observes again before every act
/// (rule 2).
pub(super) const FRESH: Duration = Duration::from_secs(20);

/// How often the credentials of a run that waits for something are compared, so that new
/// ones are used soon.
const CREDENTIALS: Duration = Duration::from_secs(15);

/// The same for a run that makes progress: old credentials may work for long.
const CREDENTIALS_IN_USE: Duration = Duration::from_mins(1);

/// How long a run may be impossible to drive, for want of credentials or the like
/// (rule 11).
const STUCK: Duration = Duration::from_mins(15);

/// How many panics of its driver halt a run.
const PANICS: u32 = 3;

/// Whether an observation of that time may be planned on.
pub(super) fn is_fresh(observed: Instant, now: Instant) -> bool {
    now.saturating_duration_since(observed) < FRESH
}

/// The pause after an observation that failed, after one with this pause.
pub(super) fn observe_again(pause: Duration, interval: Duration) -> Duration {
    if pause >= interval { OBSERVE_AGAIN.min(interval) } else { (pause * 2).min(interval) }
}

/// When the credentials of a driven run are compared next.
pub(super) fn compare_credentials(waits: bool, now: Instant) -> Instant {
    now + if waits { CREDENTIALS } else { CREDENTIALS_IN_USE }
}

/// Whether a run that could not be driven since then is halted (rule 11).
pub(super) fn is_stuck(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) >= STUCK
}

/// Whether a run is halted after so many panics of its driver.
pub(super) const fn halts_after(panics: u32) -> bool {
    panics >= PANICS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_fresh_observation_is_planned_on() {
        // Rule 2.
        let now = Instant::now();
        assert!(is_fresh(now, now + FRESH - Duration::from_millis(1)));
        assert!(!is_fresh(now, now + FRESH));
    }

    #[test]
    fn a_failed_observation_is_repeated_soon_and_then_less_often() {
        let interval = Duration::from_mins(5);
        let mut pause = interval;
        let mut pauses = Vec::new();
        for _ in 0..7 {
            pause = observe_again(pause, interval);
            pauses.push(pause.as_secs());
        }
        assert_eq!(pauses, [15, 30, 60, 120, 240, 300, 15]);
        assert_eq!(observe_again(Duration::from_secs(5), Duration::from_secs(5)).as_secs(), 5);
    }

    #[tokio::test]
    async fn a_run_that_cannot_be_driven_is_halted_in_the_end() {
        // Rule 11.
        let since = Instant::now();
        assert!(!is_stuck(since, since + STUCK - Duration::from_secs(1)));
        assert!(is_stuck(since, since + STUCK));
        assert!(!halts_after(PANICS - 1) && halts_after(PANICS));
    }

    #[tokio::test]
    async fn a_run_that_waits_gets_new_credentials_sooner() {
        let now = Instant::now();
        assert!(compare_credentials(true, now) < compare_credentials(false, now));
    }
}
