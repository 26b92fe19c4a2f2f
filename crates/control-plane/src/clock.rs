//! The clock. Deadlines are measured here and nowhere else.

use std::thread;
use std::time::{Duration, Instant};

/// The time, for deadlines and for telling how long something took.
#[expect(clippy::disallowed_methods, reason = "the one place where this crate reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Asks until the answer is yes or the time is up, and says which.
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
