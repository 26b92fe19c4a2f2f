//! An error that repeats is logged once, then with a count now and then, and its end
//! is logged too. A hub that is away for an hour gives a handful of lines, not
//! thousands.

use std::collections::BTreeSet;
use std::time::Duration;

use upgrade_core::jiff::SignedDuration;

use crate::clock::Clock;

/// How long a repeated error is not logged again.
const REMIND: Duration = Duration::from_mins(10);

/// How many different errors of one trouble are logged when they are new: a text with
/// a changing number in it must not get around the count.
const TEXTS: usize = 8;

/// What is known of an error that may repeat. Pure: the time is an argument.
#[derive(Clone, Debug, Default)]
pub struct RepeatedError(Option<Streak>);

/// A streak of failures.
#[derive(Clone, Debug)]
struct Streak {
    began: Duration,
    failed: Duration,
    logged: Duration,
    count: u64,
    texts: BTreeSet<String>,
}

impl RepeatedError {
    /// It failed. What to log, if it is to be logged.
    pub fn failed(&mut self, why: &str, now: Duration) -> Option<String> {
        let Some(going) = &mut self.0 else {
            let texts = BTreeSet::from([why.to_owned()]);
            self.0 = Some(Streak { began: now, failed: now, logged: now, count: 1, texts });
            return Some(why.to_owned());
        };
        going.count += 1;
        going.failed = now;
        if now.saturating_sub(going.logged) >= REMIND {
            going.logged = now;
            going.texts.insert(why.to_owned());
            return Some(format!("{why} ({})", going.so_far(now)));
        }
        if going.texts.len() < TEXTS && going.texts.insert(why.to_owned()) {
            going.logged = now;
            return Some(why.to_owned());
        }
        None
    }

    /// It went well. How long it had failed, if it had.
    pub fn recovered(&mut self, now: Duration) -> Option<String> {
        self.0.take().map(|going| going.so_far(now))
    }

    /// When it failed last, if it did and has not gone well since.
    pub fn failed_at(&self) -> Option<Duration> {
        self.0.as_ref().map(|going| going.failed)
    }
}

impl Streak {
    fn so_far(&self, now: Duration) -> String {
        let lasted = now.saturating_sub(self.began).as_secs();
        let lasted = SignedDuration::from_secs(i64::try_from(lasted).unwrap_or(i64::MAX));
        match self.count {
            1 => format!("1 failure in {lasted:#}"),
            count => format!("{count} failures in {lasted:#}"),
        }
    }
}

/// Logs a trouble by [`RepeatedError`], on this machine's clock.
#[derive(Clone, Debug)]
pub struct ErrorLog {
    what: &'static str,
    over: &'static str,
    cluster: Option<String>,
    repeats: RepeatedError,
}

impl ErrorLog {
    /// What does not work, and what is said when it works again.
    pub fn new(what: &'static str, over: &'static str) -> Self {
        Self { what, over, cluster: None, repeats: RepeatedError::default() }
    }

    /// The same about one cluster.
    #[must_use]
    pub fn of(self, cluster: &str) -> Self {
        Self { cluster: Some(cluster.to_owned()), ..self }
    }

    /// It failed.
    pub fn failed(&mut self, why: &str) {
        let Self { what, cluster, repeats, .. } = self;
        if let Some(text) = repeats.failed(why, Clock::SYSTEM.since_boot()) {
            tracing::warn!(cluster = cluster.as_deref(), "{what}: {text}");
        }
    }

    /// It went well.
    pub fn recovered(&mut self) {
        let Self { over, cluster, repeats, .. } = self;
        if let Some(text) = repeats.recovered(Clock::SYSTEM.since_boot()) {
            tracing::info!(cluster = cluster.as_deref(), "{over}, after {text}");
        }
    }

    /// Comes back when it has not failed for this long; never if all is well.
    pub async fn quiet_for(&self, time: Duration) {
        let Some(failed) = self.repeats.failed_at() else { return std::future::pending().await };
        tokio::time::sleep((failed + time).saturating_sub(Clock::SYSTEM.since_boot())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn second(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    #[test]
    fn an_error_that_repeats_is_logged_once_and_its_end_with_a_count() {
        let mut repeats = RepeatedError::default();
        assert_eq!(repeats.recovered(second(99)), None, "nothing was wrong");
        assert_eq!(repeats.failed("no answer", second(100)).as_deref(), Some("no answer"));
        for at in 101..160 {
            assert_eq!(repeats.failed("no answer", second(at)), None);
        }
        assert_eq!(repeats.failed_at(), Some(second(159)));
        assert_eq!(repeats.recovered(second(165)).as_deref(), Some("60 failures in 1m 5s"));
        assert_eq!(repeats.recovered(second(166)), None);
        // A new streak is logged from its start.
        assert!(repeats.failed("no answer", second(200)).is_some());
        assert_eq!(repeats.recovered(second(201)).as_deref(), Some("1 failure in 1s"));
    }

    #[test]
    fn another_error_is_logged_and_the_first_one_not_again() {
        let mut repeats = RepeatedError::default();
        assert!(repeats.failed("no answer", second(1)).is_some());
        assert_eq!(repeats.failed("refused", second(2)).as_deref(), Some("refused"));
        for at in 3..100 {
            assert_eq!(repeats.failed("no answer", second(at)), None);
            assert_eq!(repeats.failed("refused", second(at)), None);
        }
    }

    #[test]
    fn it_is_logged_again_after_a_while_with_its_count() {
        let mut repeats = RepeatedError::default();
        let logged: Vec<_> =
            (0..1500).filter_map(|at| repeats.failed("no answer", second(at))).collect();
        let expected =
            ["no answer", "no answer (601 failures in 10m)", "no answer (1201 failures in 20m)"];
        assert_eq!(logged, expected);
    }

    #[test]
    fn a_text_that_always_changes_does_not_get_around_the_count() {
        let mut repeats = RepeatedError::default();
        let logged = (0..500).filter_map(|at| repeats.failed(&format!("{at}"), second(at)));
        assert_eq!(logged.count(), TEXTS);
    }
}
