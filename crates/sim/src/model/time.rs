//! Virtual time. The model never reads a clock: whoever drives it says what
//! time it is, and time may run at any speed or jump.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An instant: nanoseconds since the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Time(u64);

impl Time {
    /// The instant so many nanoseconds after the Unix epoch.
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// The instant so many seconds after the Unix epoch.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds * 1_000_000_000)
    }

    /// Nanoseconds since the Unix epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole seconds since the Unix epoch.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// The instant that much later; the end of time if there is none.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanoseconds))
    }

    /// The instant that much earlier, not before the epoch.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(nanoseconds))
    }

    /// How long ago `earlier` was; zero if it is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// As protobuf writes it.
    pub fn to_proto(self) -> prost_types::Timestamp {
        prost_types::Timestamp {
            seconds: i64::try_from(self.as_secs()).unwrap_or(i64::MAX),
            nanos: i32::try_from(self.0 % 1_000_000_000).unwrap_or(0),
        }
    }

    /// As jiff has it.
    pub fn to_jiff(self) -> upgrade_core::jiff::Timestamp {
        let nanoseconds = i128::from(self.0);
        upgrade_core::jiff::Timestamp::from_nanosecond(nanoseconds).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_neither_overflows_nor_goes_below_its_start() {
        let time = Time::from_secs(10);
        assert_eq!(time.plus(Duration::MAX), Time::from_nanos(u64::MAX));
        assert_eq!(time.minus(Duration::from_secs(11)), Time::default());
        assert_eq!(time.since(Time::from_secs(12)), Duration::ZERO);
        assert_eq!(time.plus(Duration::from_millis(1500)).to_proto().nanos, 500_000_000);
    }
}
