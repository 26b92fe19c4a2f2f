//! The clock. This crate measures deadlines only here.

use std::thread;
use std::time::{Duration, Instant};

/// The time, for deadlines and durations.
#[expect(clippy::disallowed_methods, reason = "the one place where this crate reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Polls until the condition holds or the time is up; returns whether it holds.
pub(crate) fn within(limit: Duration, pause: Duration, mut asked: impl FnMut() -> bool) -> bool {
    let began = now();
    loop {
        if asked() {
            return true;
        }
        if began.elapsed() >= limit {
            return false;
        }
        thread::sleep(pause);
    }
}
