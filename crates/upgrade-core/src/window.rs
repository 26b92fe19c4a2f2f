//! When work may begin: recurring windows and dated freezes.
//!
//! Both are pure questions about a moment that the caller passes in. Time zones
//! come from the database compiled into the program, so the answer does not
//! depend on the machine.

use std::collections::BTreeSet;

use jiff::civil::{Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A day of the week, as users write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "weekdays")]
pub enum Day {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

impl From<Weekday> for Day {
    fn from(day: Weekday) -> Self {
        match day {
            Weekday::Monday => Self::Mon,
            Weekday::Tuesday => Self::Tue,
            Weekday::Wednesday => Self::Wed,
            Weekday::Thursday => Self::Thu,
            Weekday::Friday => Self::Fri,
            Weekday::Saturday => Self::Sat,
            Weekday::Sunday => Self::Sun,
        }
    }
}

/// A recurring span in which new work may begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// The days on which it opens; empty means every day.
    #[serde(default)]
    pub days: BTreeSet<Day>,
    /// The local time at which it opens.
    pub start: Time,
    /// How long it stays open; at most a week.
    pub duration: SignedDuration,
    /// An IANA time zone name such as `Europe/Oslo`.
    #[serde(default = "utc")]
    pub timezone: String,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// A dated span in which nothing new may begin, whatever the windows say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Freeze {
    /// Its beginning.
    pub from: Timestamp,
    /// Its end.
    pub until: Timestamp,
    /// Shown while it lasts.
    #[serde(default)]
    pub reason: String,
}

/// A window or freeze that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WindowError {
    /// No such time zone.
    #[error("unknown time zone `{0}`: write an IANA name like Europe/Oslo")]
    TimeZone(String),
    /// Not longer than nothing, or longer than a week.
    #[error("a window lasts more than 0 and at most 168 hours, not {0:#}")]
    Duration(SignedDuration),
    /// The end is not after the beginning.
    #[error("the freeze from {from} ends at {until}, which is not later")]
    Freeze {
        /// Its beginning.
        from: Timestamp,
        /// Its end.
        until: Timestamp,
    },
}

/// Whether new work may begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// It may.
    Open,
    /// It may not before this moment.
    Closed {
        /// When it may again.
        until: Timestamp,
        /// Why not now.
        why: String,
    },
}

const WEEK: SignedDuration = SignedDuration::from_hours(7 * 24);

impl Window {
    /// Refuses a window that could never open, or never close.
    pub fn validate(&self) -> Result<(), WindowError> {
        if self.duration <= SignedDuration::ZERO || self.duration > WEEK {
            return Err(WindowError::Duration(self.duration));
        }
        self.zone().map(|_| ())
    }

    fn zone(&self) -> Result<TimeZone, WindowError> {
        TimeZone::get(&self.timezone).map_err(|_| WindowError::TimeZone(self.timezone.clone()))
    }

    /// The opening in effect at `now`, or the next one: when it opens and closes.
    fn span(&self, now: Timestamp) -> Result<(Timestamp, Timestamp), WindowError> {
        let zone = self.zone()?;
        let today = now.to_zoned(zone.clone()).date();
        // A window of a week may have opened seven days ago; the next opening is
        // at most seven days ahead. A day that does not exist (the calendar's
        // ends) is passed over.
        for offset in -7_i64..=7 {
            let Ok(date) = today.checked_add(offset.days()) else {
                continue;
            };
            if !self.days.is_empty() && !self.days.contains(&Day::from(date.weekday())) {
                continue;
            }
            let Ok(opens) = date.to_datetime(self.start).to_zoned(zone.clone()) else {
                continue;
            };
            let opens = opens.timestamp();
            let Ok(closes) = opens.checked_add(self.duration) else {
                continue;
            };
            if closes > now {
                return Ok((opens, closes));
            }
        }
        Err(WindowError::Duration(self.duration))
    }
}

impl Freeze {
    /// Refuses a freeze that ends before it begins.
    pub fn validate(&self) -> Result<(), WindowError> {
        if self.until > self.from {
            return Ok(());
        }
        Err(WindowError::Freeze { from: self.from, until: self.until })
    }
}

/// Whether new work may begin at `now`. No windows at all means always, but for
/// freezes. An unreadable window counts as closed (rule 10).
pub fn gate(windows: &[Window], freezes: &[Freeze], now: Timestamp) -> Gate {
    if let Some(freeze) = freezes.iter().find(|freeze| freeze.from <= now && now < freeze.until) {
        let why = match freeze.reason.as_str() {
            "" => "a freeze is in force".to_owned(),
            reason => format!("a freeze is in force ({reason})"),
        };
        return Gate::Closed { until: freeze.until, why };
    }
    if windows.is_empty() {
        return Gate::Open;
    }
    let mut next: Option<Timestamp> = None;
    for window in windows {
        match window.span(now) {
            Ok((opens, _)) if opens <= now => return Gate::Open,
            Ok((opens, _)) => next = Some(next.map_or(opens, |next| next.min(opens))),
            Err(_) => {}
        }
    }
    Gate::Closed {
        until: next.unwrap_or_else(|| now.saturating_add(WEEK).unwrap_or(Timestamp::MAX)),
        why: "outside the maintenance windows".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn window(json: &str) -> Window {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_nightly_window_reaches_over_midnight() {
        let windows = [window(r#"{"start": "22:00", "duration": "4h"}"#)];
        assert_eq!(gate(&windows, &[], at("2026-11-15T23:00:00Z")), Gate::Open);
        assert_eq!(gate(&windows, &[], at("2026-11-16T01:59:00Z")), Gate::Open);
        assert!(matches!(
            gate(&windows, &[], at("2026-11-16T02:00:00Z")),
            Gate::Closed { until, .. } if until == at("2026-11-16T22:00:00Z")
        ));
    }

    #[test]
    fn days_and_time_zones_count() {
        // Saturday 00:30 in Oslo is Friday 23:30 in UTC (winter).
        let windows = [window(
            r#"{"days": ["sat"], "start": "00:00", "duration": "2h", "timezone": "Europe/Oslo"}"#,
        )];
        assert_eq!(gate(&windows, &[], at("2026-11-13T23:30:00Z")), Gate::Open);
        assert!(matches!(
            gate(&windows, &[], at("2026-11-14T23:30:00Z")),
            Gate::Closed { until, .. } if until == at("2026-11-20T23:00:00Z")
        ));
    }

    #[test]
    fn a_freeze_beats_every_window() {
        let freezes: Vec<Freeze> = serde_json::from_str(
            r#"[{"from": "2026-12-20T00:00:00Z", "until": "2027-01-04T00:00:00Z", "reason": "holidays"}]"#,
        )
        .unwrap();
        let Gate::Closed { until, why } = gate(&[], &freezes, at("2026-12-24T12:00:00Z")) else {
            panic!("must be closed");
        };
        assert_eq!(until, at("2027-01-04T00:00:00Z"));
        assert!(why.contains("holidays"));
        assert_eq!(gate(&[], &freezes, at("2027-01-04T00:00:00Z")), Gate::Open);
    }

    #[test]
    fn nonsense_is_refused() {
        let zone = window(r#"{"start": "22:00", "duration": "4h", "timezone": "Mars/Base"}"#);
        assert!(zone.validate().unwrap_err().to_string().contains("Mars/Base"));
        let long = window(r#"{"start": "22:00", "duration": "200h"}"#);
        assert!(long.validate().is_err());
        assert!(matches!(gate(&[zone], &[], at("2026-11-15T23:00:00Z")), Gate::Closed { .. }));
    }
}
