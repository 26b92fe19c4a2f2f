//! The time: the one place of this crate that reads clocks.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use upgrade_core::jiff::Timestamp;
use upgrade_engine::clock::SystemClock;
use upgrade_engine::io::Clock as _;

/// Now, for what is written into objects.
pub fn now() -> Timestamp {
    SystemClock::new().now()
}

/// Now, as RFC 3339 with whole seconds, as objects carry it.
pub fn stamp() -> String {
    rfc3339(now())
}

/// A moment as objects carry it.
pub fn rfc3339(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Time since the machine started, its sleep included: what leases are
/// measured with. A machine that slept through its lease must find it gone.
pub fn since_boot() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanos)
}
