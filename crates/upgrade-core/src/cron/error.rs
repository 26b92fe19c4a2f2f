//! Schedules that are not valid: what is wrong, where, and what is allowed.

use std::fmt::{self, Display};

use thiserror::Error;

use super::field::Field;

/// A text that is not a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseCronError {
    /// No text at all.
    #[error(
        "the schedule is empty: write five fields such as `0 3 * * *`, or a word such as @daily"
    )]
    Empty,
    /// Not five fields.
    #[error(
        "a schedule has 5 fields (minute, hour, day of month, month, day of week), but `{text}` \
         has {found}"
    )]
    FieldCount {
        /// What was given, without the time zone.
        text: String,
        /// Its number of fields.
        found: usize,
    },
    /// A field that is not valid.
    #[error("{field} `{text}`: {}", problem.text(*field))]
    Field {
        /// Which one.
        field: Field,
        /// The part of it that is wrong.
        text: String,
        /// What is wrong with it.
        problem: Problem,
    },
    /// A word with `@` that does not exist.
    #[error(
        "`{0}`: allowed are @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly and \
         `@every` with a duration, in lower case"
    )]
    Word(String),
    /// What follows `@every` is not a duration.
    #[error("@every `{text}`: {problem}")]
    Duration {
        /// What was given.
        text: String,
        /// What is wrong with it.
        problem: DurationProblem,
    },
    /// A time zone without anything after it.
    #[error(
        "`{0}`: after the time zone comes a space, then the schedule, as in \
         `TZ=Europe/Oslo 0 3 * * *`"
    )]
    ZoneAlone(String),
    /// No such time zone.
    #[error(
        "unknown time zone `{0}`: write an IANA name with its capital letters, like Europe/Oslo"
    )]
    TimeZone(String),
}

/// What is wrong with a part of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Neither a number in the field's range nor one of its names.
    Value,
    /// The range ends before it begins.
    Reversed,
    /// More than one hyphen.
    Hyphens,
    /// More than one slash.
    Slashes,
    /// The step is not a positive number.
    Step,
}

impl Problem {
    fn text(self, field: Field) -> String {
        match self {
            Self::Value => format!("allowed are {}", field.allowed()),
            Self::Reversed => {
                format!("the range ends before it begins; allowed are {}", field.allowed())
            }
            Self::Hyphens => "a range has one hyphen, as in 1-5".to_owned(),
            Self::Slashes => "a range has one step, as in 1-5/2".to_owned(),
            Self::Step => "a step is a whole number from 1 on, as in */2".to_owned(),
        }
    }
}

/// What is wrong with the duration of `@every`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurationProblem {
    /// It is not made of numbers with units.
    Form,
    /// A number has no unit.
    NoUnit,
    /// A number has a unit that does not exist.
    Unit,
    /// It is longer than 292 years.
    TooLong,
}

impl Display for DurationProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "write numbers with units and no spaces, as in 1h30m",
            Self::NoUnit => "a number has no unit; write it as in 90m",
            Self::Unit => "the units are h, m, s, ms, us and ns, without spaces; a day is 24h",
            Self::TooLong => "it is too long, the longest is 292 years",
        })
    }
}
