//! A command that did not do what it was asked: why, and what to do next.

use std::error::Error;
use std::fmt::Write as _;

use upgrade_engine::journal::FileError;
use upgrade_engine::store::{NotBegun, Unfit};

use crate::Exit;
use crate::profile::{Problem, ProfileError};
use crate::usage::Usage;

/// Why a command ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandError {
    /// What to say: usually one thing, of a bad profile everything.
    pub remarks: Vec<Usage>,
    /// With which code.
    pub exit: Exit,
}

impl CommandError {
    /// Something was refused, or went wrong.
    pub fn refused(message: impl Into<String>, next: impl Into<String>) -> Self {
        Self { remarks: vec![Usage::new(message, next)], exit: Exit::Refused }
    }

    /// An error, with everything behind it.
    pub fn caused_by(error: &dyn Error, next: impl Into<String>) -> Self {
        Self::refused(chain(error), next)
    }
}

/// An error with everything behind it, said once.
pub fn chain(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(behind) = source {
        let behind_text = behind.to_string();
        // Some errors repeat in their own words what is behind them.
        if !message.ends_with(&behind_text) {
            let _ = write!(message, ": {behind_text}");
        }
        source = behind.source();
    }
    message
}

impl From<Usage> for CommandError {
    fn from(usage: Usage) -> Self {
        Self { remarks: vec![usage], exit: Exit::BadUsage }
    }
}

impl From<ProfileError> for CommandError {
    fn from(error: ProfileError) -> Self {
        let usage = |message: String, next: &str| Self::from(Usage::new(message, next));
        match error {
            ProfileError::Bad { path, problems } => {
                let remark = |Problem { line, what, next }: Problem| {
                    Usage::new(format!("{}:{line}: {what}", path.display()), next)
                };
                Self { remarks: problems.into_iter().map(remark).collect(), exit: Exit::BadUsage }
            }
            error @ ProfileError::Read { .. } => {
                usage(error.to_string(), "name a readable file with --profile")
            }
            error @ (ProfileError::Write { .. } | ProfileError::Changed { .. }) => {
                let next = "the run itself is done; write the versions into the profile by hand";
                Self::refused(error.to_string(), next)
            }
        }
    }
}

impl From<FileError> for CommandError {
    fn from(error: FileError) -> Self {
        let next = match &error {
            FileError::Held { .. } => "see how far it is with `talos-operator status`",
            FileError::Io { .. } => "check the folder, or name another one with --state",
            FileError::NotBegun(NotBegun::Unfinished { .. }) => {
                "go on with `talos-operator resume`, or start over with --new-plan"
            }
            FileError::NoRun(_) => "begin one with `talos-operator upgrade`",
            FileError::Broken { .. }
            | FileError::Unfit(_)
            | FileError::NotBegun(NotBegun::Unfit(_)) => KEEP,
        };
        Self::refused(error.to_string(), next)
    }
}

/// What to do about a journal that cannot be used.
const KEEP: &str = "keep the file for a report, move it away, and plan again";

impl From<Unfit> for CommandError {
    fn from(error: Unfit) -> Self {
        Self::refused(error.to_string(), KEEP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] std::io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("outer: {0}")]
    struct Repeats(#[source] std::io::Error);

    #[test]
    fn everything_behind_an_error_is_said_once() {
        let inner = || std::io::Error::other("inner");
        assert_eq!(chain(&Outer(inner())), "outer: inner");
        assert_eq!(chain(&Repeats(inner())), "outer: inner");
    }
}
