//! Schedules in the grammar of Kubernetes' `CronJob`s: when something recurs.
//!
//! A `CronJob` uses `ParseStandard` of github.com/robfig/cron v3. This module accepts the same
//! texts and finds the same times, so that an expression from a `CronJob` can be copied. The
//! test in `tests/cron` compares the two. In short:
//!
//! - Five fields: minute, hour, day of month, month, day of week ([`Field`]).
//! - Or a word: `@yearly`, `@annually`, `@monthly`, `@weekly`, `@daily`, `@midnight`,
//!   `@hourly`, or `@every` with a duration such as `1h30m`.
//! - In front of either, perhaps a time zone: `TZ=Europe/Oslo` or `CRON_TZ=Europe/Oslo`.
//!
//! The parser is our own because no crate has this grammar:
//!
//! - `cron` 0.17 wants a field for seconds first and depends on chrono, which has a clock.
//! - `croner` 4.0 works with jiff, but takes 7 for Sunday, `L`, `W` and `#`, which a `CronJob`
//!   refuses; lacks `@every`, `@midnight` and time zones; takes only a bare `*` for a star;
//!   and runs late what a change of the clock skips.

mod error;
mod every;
mod field;
mod next;

use std::fmt::{self, Display};
use std::str::FromStr;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::text::serde_as_text;

pub use error::{DurationProblem, ParseCronError, Problem};
pub use field::Field;
use next::Fields;

/// When something recurs.
///
/// Its text form is the text that it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronSchedule {
    text: String,
    /// The zone in the text.
    own_zone: Option<TimeZone>,
    /// The zone of a text without one.
    zone: TimeZone,
    times: Times,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Times {
    /// At the local times that match.
    Fields(Fields),
    /// So long after the time before; whole seconds.
    Every(SignedDuration),
}

/// The times at which something should have run and did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// The last of them.
    pub last: Timestamp,
    /// How many there are, counted up to the limit: if it is the limit, there may be more.
    pub count: usize,
}

impl CronSchedule {
    /// The same schedule with another time zone for a text that names none; without this
    /// it is UTC. A zone in the text wins.
    #[must_use]
    pub fn in_zone(self, zone: TimeZone) -> Self {
        Self { zone, ..self }
    }

    /// The first time that is later than `after`. None if neither its year nor the five
    /// years after that have one, as with February 31.
    ///
    /// `@every 1h` is due an hour after `after`, not at full hours: pass the time at which
    /// it last ran or was created.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.times {
            Times::Fields(fields) => fields.next_after(self.effective_zone(), after),
            Times::Every(pause) => next::floor(after, 1)?.checked_add(*pause).ok(),
        }
    }

    /// What was due after `since` and no later than `until`, so that one run can make up for
    /// all of it. At most `limit` times are counted. Of the others only the last is searched
    /// for, so that a schedule of every minute costs little even after a year.
    pub fn last_missed(&self, since: Timestamp, until: Timestamp, limit: usize) -> Option<Missed> {
        let due = |after| self.next_after(after).filter(|next| *next <= until);
        let mut missed = Missed { last: due(since)?, count: 1 };
        while let Some(next) = due(missed.last) {
            if missed.count >= limit {
                missed.last = self.latest(next, until);
                break;
            }
            missed = Missed { last: next, count: missed.count + 1 };
        }
        Some(missed)
    }

    /// The last time up to `until`, given one of them.
    fn latest(&self, mut due: Timestamp, until: Timestamp) -> Timestamp {
        if let Times::Every(pause) = self.times {
            let pauses = (until.as_second() - due.as_second()) / pause.as_secs();
            let passed = pause.as_secs().saturating_mul(pauses);
            return due.checked_add(SignedDuration::from_secs(passed)).unwrap_or(due);
        }
        // Bisection: after `due` there may be another time up to `until`, after the second
        // `none` there is none. A year takes 25 steps.
        let mut none = until.as_second();
        while due.as_second() < none {
            let middle = due.as_second().midpoint(none);
            let next = Timestamp::from_second(middle).ok().and_then(|it| self.next_after(it));
            match next.filter(|next| *next <= until) {
                Some(next) => due = next,
                None => none = middle,
            }
        }
        due
    }

    fn effective_zone(&self) -> &TimeZone {
        self.own_zone.as_ref().unwrap_or(&self.zone)
    }
}

impl Display for CronSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl FromStr for CronSchedule {
    type Err = ParseCronError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(ParseCronError::Empty);
        }
        let (own_zone, rest) = split_zone(text)?;
        let times = if rest.starts_with('@') {
            word(rest)?
        } else {
            Fields::parse(rest).map(Times::Fields)?
        };
        Ok(Self { text: text.to_owned(), own_zone, zone: TimeZone::UTC, times })
    }
}

serde_as_text!(CronSchedule);

/// Reads the time zone in front of a schedule, and returns it with the rest.
fn split_zone(text: &str) -> Result<(Option<TimeZone>, &str), ParseCronError> {
    let Some(named) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) else {
        return Ok((None, text));
    };
    let (name, rest) =
        named.split_once(' ').ok_or_else(|| ParseCronError::ZoneAlone(text.to_owned()))?;
    let zone = match name {
        "" => Some(TimeZone::UTC),
        // The process's zone in Go; the caller's here.
        "Local" => None,
        name => Some(zone(name)?),
    };
    Ok((zone, rest.trim()))
}

fn zone(name: &str) -> Result<TimeZone, ParseCronError> {
    // jiff ignores case; the files that Go reads have one spelling.
    let zone = TimeZone::get(name).ok().filter(|zone| zone.iana_name() == Some(name));
    zone.filter(|zone| !zone.is_unknown()).ok_or_else(|| ParseCronError::TimeZone(name.to_owned()))
}

/// Reads a schedule that is a word. Words are in lower case, with nothing around them.
fn word(text: &str) -> Result<Times, ParseCronError> {
    let fields = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => {
            let duration = text
                .strip_prefix("@every ")
                .ok_or_else(|| ParseCronError::Word(text.to_owned()))?;
            return every::parse(duration).map(Times::Every).map_err(|problem| {
                ParseCronError::Duration { text: duration.to_owned(), problem }
            });
        }
    };
    Fields::parse(fields).map(Times::Fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cron(text: &str) -> CronSchedule {
        text.parse().unwrap()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn message(text: &str) -> String {
        text.parse::<CronSchedule>().unwrap_err().to_string()
    }

    #[test]
    fn the_zone_in_the_text_wins() {
        let oslo = || TimeZone::get("Europe/Oslo").unwrap();
        let start = at("2026-07-01T12:00:00Z");
        for (schedule, expected) in [
            (cron("0 3 * * *"), "2026-07-02T03:00:00Z"),
            (cron("0 3 * * *").in_zone(oslo()), "2026-07-02T01:00:00Z"),
            (cron("TZ=Asia/Tokyo 0 3 * * *").in_zone(oslo()), "2026-07-01T18:00:00Z"),
            (cron("CRON_TZ=US/Eastern @daily").in_zone(oslo()), "2026-07-02T04:00:00Z"),
        ] {
            assert_eq!(schedule.next_after(start), Some(at(expected)), "{schedule}");
        }
    }

    #[test]
    fn a_skipped_time_is_skipped_and_a_repeated_one_is_repeated() {
        let schedule = cron("TZ=Europe/Berlin 30 2 * * *");
        let next = |start| schedule.next_after(at(start)).unwrap();
        assert_eq!(next("2026-03-28T12:00:00Z"), at("2026-03-30T00:30:00Z"));
        assert_eq!(next("2026-10-24T12:00:00Z"), at("2026-10-25T00:30:00Z"));
        assert_eq!(next("2026-10-25T00:30:00Z"), at("2026-10-25T01:30:00Z"));
    }

    #[test]
    fn what_never_comes_is_none() {
        for text in ["0 0 31 2 *", ", * * * *", "* * , * ,"] {
            assert_eq!(cron(text).next_after(at("2026-01-01T00:00:00Z")), None, "{text}");
        }
        // The calendar ends.
        for text in ["* * * * *", "0 0 31 2 *", "0 0 1 1 *", "@every 1s"] {
            assert_eq!(cron(text).next_after(Timestamp::MAX), None, "{text}");
        }
    }

    /// The zone of Samoa had no December 30 in 2011; there robfig's search never ends.
    #[test]
    fn a_day_that_the_zone_leaves_out_ends_no_search() {
        let schedule = cron("TZ=Pacific/Apia 0 5 31 * *");
        let next = schedule.next_after(at("2011-12-15T00:00:00Z"));
        assert_eq!(next, Some(at("2011-12-30T15:00:00Z")));
    }

    #[test]
    fn before_1970_seconds_are_full_ones_too() {
        let start = at("1969-12-31T23:59:58.5Z");
        assert_eq!(cron("@every 1s").next_after(start), Some(at("1969-12-31T23:59:59Z")));
        assert_eq!(cron("* * * * *").next_after(start), Some(at("1970-01-01T00:00:00Z")));
    }

    #[test]
    fn one_run_makes_up_for_all_that_were_missed() {
        let (since, until) = (at("2026-01-01T00:00:00Z"), at("2026-01-08T12:00:30Z"));
        let missed = |text| cron(text).last_missed(since, until, 100);
        assert_eq!(missed("0 0 1 2 *"), None);
        let last = at("2026-01-08T00:00:00Z");
        assert_eq!(missed("@daily"), Some(Missed { last, count: 7 }));
        let last = at("2026-01-08T12:00:00Z");
        assert_eq!(missed("* * * * *"), Some(Missed { last, count: 100 }));
        // Counted from `since`: 10 623 times 61 seconds.
        let last = at("2026-01-08T12:00:03Z");
        assert_eq!(missed("@every 61s").map(|it| it.last).unwrap_or_default(), last);
        // What is due at `since` has run, what is due at `until` is missed.
        let (day, next) = (at("2026-01-01T00:00:00Z"), at("2026-01-02T00:00:00Z"));
        let missed = cron("@daily").last_missed(day, next, 1);
        assert_eq!(missed, Some(Missed { last: next, count: 1 }));
        assert_eq!(cron("@daily").last_missed(next, day, 1), None);
    }

    #[test]
    fn the_text_stays_as_it_was_written() {
        let text = "TZ=Europe/Oslo  0  3 * * MON";
        let schedule: CronSchedule = serde_json::from_str(&format!("\"{text}\"")).unwrap();
        assert_eq!(schedule.to_string(), text);
        assert_eq!(serde_json::to_string(&schedule).unwrap(), format!("\"{text}\""));
        let error = serde_json::from_str::<CronSchedule>("\"0 3 * * 7\"").unwrap_err();
        assert!(error.to_string().contains("day of week `7`"));
    }

    #[test]
    fn errors_say_what_to_write() {
        for (text, expected) in [
            ("", "write five fields"),
            (
                "0 3 * *",
                "5 fields (minute, hour, day of month, month, day of week), but `0 3 * *` has 4",
            ),
            ("0 0 3 * * *", "has 6"),
            ("0 3 * * 7", "allowed are 0 to 6 or sun to sat, where 0 is Sunday"),
            ("@Daily", "in lower case"),
            ("@every", "`@every` with a duration"),
            ("@every 1d", "@every `1d`: the units are h, m, s"),
            ("TZ=Europe/Oslo", "after the time zone comes a space"),
            ("TZ=Mars/Base 0 3 * * *", "unknown time zone `Mars/Base`"),
            ("TZ=europe/oslo 0 3 * * *", "with its capital letters"),
        ] {
            assert!(message(text).contains(expected), "{text}: {}", message(text));
        }
    }
}
