//! Starts and ends processes, ours and those of an earlier run.

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

/// The time limit for a component to terminate. The slowest, the API server, takes about a second;
/// after ten times that it hangs.
const END_LIMIT: Duration = Duration::from_secs(10);

/// The time limit for the system to kill a process: it only has to free the memory, but the machine
/// may be busy.
const KILL_LIMIT: Duration = Duration::from_secs(10);

const PAUSE: Duration = Duration::from_millis(10);

/// The lines of a log that an error shows: an error of Kubernetes and what led to it, without the
/// startup messages.
const TAIL_LINES: usize = 12;

/// More bytes than that many lines ever have.
const TAIL_BYTES: u64 = 32 * 1024;

/// A component started by this process.
#[derive(Debug)]
pub(crate) struct Process {
    component: Component,
    child: Child,
    log: PathBuf,
    /// The offset in its log at which this run starts.
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
            // etcd reads flags from variables and refuses to start if one contradicts its command
            // line; no component needs any.
            .env_clear()
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(stderr)
            // Ctrl-C is for the owner, which stops the components in order.
            .process_group(0)
            .spawn()
            .map_err(|source| Error::Spawn { program: program.to_owned(), source })?;
        Ok(Self { component, child, log, log_begin })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its exit status, if it has ended.
    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Fails with the end of its log if it has ended.
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

    /// The last lines of this run's log.
    pub(crate) fn tail(&self) -> String {
        tail(&self.log, self.log_begin)
    }

    /// Ends it, and returns when it is gone.
    pub(crate) fn end(&mut self, manner: Manner) -> Result<(), Error> {
        let (component, pid) = (self.component, self.pid());
        // The process ID cannot be reused until this process waits for it.
        end(component, pid, manner, || self.ended().is_some())
    }
}

/// How to end a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Terminate, then kill if it does not end.
    Ask,
    /// Kill immediately.
    Force,
}

impl Manner {
    /// How to end a component, depending on whether the database runs: without it the API server
    /// never terminates.
    pub(crate) fn suits(component: Component, etcd_runs: bool) -> Self {
        if component == Component::ApiServer && !etcd_runs { Self::Force } else { Self::Ask }
    }
}

/// Ends a process of an earlier run, if it is still the same process.
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

/// Asks the owner of a control plane to stop it.
pub(crate) fn ask_owner(pid: u32) {
    signal(pid, Signal::TERM);
}

/// Signals a process; one that is gone needs no signal.
fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        kill_process(pid, signal).ok();
    }
}

/// Whether this ID still belongs to the process that we started: IDs are reused, but only our
/// processes have this folder on their command line.
pub(crate) fn is_alive(folder: &Folder, component: Component, pid: u32) -> bool {
    command_line(pid).contains(&*component.place(folder).to_string_lossy())
}

/// Empty if the process does not exist or is a zombie.
fn command_line(pid: u32) -> String {
    if cfg!(target_os = "linux") {
        let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        return String::from_utf8_lossy(&bytes).into_owned();
    }
    let output =
        Command::new("ps").args(["-ww", "-o", "command=", "-p", &pid.to_string()]).output();
    output.map(|it| String::from_utf8_lossy(&it.stdout).into_owned()).unwrap_or_default()
}

/// The last lines of a file after an offset. Only for display: unreadable content is left out.
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
        assert!(command_line(std::process::id()).contains("envtest"));
        assert!(!is_alive(&folder, Component::Etcd, std::process::id()));
    }

    #[test]
    fn only_an_api_server_without_its_database_is_killed() {
        assert_eq!(Manner::suits(Component::ApiServer, true), Manner::Ask);
        assert_eq!(Manner::suits(Component::ApiServer, false), Manner::Force);
        assert_eq!(Manner::suits(Component::Scheduler, false), Manner::Ask);
    }
}
