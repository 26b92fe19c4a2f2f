//! What is wrong with a profile: where, what, and what to do.

use std::path::PathBuf;

use thiserror::Error;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub next: String,
}

impl Problem {
    pub(super) fn new(line: usize, what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { line, what: what.into(), next: next.into() }
    }
}

/// A profile that cannot be read or written.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// It cannot be read.
    #[error("cannot read the profile {}: {error}", path.display())]
    Read {
        /// Its path.
        path: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// It has invalid fields; all of them are here.
    #[error("the profile {} has {} problems", path.display(), problems.len())]
    Bad {
        /// Its path.
        path: PathBuf,
        /// In the order of the file.
        problems: Vec<Problem>,
    },
    /// It cannot be written back.
    #[error("cannot write the profile {}: {error}", path.display())]
    Write {
        /// Its path.
        path: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// It was changed in the meantime, and the versions cannot be updated.
    #[error("the profile {} was changed in the meantime: {what}", path.display())]
    Changed {
        /// Its path.
        path: PathBuf,
        /// What is in the way.
        what: String,
    },
}
