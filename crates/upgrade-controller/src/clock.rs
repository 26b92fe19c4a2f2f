//! The time: the one place of this crate that reads clocks.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_engine::clock::SystemClock;
use upgrade_engine::io::Clock as _;

/// Where the time comes from: the machine, or a runtime whose clock is paused.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock(Option<SystemClock>);

impl Clock {
    /// The machine's clocks.
    pub const SYSTEM: Self = Self(None);

    /// A clock that follows the runtime, for simulations: the machine started when it does.
    pub const fn of_runtime(clock: SystemClock) -> Self {
        Self(Some(clock))
    }

    /// Now, for what is written into objects.
    pub fn now(self) -> Timestamp {
        self.0.unwrap_or_default().now()
    }

    /// Now, as RFC 3339 with whole seconds, as objects carry it.
    pub fn stamp(self) -> String {
        rfc3339(self.now())
    }

    /// Time since the machine started, its sleep included: what leases are measured with. A
    /// machine that slept through its lease must find it gone.
    pub fn since_boot(self) -> Duration {
        match self.0 {
            None => since_boot(),
            Some(clock) => {
                let since = clock.now().duration_since(Timestamp::UNIX_EPOCH);
                Duration::try_from(since.max(SignedDuration::ZERO)).unwrap_or_default()
            }
        }
    }
}

/// A moment as objects carry it.
pub fn rfc3339(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn since_boot() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanos)
}
