//! The error of a command: the reason, and what to do next.

use std::error::Error;

use upgrade_core::text::chain;
use upgrade_engine::journal::FileError;
use upgrade_engine::store::{NotBegun, Unfit};

use crate::Exit;
use crate::profile::{Problem, ProfileError};
use crate::usage::Usage;

/// The error of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandError {
    /// The messages: usually one, for an invalid profile one per problem.
    pub remarks: Vec<Usage>,
    /// The exit code.
    pub exit: Exit,
}

impl CommandError {
    /// A refusal or a failure.
    pub fn refused(message: impl Into<String>, next: impl Into<String>) -> Self {
        Self { remarks: vec![Usage::new(message, next)], exit: Exit::Refused }
    }

    /// An error with its causes.
    pub fn caused_by(error: &dyn Error, next: impl Into<String>) -> Self {
        Self::refused(chain(error), next)
    }
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
                usage(chain(&error), "name a readable file with --profile")
            }
            error @ (ProfileError::Write { .. } | ProfileError::Changed { .. }) => {
                let next = "the run itself is done; update the versions in the profile by hand";
                Self::caused_by(&error, next)
            }
        }
    }
}

impl From<FileError> for CommandError {
    fn from(error: FileError) -> Self {
        let next = match &error {
            FileError::Held { .. } => "see its progress with `talos-operator status`",
            FileError::Io { .. } => "check the folder, or name another one with --state",
            FileError::NotBegun(NotBegun::Unfinished { .. }) => {
                "continue it with `talos-operator resume`, or replace it with --new-plan"
            }
            FileError::NoRun(_) => "start one with `talos-operator upgrade`",
            FileError::Broken { .. }
            | FileError::Unfit(_)
            | FileError::NotBegun(NotBegun::Unfit(_)) => KEEP,
        };
        Self::caused_by(&error, next)
    }
}

/// The advice for an unreadable journal.
const KEEP: &str = "move the file away and plan again; keep it for a bug report";

impl From<Unfit> for CommandError {
    fn from(error: Unfit) -> Self {
        Self::caused_by(&error, KEEP)
    }
}
