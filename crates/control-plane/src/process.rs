//! Starting and ending processes, ours and those of a run before.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{About as _, Error};
use crate::folder::Folder;
use crate::{Component, clock};

/// How long a component may take to end when asked. The slowest is the API
/// server, with about a second; ten times that is a component that hangs.
const END_LIMIT: Duration = Duration::from_secs(10);

/// How long the system may take to end one by force: it only has to free its
/// memory, but the machine may be busy.
const KILL_LIMIT: Duration = Duration::from_secs(10);

const PAUSE: Duration = Duration::from_millis(10);

/// The end of a log that an error shows: an error line of Kubernetes and what
/// led to it, without the start of the story.
const TAIL_LINES: usize = 12;

/// More than that many lines ever take.
const TAIL_BYTES: u64 = 32 * 1024;

/// A component that this process started.
#[derive(Debug)]
pub(crate) struct Process {
    component: Component,
    child: Child,
    log: PathBuf,
    /// Where in its log this run begins.
    log_begin: u64,
}

impl Process {
    pub(crate) fn spawn(
        component: Component,
        program: &Path,
        arguments: &[OsString],
        log: PathBuf,
    ) -> Result<Self, Error> {
        let file = OpenOptions::new().append(true).create(true).open(&log).about(&log)?;
        let log_begin = file.metadata().about(&log)?.len();
        let stderr = file.try_clone().about(&log)?;
        let child = Command::new(program)
            .args(arguments)
            // etcd takes flags from variables and refuses to start if one
            // contradicts its command line; nobody needs any.
            .env_clear()
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(stderr)
            // Ctrl-C is for the owner, who stops them in order.
            .process_group(0)
            .spawn()
            .map_err(|source| Error::Spawn { program: program.to_owned(), source })?;
        Ok(Self { component, child, log, log_begin })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Fails if it ended, with the end of its log.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        match self.ended() {
            None => Ok(()),
            Some(status) => Err(Error::Died {
                component: self.component,
                status,
                log: self.log.clone(),
                tail: self.tail(),
            }),
        }
    }

    /// The last lines that this run wrote.
    pub(crate) fn tail(&self) -> String {
        tail(&self.log, self.log_begin)
    }

    /// Ends it and returns when it is gone.
    pub(crate) fn end(&mut self, manner: Manner) -> Result<(), Error> {
        let (component, pid) = (self.component, self.pid());
        // Until it is waited for, the number cannot become another process's.
        end(component, pid, manner, || self.ended().is_some())
    }
}

/// How to end a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Ask, and use force if it does not listen.
    Ask,
    /// Use force at once.
    Force,
}

impl Manner {
    /// What to do with a component, given whether the database is there:
    /// without it the API server does not end, however long one waits.
    pub(crate) fn suits(component: Component, etcd_runs: bool) -> Self {
        if component == Component::ApiServer && !etcd_runs { Self::Force } else { Self::Ask }
    }
}

/// Ends a process of a run before, if it is still there and still the one.
pub(crate) fn end_leftover(
    folder: &Folder,
    component: Component,
    pid: u32,
    manner: Manner,
) -> Result<(), Error> {
    let gone = || !is_alive(folder, component, pid);
    if gone() { Ok(()) } else { end(component, pid, manner, gone) }
}

fn end(
    component: Component,
    pid: u32,
    manner: Manner,
    mut gone: impl FnMut() -> bool,
) -> Result<(), Error> {
    if gone() {
        return Ok(());
    }
    if manner == Manner::Ask {
        signal(pid, Signal::TERM);
        if clock::within(END_LIMIT, PAUSE, &mut gone) {
            return Ok(());
        }
    }
    signal(pid, Signal::KILL);
    if clock::within(KILL_LIMIT, PAUSE, &mut gone) {
        return Ok(());
    }
    Err(Error::Undying { component, pid })
}

/// Asks a process that watches a control plane to stop it.
pub(crate) fn ask_owner(pid: u32) {
    signal(pid, Signal::TERM);
}

/// A process that is gone needs no signal.
fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        kill_process(pid, signal).ok();
    }
}

/// Whether this number is still the process that we started: numbers are used
/// again, but nobody else is given a folder of ours to work in.
pub(crate) fn is_alive(folder: &Folder, component: Component, pid: u32) -> bool {
    command_line(pid).contains(&*component.place(folder).to_string_lossy())
}

/// Empty if there is no such process, or only its remains.
fn command_line(pid: u32) -> String {
    if cfg!(target_os = "linux") {
        let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        return String::from_utf8_lossy(&bytes).into_owned();
    }
    let output =
        Command::new("ps").args(["-ww", "-o", "command=", "-p", &pid.to_string()]).output();
    output.map(|it| String::from_utf8_lossy(&it.stdout).into_owned()).unwrap_or_default()
}

/// The last lines of a file after a place in it. For showing only: what cannot
/// be read is not shown.
fn tail(path: &Path, begin: u64) -> String {
    let read = || {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(begin.max(length.saturating_sub(TAIL_BYTES))))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        std::io::Result::Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_of_this_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        fs::write(&log, "old\nnew\nnewer").expect("a file");
        assert_eq!(tail(&log, 4), "new\nnewer");
        assert_eq!(tail(&log, 13), "");
        assert_eq!(tail(&folder.path().join("none"), 0), "");
        let lines: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        fs::write(&log, lines.join("\n")).expect("a file");
        assert_eq!(tail(&log, 0), lines[100 - TAIL_LINES..].join("\n"));
    }

    #[test]
    fn another_process_is_not_ours() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = Folder::claim(root.path()).expect("an empty folder");
        assert!(command_line(std::process::id()).contains("real_control_plane"));
        assert!(!is_alive(&folder, Component::Etcd, std::process::id()));
    }

    #[test]
    fn only_an_api_server_without_its_database_is_forced() {
        assert_eq!(Manner::suits(Component::ApiServer, true), Manner::Ask);
        assert_eq!(Manner::suits(Component::ApiServer, false), Manner::Force);
        assert_eq!(Manner::suits(Component::Scheduler, false), Manner::Ask);
    }
}
