//! Errors of this crate.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use crate::Component;

/// Why a control plane failed to start or to keep running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A program is neither configured nor built.
    #[error("{name} is not installed: run `cargo xtask tools`, or set {variable}")]
    ToolMissing {
        /// The program.
        name: String,
        /// The variable that can name it.
        variable: String,
    },

    /// A program cannot be started.
    #[error("cannot run {}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },

    /// kubectl could not apply the manifests.
    #[error("cannot apply the manifests: {output}")]
    Manifests {
        /// The output of kubectl.
        output: String,
    },

    /// The folder contains other files.
    #[error(
        "{} is not empty and does not contain a control plane: choose another folder, or empty it",
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
        /// The system's error.
        #[source]
        source: io::Error,
    },

    /// Another process owns the folder's control plane.
    #[error("{} is in use by process {owner}", folder.display())]
    Busy {
        /// The folder.
        folder: PathBuf,
        /// The process, or a question mark if it has not written its ID yet.
        owner: String,
    },

    /// The folder's control plane runs without an owner.
    #[error("the control plane in {} is already running", folder.display())]
    AlreadyRunning {
        /// The folder.
        folder: PathBuf,
    },

    /// A requested port, or any port, is not available.
    #[error("port {port} on 127.0.0.1 is not free")]
    Port {
        /// The port.
        port: u16,
        /// The system's error.
        #[source]
        source: io::Error,
    },

    /// The requested ports exceed the last port.
    #[error("there are no four consecutive ports from {base}; choose a lower first port")]
    PortBase {
        /// The first port.
        base: u16,
    },

    /// A component ended unexpectedly.
    #[error("{component} ended with {status}; {}", last_lines(log, tail))]
    Died {
        /// The component.
        component: Component,
        /// Its exit status.
        status: ExitStatus,
        /// Its log.
        log: PathBuf,
        /// The last lines of its log.
        tail: String,
    },

    /// A component was not ready in time.
    #[error("{component} is not ready after {waited:.0?}: {reason}; {}", last_lines(log, tail))]
    NotReady {
        /// The component.
        component: Component,
        /// The time limit.
        waited: Duration,
        /// What was missing at the end.
        reason: String,
        /// Its log.
        log: PathBuf,
        /// The last lines of its log.
        tail: String,
    },

    /// A process does not end, even when killed.
    #[error("{component} (process {pid}) does not exit")]
    Undying {
        /// The component.
        component: Component,
        /// Its process.
        pid: u32,
    },

    /// The caller's interrupt flag was set.
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

/// Adds the path of a file to an I/O error.
pub(crate) trait About<T> {
    fn about(self, path: impl Into<PathBuf>) -> Result<T, Error>;
}

impl<T> About<T> for io::Result<T> {
    fn about(self, path: impl Into<PathBuf>) -> Result<T, Error> {
        self.map_err(|source| Error::File { path: path.into(), source })
    }
}
