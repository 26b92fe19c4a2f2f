//! The real clock: the only place of the engine that reads it.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use upgrade_core::jiff;

use crate::io::Clock;

/// Wall-clock time, read once; from there it only moves forward, at the pace of the runtime.
/// Setting the clock of the machine back does not affect a run, and a paused runtime pauses this
/// clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: Timestamp,
    started: Instant,
}

impl SystemClock {
    /// Starts at the time of the machine.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    pub fn new() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let since = SignedDuration::try_from(since.unwrap_or_default()).unwrap_or_default();
        Self::starting_at(Timestamp::from_duration(since).unwrap_or(Timestamp::UNIX_EPOCH))
    }

    /// Starts at this time, for simulations.
    pub fn starting_at(origin: Timestamp) -> Self {
        Self { origin, started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.started.elapsed());
        let elapsed = elapsed.unwrap_or(SignedDuration::MAX);
        self.origin.saturating_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    async fn sleep(&self, span: SignedDuration) {
        if let Ok(span) = std::time::Duration::try_from(span)
            && !span.is_zero()
        {
            tokio::time::sleep(span).await;
        }
    }
}
