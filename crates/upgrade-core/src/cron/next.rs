//! The next moment that matches five fields.
//!
//! The search steps through local time in the way robfig's does, unit by unit from the
//! month down, and the steps are part of the contract: around a change of the clock they
//! decide what runs. With rules instead of steps ("the first moment whose fields match")
//! some results would differ from those of a `CronJob`:
//!
//! - A time that the clock skips is skipped: no run at 2:30 on the day on which 2:00 is
//!   followed by 3:00. A time that the clock shows twice is run twice.
//! - Hours are steps of 60 minutes. Where the clock is changed by half an hour (Lord Howe
//!   Island), a step may end at half past. Then the search passes over the start of that
//!   hour and of the later ones: `0 3 * * *` does not run on that day.
//! - Days are steps of the calendar. Where a change makes a day begin at 1:00 (Cairo), a
//!   search that comes from the days before may pass over that day: `0 5 * * fri` does not
//!   run on the Friday of the change.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan as _};

use super::error::ParseCronError;
use super::field::{Field, Values};

/// How many years after the current one are searched, as in a `CronJob`. That is enough for
/// every February 29, except between 2096 and 2099: 2100 has none.
const YEARS: i16 = 5;

const MINUTE: SignedDuration = SignedDuration::from_mins(1);
const HOUR: SignedDuration = SignedDuration::from_hours(1);
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// What the five fields match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    minute: Values,
    hour: Values,
    day_of_month: Values,
    month: Values,
    day_of_week: Values,
}

impl Fields {
    pub(super) fn parse(text: &str) -> Result<Self, ParseCronError> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let &[minute, hour, day_of_month, month, day_of_week] = fields.as_slice() else {
            return Err(ParseCronError::FieldCount { text: text.to_owned(), found: fields.len() });
        };
        Ok(Self {
            minute: Values::parse(Field::Minute, minute)?,
            hour: Values::parse(Field::Hour, hour)?,
            day_of_month: Values::parse(Field::DayOfMonth, day_of_month)?,
            month: Values::parse(Field::Month, month)?,
            day_of_week: Values::parse(Field::DayOfWeek, day_of_week)?,
        })
    }

    /// The first match after this moment.
    pub(super) fn next_after(&self, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
        // Without a match the search would take millions of steps. (Without a matching day
        // it takes two thousand, like that for February 31.)
        if self.minute.is_empty() || self.hour.is_empty() || self.month.is_empty() {
            return None;
        }
        let at = floor(after, 1)?.checked_add(SignedDuration::from_secs(1)).ok()?;
        Search { fields: self, zone, at, moved: false }.run()
    }
}

/// Days of the month and of the week: both have to match if either field has a star,
/// else one is enough. This is how `0 3 1,15 * mon` means the 1st, the 15th and every
/// Monday, while `0 3 * * mon` means Mondays only.
fn day_matches(day_of_month: Values, day_of_week: Values, date: Date) -> bool {
    let month = day_of_month.has(date.day());
    let week = day_of_week.has(date.weekday().to_sunday_zero_offset());
    if day_of_month.star || day_of_week.star { month && week } else { month || week }
}

/// The beginning of the unit of so many seconds that contains this moment.
pub(super) fn floor(at: Timestamp, seconds: i64) -> Option<Timestamp> {
    // Before 1970 the nanoseconds are negative.
    let whole = at.as_second() - i64::from(at.subsec_nanosecond() < 0);
    Timestamp::from_second(whole.div_euclid(seconds) * seconds).ok()
}

/// The moment at which the clock shows this time. For times that the clock skips or
/// shows twice the answer is the one of Go's `time.Date`, which depends on the zone: the
/// offset that is valid at about this time decides.
fn moment(zone: &TimeZone, local: DateTime) -> Option<Timestamp> {
    let about = Offset::UTC.to_timestamp(local).ok()?;
    let about = zone.to_offset(about).to_timestamp(local).ok()?;
    zone.to_offset(about).to_timestamp(local).ok()
}

/// The same local time in the next month. A day that this month does not have runs over
/// into the month after it.
fn month_later(local: DateTime) -> Option<DateTime> {
    let first = local.first_of_month().checked_add(1.month()).ok()?;
    first.checked_add((local.day() - 1).days()).ok()
}

/// What a step of the search has found.
enum Found {
    /// This unit matches, the smaller ones are next.
    Match,
    /// A larger unit has changed: everything has to be looked at again.
    Carry,
}

/// A search on its way.
struct Search<'a> {
    fields: &'a Fields,
    zone: &'a TimeZone,
    at: Timestamp,
    /// Whether it has left its start. Until then, the first step goes to the beginning of
    /// the unit; after that it is at one already.
    moved: bool,
}

impl Search<'_> {
    /// Searches to the end; `None` also at the end of the calendar.
    fn run(mut self) -> Option<Timestamp> {
        let last = self.local().year() + YEARS;
        while self.local().year() <= last {
            if let Found::Match = self.pass()? {
                return Some(self.at);
            }
        }
        None
    }

    /// Goes through the units once.
    fn pass(&mut self) -> Option<Found> {
        for unit in [Self::month, Self::day, Self::hour, Self::minute, Self::second] {
            if let Found::Carry = unit(self)? {
                return Some(Found::Carry);
            }
        }
        Some(Found::Match)
    }

    fn local(&self) -> DateTime {
        self.zone.to_datetime(self.at)
    }

    fn advance(&mut self, by: SignedDuration) -> Option<()> {
        self.at = self.at.checked_add(by).ok()?;
        Some(())
    }

    /// Leaves the start for the beginning of its unit, the first time.
    fn align(&mut self, beginning: impl FnOnce(DateTime) -> DateTime) -> Option<()> {
        if !self.moved {
            self.moved = true;
            self.at = moment(self.zone, beginning(self.local()))?;
        }
        Some(())
    }

    fn month(&mut self) -> Option<Found> {
        while !self.fields.month.has(self.local().month()) {
            self.align(|local| local.date().first_of_month().to_datetime(Time::midnight()))?;
            self.at = moment(self.zone, month_later(self.local())?)?;
            if self.local().month() == 1 {
                return Some(Found::Carry);
            }
        }
        Some(Found::Match)
    }

    fn day(&mut self) -> Option<Found> {
        let Fields { day_of_month, day_of_week, .. } = *self.fields;
        while !day_matches(day_of_month, day_of_week, self.local().date()) {
            self.align(|local| local.date().to_datetime(Time::midnight()))?;
            let tomorrow = moment(self.zone, self.local().checked_add(1.day()).ok()?)?;
            if tomorrow > self.at {
                self.at = tomorrow;
            } else {
                // The zone left out a whole day (Samoa in 2011). Here robfig's search
                // never ends.
                self.advance(DAY)?;
            }
            // Back to midnight if a change of the clock has moved the search away from it.
            match self.local().hour() {
                0 => {}
                hour @ 1..=12 => self.advance(HOUR * -i32::from(hour))?,
                hour => self.advance(HOUR * (24 - i32::from(hour)))?,
            }
            if self.local().day() == 1 {
                return Some(Found::Carry);
            }
        }
        Some(Found::Match)
    }

    fn hour(&mut self) -> Option<Found> {
        while !self.fields.hour.has(self.local().hour()) {
            self.align(|local| local.date().at(local.hour(), 0, 0, 0))?;
            self.advance(HOUR)?;
            if self.local().hour() == 0 {
                return Some(Found::Carry);
            }
        }
        Some(Found::Match)
    }

    fn minute(&mut self) -> Option<Found> {
        while !self.fields.minute.has(self.local().minute()) {
            if !self.moved {
                // A minute of UTC. The zone's is the same one: since 1972 every offset is
                // whole minutes.
                self.moved = true;
                self.at = floor(self.at, 60)?;
            }
            self.advance(MINUTE)?;
            if self.local().minute() == 0 {
                return Some(Found::Carry);
            }
        }
        Some(Found::Match)
    }

    /// Goes on to a full minute, the only second that matches.
    fn second(&mut self) -> Option<Found> {
        match self.local().second() {
            0 => Some(Found::Match),
            second => {
                self.moved = true;
                self.advance(SignedDuration::from_secs(60 - i64::from(second)))?;
                Some(Found::Carry)
            }
        }
    }
}
