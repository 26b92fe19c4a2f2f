//! Virtual time, for the API server and for the model of the nodes. No model reads a clock: the
//! caller passes the current time, which may run at any speed or jump.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An instant: nanoseconds since the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Time(u64);

impl Time {
    /// The instant this many nanoseconds after the Unix epoch.
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// The instant this many seconds after the Unix epoch.
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

    /// The instant that much later; the maximum on overflow.
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

    /// As a jiff timestamp.
    pub fn to_jiff(self) -> jiff::Timestamp {
        jiff::Timestamp::from_nanosecond(i128::from(self.0)).unwrap_or_default()
    }

    /// The format of object fields, in seconds: `2026-01-02T03:04:05Z`.
    pub fn to_text(self) -> String {
        let seconds = i64::try_from(self.as_secs()).unwrap_or(i64::MAX);
        jiff::Timestamp::from_second(seconds).unwrap_or_default().to_string()
    }

    /// The format of leases and events, in microseconds.
    pub fn to_micro_text(self) -> String {
        let microseconds = i64::try_from(self.0 / 1000).unwrap_or(i64::MAX);
        let timestamp = jiff::Timestamp::from_microsecond(microseconds).unwrap_or_default();
        format!("{timestamp:.6}")
    }

    /// Parses the time in an object's field.
    pub fn from_text(text: &str) -> Option<Self> {
        let timestamp: jiff::Timestamp = text.parse().ok()?;
        u64::try_from(timestamp.as_nanosecond()).ok().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let time = Time::from_secs(1_767_323_045);
        assert_eq!(time.to_text(), "2026-01-02T03:04:05Z");
        assert_eq!(Time::from_text(&time.to_text()), Some(time));
        let time = time.plus(Duration::from_nanos(123_456_789));
        assert_eq!(time.to_text(), "2026-01-02T03:04:05Z");
        assert_eq!(time.to_micro_text(), "2026-01-02T03:04:05.123456Z");
        assert_eq!(Time::from_text("yesterday"), None);
    }

    #[test]
    fn time_neither_overflows_nor_goes_below_its_start() {
        let time = Time::from_secs(10);
        assert_eq!(time.plus(Duration::MAX), Time::from_nanos(u64::MAX));
        assert_eq!(time.minus(Duration::from_secs(11)), Time::default());
        assert_eq!(time.since(Time::from_secs(12)), Duration::ZERO);
    }
}
