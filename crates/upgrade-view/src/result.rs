//! How a run ended, or that it has not.

use std::fmt::{self, Display};

use serde::Serialize;
use upgrade_core::journal::{Record, State};
use upgrade_core::reason::HaltReason;

/// How a run ended, or that it has not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum RunResult {
    /// Everything planned is done.
    Completed,
    /// It stopped because of a failure, and needs a person.
    Halted {
        /// The failure.
        why: HaltReason,
    },
    /// A person paused it.
    Paused {
        /// Their name.
        by: String,
    },
    /// In progress, or interrupted: a journal does not show whether its process lives.
    #[default]
    Open,
}

impl RunResult {
    /// The result as the fold of the journal has it. A halt outweighs a pause, which does not
    /// resolve it.
    pub fn of(state: &State) -> Self {
        if state.completed() {
            return Self::Completed;
        }
        let halted = state.halted().map(|why| Self::Halted { why: why.clone() });
        let paused = state.paused().map(|by| Self::Paused { by: by.to_owned() });
        halted.or(paused).unwrap_or(Self::Open)
    }

    /// The result after one more journal record; agrees with [`RunResult::of`].
    pub(crate) fn update(&mut self, record: &Record) {
        match record {
            Record::Completed => *self = Self::Completed,
            Record::Halted { why } => *self = Self::Halted { why: why.clone() },
            Record::Paused { by } if matches!(self, Self::Open | Self::Paused { .. }) => {
                *self = Self::Paused { by: by.clone() };
            }
            Record::Resumed { .. } if *self != Self::Completed => *self = Self::Open,
            _ => {}
        }
    }
}

impl Display for RunResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed => f.write_str("done"),
            Self::Halted { why } => write!(f, "halted: {why}"),
            Self::Paused { by } => write!(f, "paused by {by}"),
            Self::Open => f.write_str("in progress or interrupted"),
        }
    }
}
