//! Time as people say it. Estimates are rounded outwards, to whole minutes: a
//! span that looks exact would be believed.

use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_planner::estimate::Span;

/// `25-40 min`, `50 min to 1 h 20 min`, `up to 2 min`.
pub(crate) fn span(span: Span) -> String {
    let low = span.low.as_secs().max(0) / 60;
    let high = (span.high.as_secs().max(0) + 59) / 60;
    match (low, high) {
        (_, 0) => "no time".to_owned(),
        (0, _) => format!("up to {}", minutes(high)),
        (low, high) if low == high => minutes(high),
        (low, high) if high < 60 => format!("{low}-{high} min"),
        (low, high) => format!("{} to {}", minutes(low), minutes(high)),
    }
}

fn minutes(minutes: i64) -> String {
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes} min"),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

/// `30s`, `1m30s`: as flags take it.
pub(crate) fn exact(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, 0) => format!("{minutes}m"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, 0, 0) => format!("{hours}h"),
        (hours, minutes, 0) => format!("{hours}h{minutes}m"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// `about 12 min`, `about 40 s`: for what is still to come.
pub(crate) fn about(span: SignedDuration) -> String {
    match span.as_secs().max(0) {
        seconds @ 0..90 => format!("about {} s", (seconds + 9) / 10 * 10),
        seconds => format!("about {}", minutes((seconds + 30) / 60)),
    }
}

/// `4s`, `3m12s`, `1h05m`: for what has been.
pub(crate) fn took(span: SignedDuration) -> String {
    let seconds = span.as_secs().max(0);
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds:02}s"),
        (hours, minutes, _) => format!("{hours}h{minutes:02}m"),
    }
}

/// The time of day, in UTC.
pub(crate) fn of_day(at: Timestamp) -> String {
    at.strftime("%H:%M:%S").to_string()
}

/// Day and time, in UTC.
pub(crate) fn moment(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_rounded_outwards() {
        for (low, high, text) in [
            (1530, 2370, "25-40 min"),
            (20, 61, "up to 2 min"),
            (3000, 4800, "50 min to 1 h 20 min"),
            (7200, 10_800, "2 h to 3 h"),
            (120, 120, "2 min"),
            (0, 0, "no time"),
        ] {
            let low = SignedDuration::from_secs(low);
            let high = SignedDuration::from_secs(high);
            assert_eq!(span(Span { low, high }), text);
        }
    }

    #[test]
    fn exact_times_parse_as_flags() {
        for text in ["30s", "5m", "1m30s", "2h", "1h30m", "1h30m5s"] {
            assert_eq!(exact(text.parse().unwrap()), text);
        }
    }

    #[test]
    fn past_times_are_exact_and_future_ones_rounded() {
        let seconds = SignedDuration::from_secs;
        assert_eq!(about(seconds(41)), "about 50 s");
        assert_eq!(about(seconds(700)), "about 12 min");
        assert_eq!(about(seconds(4000)), "about 1 h 7 min");
        assert_eq!(took(seconds(4)), "4s");
        assert_eq!(took(seconds(192)), "3m12s");
        assert_eq!(took(seconds(3900)), "1h05m");
        let at: Timestamp = "2026-11-15T20:00:05Z".parse().unwrap();
        assert_eq!(of_day(at), "20:00:05");
        assert_eq!(moment(at), "2026-11-15 20:00:05 UTC");
    }
}
