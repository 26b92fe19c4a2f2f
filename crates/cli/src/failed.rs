//! A command that failed or was refused: why, and what to do next.

use std::error::Error;

use upgrade_core::text::chain;
use upgrade_engine::journal::FileError;
use upgrade_engine::store::{NotBegun, Unfit};

use crate::Exit;
use crate::profile::{Problem, ProfileError};
use crate::usage::Usage;

/// Why a command ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// What to say: usually one thing, of a bad profile everything.
    pub remarks: Vec<Usage>,
    /// With which code.
    pub exit: Exit,
}

impl Failed {
    /// Something was refused, or went wrong.
    pub fn refused(message: impl Into<String>, next: impl Into<String>) -> Self {
        Self { remarks: vec![Usage::new(message, next)], exit: Exit::Refused }
    }

    /// An error, with everything behind it.
    pub fn of(error: &dyn Error, next: impl Into<String>) -> Self {
        Self::refused(chain(error), next)
    }
}

impl From<Usage> for Failed {
    fn from(usage: Usage) -> Self {
        Self { remarks: vec![usage], exit: Exit::BadUsage }
    }
}

impl From<ProfileError> for Failed {
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
                let next = "the run itself is done; write the versions into the profile by hand";
                Self::of(&error, next)
            }
        }
    }
}

impl From<FileError> for Failed {
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
        Self::of(&error, next)
    }
}

/// What to do about a journal that cannot be used.
const KEEP: &str = "keep the file for a report, move it away, and plan again";

impl From<Unfit> for Failed {
    fn from(error: Unfit) -> Self {
        Self::of(&error, KEEP)
    }
}
