//! What can go wrong.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use crate::Component;

/// Why there is no control plane, or no longer one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A program is neither named nor built.
    #[error("{name} is not there: run `cargo xtask tools`, or set {variable}")]
    ToolMissing {
        /// The program.
        name: String,
        /// The variable that would name it.
        variable: String,
    },

    /// A program cannot be run.
    #[error("cannot run {}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },

    /// kubectl could not apply what it was given.
    #[error("the manifests cannot be applied: {told}")]
    Manifests {
        /// What kubectl printed.
        told: String,
    },

    /// The folder holds something, and it is not ours.
    #[error(
        "{} is not empty and holds no control plane: name another folder, or empty this one",
        folder.display()
    )]
    ForeignFolder {
        /// The folder.
        folder: PathBuf,
    },

    /// A file or folder could not be read or written.
    #[error("{}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },

    /// The folder's control plane is in another process's hands.
    #[error("{} is in use by process {owner}", folder.display())]
    Busy {
        /// The folder.
        folder: PathBuf,
        /// The process, or a question mark if it has not said yet.
        owner: String,
    },

    /// The folder's control plane runs on its own.
    #[error("the control plane in {} runs already", folder.display())]
    AlreadyRunning {
        /// The folder.
        folder: PathBuf,
    },

    /// A port that was asked for, or any port, cannot be had.
    #[error("port {port} on 127.0.0.1 is not free")]
    Port {
        /// The port.
        port: u16,
        /// What the system said.
        #[source]
        source: io::Error,
    },

    /// The ports that were asked for would go beyond the last one.
    #[error("there are no four ports from {base} on")]
    PortBase {
        /// The first port.
        base: u16,
    },

    /// A component ended by itself.
    #[error("{component} ended with {status}; {}", last_lines(log, tail))]
    Died {
        /// The component.
        component: Component,
        /// How it ended.
        status: ExitStatus,
        /// Its log.
        log: PathBuf,
        /// The last lines of its log.
        tail: String,
    },

    /// A component did not get ready in time.
    #[error("{component} is not ready after {waited:.0?}: {reason}; {}", last_lines(log, tail))]
    NotReady {
        /// The component.
        component: Component,
        /// How long it had.
        waited: Duration,
        /// What was missing in the end.
        reason: String,
        /// Its log.
        log: PathBuf,
        /// The last lines of its log.
        tail: String,
    },

    /// A process does not end, not even by force.
    #[error("{component} (process {pid}) does not end")]
    Undying {
        /// The component.
        component: Component,
        /// Its process.
        pid: u32,
    },

    /// The caller's flag said to stop.
    #[error("interrupted")]
    Interrupted,
}

fn last_lines(log: &std::path::Path, tail: &str) -> String {
    let log = log.display();
    if tail.is_empty() {
        return format!("it wrote nothing to {log}");
    }
    let mut text = format!("the end of {log}:");
    for line in tail.lines() {
        write!(text, "\n    {line}").ok();
    }
    text
}

/// Names the file that an error of the system is about.
pub(crate) trait About<T> {
    fn about(self, path: impl Into<PathBuf>) -> Result<T, Error>;
}

impl<T> About<T> for io::Result<T> {
    fn about(self, path: impl Into<PathBuf>) -> Result<T, Error> {
        self.map_err(|source| Error::File { path: path.into(), source })
    }
}
