//! The decisions of a reconciler that need a clock or a counter, as pure functions: time is
//! an argument, and the async part only carries them out.

use std::time::Duration;

use tokio::time::Instant;
use upgrade_api::run::RunPhase;

use crate::front_end::NextAction;

/// How soon an action that failed for now is tried again.
pub(super) const SOON: Duration = Duration::from_secs(5);

/// The first pause after a failed observation; it doubles up to the usual interval.
const OBSERVE_AGAIN: Duration = Duration::from_secs(15);

/// How old an observation may be that is planned on. It is the one that the target was
/// judged on, a few requests to the hub ago; the engine observes again before every act
/// (rule 2).
const FRESH: Duration = Duration::from_secs(20);

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

/// What comes before an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Before {
    /// The lease of the cluster is needed (rule 9).
    pub(super) lease: bool,
    /// The status is written first: users see what happens while it happens.
    pub(super) show: bool,
    /// The action concerns a run that a driver works on.
    pub(super) driver: bool,
}

/// What comes before an action, by the phase of the newest run.
pub(super) fn before(
    next: &NextAction,
    run: Option<RunPhase>,
    has_status: bool,
    fresh: bool,
) -> Before {
    // A run that is paused already is paused without a driver, so it needs no lease.
    let paused = matches!(next, NextAction::Pause { .. }) && run == Some(RunPhase::Paused);
    let (lease, driver) = match next {
        NextAction::Begin(_) => (true, false),
        NextAction::Drive | NextAction::Cancel => (true, true),
        NextAction::Pause { .. } => (!paused, !paused),
        NextAction::Idle | NextAction::Observe | NextAction::Close => (false, false),
    };
    // A plan follows at once on a fresh observation: a status that says so would be read by
    // no one, unless it is the first status of the object.
    let at_once = matches!(next, NextAction::Begin(_)) && has_status && fresh;
    Before { lease, show: !at_once, driver }
}

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
    use upgrade_core::intent::Intent;

    use super::*;
    use crate::front_end::Start;

    fn begin() -> NextAction {
        let start = Start { intent: Intent::default(), policy: Err(String::new()) };
        NextAction::Begin(Box::new(start))
    }

    fn pause() -> NextAction {
        NextAction::Pause { by: "anna".to_owned() }
    }

    #[test]
    fn only_a_lease_starts_or_steers_a_run() {
        // Rule 9.
        let lease = |next: &NextAction, run| before(next, run, true, false).lease;
        for next in [begin(), NextAction::Drive, NextAction::Cancel] {
            for run in RunPhase::ALL.map(Some) {
                assert!(lease(&next, run), "{next:?} {run:?}");
            }
        }
        for next in [NextAction::Idle, NextAction::Observe, NextAction::Close] {
            assert!(!lease(&next, Some(RunPhase::Running)), "{next:?}");
        }
    }

    #[test]
    fn a_pause_needs_a_driver_until_the_run_is_paused() {
        // Rule 12: the node in flight reaches a safe state first.
        let running = before(&pause(), Some(RunPhase::Running), true, false);
        assert_eq!(running, Before { lease: true, show: true, driver: true });
        let paused = before(&pause(), Some(RunPhase::Paused), true, false);
        assert_eq!(paused, Before { lease: false, show: true, driver: false });
    }

    #[test]
    fn the_status_is_written_first_unless_a_plan_follows_at_once() {
        assert!(!before(&begin(), None, true, true).show);
        assert!(before(&begin(), None, true, false).show, "the observation takes a while");
        assert!(before(&begin(), None, false, true).show, "the first status of the object");
        assert!(before(&NextAction::Drive, None, true, true).show);
    }

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
