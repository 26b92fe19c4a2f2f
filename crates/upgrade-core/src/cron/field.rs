//! The five fields: which values each of them allows and matches.

use std::fmt::{self, Display};

use super::error::{ParseCronError, Problem};

/// A field of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// 0 to 59.
    Minute,
    /// 0 to 23.
    Hour,
    /// 1 to 31.
    DayOfMonth,
    /// 1 to 12, or a name.
    Month,
    /// 0 to 6 from Sunday on, or a name. Unlike many crons', 7 is not Sunday.
    DayOfWeek,
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Field {
    fn bounds(self) -> (u64, u64) {
        match self {
            Self::Minute => (0, 59),
            Self::Hour => (0, 23),
            Self::DayOfMonth => (1, 31),
            Self::Month => (1, 12),
            Self::DayOfWeek => (0, 6),
        }
    }

    /// The names of its values, from the lowest value on.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Minute | Self::Hour | Self::DayOfMonth => &[],
            Self::Month => &MONTHS,
            Self::DayOfWeek => &DAYS,
        }
    }

    pub(super) fn allowed(self) -> &'static str {
        match self {
            Self::Minute => "0 to 59",
            Self::Hour => "0 to 23",
            Self::DayOfMonth => "1 to 31",
            Self::Month => "1 to 12 or jan to dec",
            Self::DayOfWeek => "0 to 6 or sun to sat, where 0 is Sunday",
        }
    }
}

impl Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::DayOfMonth => "day of month",
            Self::Month => "month",
            Self::DayOfWeek => "day of week",
        })
    }
}

/// The values that a field matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Values {
    /// One bit for each value.
    bits: u64,
    /// Whether the field has a star: a `*` or `?` with no step, or with a step of 1.
    pub(super) star: bool,
}

impl Values {
    /// Reads a field: ranges with commas between them. Empty ranges count as none, so a
    /// field of commas alone is valid and matches nothing, as in a `CronJob`.
    pub(super) fn parse(field: Field, text: &str) -> Result<Self, ParseCronError> {
        let mut values = Self::default();
        for range in text.split(',').filter(|range| !range.is_empty()) {
            let Self { bits, star } = Self::range(field, range)?;
            values.bits |= bits;
            values.star |= star;
        }
        Ok(values)
    }

    /// Reads one range: `*`, `N`, `N-M`, each perhaps with a step.
    fn range(field: Field, text: &str) -> Result<Self, ParseCronError> {
        let fail = |text: &str, problem| {
            Err(ParseCronError::Field { field, text: text.to_owned(), problem })
        };
        let (span, step) = match text.split_once('/') {
            Some((_, step)) if step.contains('/') => return fail(text, Problem::Slashes),
            Some((span, step)) => (span, Some(step)),
            None => (text, None),
        };
        let (first, last) = match span.split_once('-') {
            Some((first, last)) => (first, Some(last)),
            None => (span, None),
        };
        let (lowest, highest) = field.bounds();
        let star = matches!(first, "*" | "?");
        let (low, high) = if star {
            // What follows a hyphen after a star is not looked at: `*-5` is `*`.
            (lowest, highest)
        } else {
            let low = value(field, first)?;
            let high = match last {
                Some(last) if last.contains('-') => return fail(text, Problem::Hyphens),
                Some(last) => value(field, last)?,
                // A single number with a step begins a range up to the highest value.
                None if step.is_some() => highest,
                None => low,
            };
            (low, high)
        };
        if low > high {
            return fail(text, Problem::Reversed);
        }
        let step = match step.map(str::parse::<i64>) {
            None => 1,
            Some(Ok(step)) if step > 0 => step.unsigned_abs(),
            Some(_) => return fail(text, Problem::Step),
        };
        let bits = (low..=high)
            .filter(|value| (value - low).is_multiple_of(step))
            .fold(0, |bits, value| bits | 1 << value);
        Ok(Self { bits, star: star && step == 1 })
    }

    /// Whether this value of a clock or a calendar matches.
    pub(super) fn has(self, value: i8) -> bool {
        self.bits & (1 << value) != 0
    }

    /// Whether no value matches.
    pub(super) fn is_empty(self) -> bool {
        self.bits == 0
    }
}

/// Reads a value of a field. Numbers may have a sign and leading zeros, as Go reads them.
fn value(field: Field, text: &str) -> Result<u64, ParseCronError> {
    let (lowest, highest) = field.bounds();
    let named = (lowest..).zip(field.names()).find(|(_, name)| name.eq_ignore_ascii_case(text));
    let value = named.map(|(value, _)| value).or_else(|| text.parse().ok());
    value.filter(|value| (lowest..=highest).contains(value)).ok_or_else(|| ParseCronError::Field {
        field,
        text: text.to_owned(),
        problem: Problem::Value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(field: Field, text: &str) -> Vec<i8> {
        let values = Values::parse(field, text).unwrap();
        (0..60).filter(|value| values.has(*value)).collect()
    }

    fn message(field: Field, text: &str) -> String {
        Values::parse(field, text).unwrap_err().to_string()
    }

    #[test]
    fn lists_ranges_steps_and_names() {
        assert_eq!(values(Field::Minute, "*/20,7"), [0, 7, 20, 40]);
        assert_eq!(values(Field::Minute, "50/4"), [50, 54, 58]);
        assert_eq!(values(Field::Hour, "8-18/5,23"), [8, 13, 18, 23]);
        assert_eq!(values(Field::Hour, "+5,007"), [5, 7]);
        assert_eq!(values(Field::Month, "?/4"), [1, 5, 9]);
        assert_eq!(values(Field::Month, "Oct-DEC,2"), [2, 10, 11, 12]);
        assert_eq!(values(Field::DayOfWeek, "SUN,wed-5"), [0, 3, 4, 5]);
        assert_eq!(values(Field::DayOfMonth, "30-31/9"), [30]);
    }

    /// None of these makes sense, all are accepted in a `CronJob`.
    #[test]
    fn oddities_that_are_valid() {
        assert_eq!(values(Field::Hour, ",,3,"), [3]);
        assert!(Values::parse(Field::Hour, ",").unwrap().is_empty());
        assert_eq!(values(Field::Hour, "*-2/9"), [0, 9, 18]);
        assert_eq!(values(Field::Hour, "4/9223372036854775807"), [4]);
    }

    #[test]
    fn a_star_with_a_step_above_1_is_none() {
        let star = |text| Values::parse(Field::DayOfMonth, text).unwrap().star;
        assert!(star("*") && star("?") && star("*/1") && star("5,*"));
        assert!(!star("*/2") && !star("?/3") && !star("1-31") && !star("5"));
    }

    #[test]
    fn errors_say_where_what_and_what_is_allowed() {
        for (field, text, expected) in [
            (
                Field::DayOfWeek,
                "1,7",
                "day of week `7`: allowed are 0 to 6 or sun to sat, where 0 is Sunday",
            ),
            (Field::Minute, "60", "minute `60`: allowed are 0 to 59"),
            (Field::Hour, "8-24", "hour `24`: allowed are 0 to 23"),
            (Field::Hour, "8-", "hour ``: allowed are 0 to 23"),
            (Field::DayOfMonth, "0", "day of month `0`: allowed are 1 to 31"),
            (Field::DayOfMonth, "mon", "day of month `mon`: allowed are 1 to 31"),
            (Field::Month, "sept", "month `sept`: allowed are 1 to 12 or jan to dec"),
            (Field::Hour, "*/2/3", "hour `*/2/3`: a range has one step, as in 1-5/2"),
            (Field::Hour, "1-2-3", "hour `1-2-3`: a range has one hyphen, as in 1-5"),
            (Field::Hour, "*/0", "hour `*/0`: a step is a whole number from 1 on, as in */2"),
            (Field::Hour, "*/", "hour `*/`: a step is a whole number from 1 on, as in */2"),
        ] {
            assert_eq!(message(field, text), expected);
        }
        let reversed = message(Field::DayOfWeek, "fri-mon");
        assert!(reversed.starts_with("day of week `fri-mon`: the range ends before it begins"));
    }
}
