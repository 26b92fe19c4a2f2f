//! The keeper: it ends the nodes, however the command ends.
//!
//! The command starts a keeper, and the keeper starts the hub, the first process of a process
//! namespace. When the hub ends, the kernel ends everything inside, and with that all mounts and
//! networks. The hub dies with the keeper (the kernel's death signal). The keeper holds a pipe from
//! the command. When the pipe closes without a message, the keeper ends the hub, removes the
//! control groups and restores the machine's settings. If both are killed at once, their notes in
//! the folder stay, and the next `up` or `down` cleans up.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufRead as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::host;
use crate::tools::host::note;

const POLL: Duration = Duration::from_millis(100);

/// The deadline for cleaning up: control groups are gone within a second or two of their processes.
const CLEANING: Duration = Duration::from_mins(1);

/// How long the hub may take to set up its networks.
const HUB_START: Duration = Duration::from_secs(30);

/// The command's message that it exits and the nodes stay.
const DETACH: &str = "detach";

/// The state before the first change.
#[derive(Serialize, Deserialize)]
struct Noted {
    cgroup: String,
    settings: BTreeMap<String, String>,
}

/// The files in a cluster's folder that keeper and command share.
pub(super) struct Place {
    folder: PathBuf,
}

impl Place {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(super) fn spec(&self) -> PathBuf {
        self.file("spec.json")
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.file("control.sock")
    }

    /// The hub's process ID on the host, for entering its network.
    pub(super) fn hub(&self) -> Result<u32> {
        let text = fs::read_to_string(self.file("hub.pid"))
            .context("no cluster is running here: start one with `cargo xtask real-talos up`")?;
        text.trim().parse().context("hub.pid does not hold a number")
    }

    fn lock(&self) -> Result<Option<File>> {
        let file = File::create(self.file("lock")).context("creating the lock")?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error).context("locking"),
        }
    }

    /// Whether a keeper is running.
    pub(super) fn is_kept(&self) -> Result<bool> {
        Ok(self.folder.is_dir() && self.lock()?.is_none())
    }

    /// Restores what a killed keeper could not. Only for the holder of the lock, or when no other
    /// process can hold it.
    fn clean(&self) -> Result<bool> {
        let path = self.file("noted.json");
        if !path.exists() {
            return Ok(false);
        }
        let noted: Noted = serde_json::from_slice(&fs::read(&path)?)
            .with_context(|| format!("{} is not ours", path.display()))?;
        self.wait_for_hub()?;
        host::remove_control_groups(&noted.cgroup, CLEANING)?;
        host::restore_settings(&noted.settings)?;
        for name in ["hub.pid", "keeper.pid", "control.sock", "noted.json"] {
            fs::remove_file(self.file(name)).ok();
        }
        Ok(true)
    }

    /// Waits for the last process of the namespaces, which ends after all others.
    fn wait_for_hub(&self) -> Result<()> {
        let Ok(hub) = self.hub() else { return Ok(()) };
        let mut waited = Duration::ZERO;
        // Another program may have its process ID by now.
        while fs::read_to_string(format!("/proc/{hub}/comm")).is_ok_and(|name| name == "kit\n") {
            if waited > CLEANING {
                bail!("the hub (process {hub}) has not ended within {CLEANING:?}");
            }
            thread::sleep(POLL);
            waited += POLL;
        }
        Ok(())
    }

    /// Ends the nodes, even if another command started them; returns whether there was anything to
    /// end.
    pub(super) fn take_down(&self, limit: Duration) -> Result<bool> {
        if !self.folder.is_dir() {
            return Ok(false);
        }
        let mut ended = false;
        let mut waited = Duration::ZERO;
        loop {
            if let Some(_lock) = self.lock()? {
                return Ok(self.clean()? || ended);
            }
            if !ended {
                // It holds the lock, so the process ID is valid.
                let keeper = fs::read_to_string(self.file("keeper.pid"))
                    .context("the keeper's process ID")?;
                Command::new("kill").args(["-TERM", keeper.trim()]).status()?;
                ended = true;
            }
            if waited > limit {
                bail!(
                    "the keeper has not ended within {limit:?}; see {}",
                    self.file("log").display()
                );
            }
            thread::sleep(POLL);
            waited += POLL;
        }
    }
}

/// The keeper, as seen by the command that started it.
pub(super) struct Keeper {
    child: Child,
    pipe: Option<ChildStdin>,
    place: Place,
}

impl Keeper {
    /// Starts a keeper for the cluster that is described in the folder.
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let log = File::create(folder.join("log/keeper.log")).context("the keeper's log")?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["real-talos", "keep", "--dir"])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C at the terminal must not end it.
            .process_group(0)
            .spawn()
            .context("starting the keeper")?;
        let pipe = child.stdin.take();
        let mut keeper = Self { child, pipe, place: Place::new(folder) };
        let mut waited = Duration::ZERO;
        while !keeper.place.socket().exists() {
            if let Some(status) = keeper.child.try_wait()? {
                let said = fs::read_to_string(folder.join("log/keeper.log")).unwrap_or_default();
                bail!("the keeper ended with {status}: {}", said.trim());
            }
            if waited > HUB_START {
                bail!(
                    "the hub was not ready within {HUB_START:?}; see {}",
                    folder.join("log").display()
                );
            }
            thread::sleep(POLL);
            waited += POLL;
        }
        Ok(keeper)
    }

    /// Fails if the keeper ended unexpectedly.
    pub(super) fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("the keeper of the nodes ended with {status}"),
            None => Ok(()),
        }
    }

    /// Leaves the nodes running.
    pub(super) fn detach(mut self) -> Result<()> {
        let mut pipe = self.pipe.take().context("the keeper's pipe")?;
        writeln!(pipe, "{DETACH}").context("telling the keeper")
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let Some(pipe) = self.pipe.take() else { return };
        drop(pipe);
        if let Err(error) = self.child.wait() {
            note(&format!("waiting for the keeper: {error}"));
        }
        // Usually nothing is left: the keeper does this unless it was killed.
        if let Ok(Some(_lock)) = self.place.lock()
            && let Err(error) = self.place.clean()
        {
            note(&format!("cleaning up: {error:#}"));
        }
    }
}

/// The main function of the keeper.
pub(super) fn keep(folder: &Path, kit: &Path, cgroup: &str) -> Result<()> {
    let place = Place::new(folder);
    let Some(_lock) = place.lock()? else {
        bail!("a cluster is already running in {}", folder.display())
    };
    place.clean().context("cleaning up after an earlier cluster")?;
    let noted = Noted { cgroup: cgroup.to_owned(), settings: host::read_settings() };
    fs::write(place.file("noted.json"), serde_json::to_vec(&noted)?)?;
    fs::write(place.file("keeper.pid"), std::process::id().to_string())?;

    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ended)).context("listening for signals")?;
    }
    let done = run_hub(&place, folder, kit, &ended);
    place.clean()?;
    done
}

fn run_hub(place: &Place, folder: &Path, kit: &Path, ended: &Arc<AtomicBool>) -> Result<()> {
    let log = File::create(folder.join("log/hub.log"))?;
    let mut hub = Command::new("setpriv")
        .args([
            "--pdeathsig",
            "KILL",
            "--",
            "unshare",
            "--mount",
            "--net",
            "--pid",
            "--ipc",
            "--uts",
        ])
        .args(["--fork", "--kill-child=KILL", "--mount-proc"])
        .arg(kit)
        .arg("hub")
        .arg(place.spec())
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()
        .context("starting the hub")?;
    follow_pipe(Arc::clone(ended));
    let mut known = false;
    while !ended.load(Ordering::Relaxed) {
        if let Some(status) = hub.try_wait()? {
            bail!(
                "the hub ended with {status}: {}",
                fs::read_to_string(folder.join("log/hub.log"))?
            );
        }
        if !known && let Some(inner) = first_child(hub.id()) {
            fs::write(place.file("hub.pid"), inner.to_string())?;
            known = true;
        }
        thread::sleep(POLL);
    }
    // Its child dies with it (death signal), and everything inside with that.
    hub.kill().context("ending the hub")?;
    hub.wait().context("waiting for the hub")?;
    Ok(())
}

/// Ends the keeper when the pipe closes, unless the command has detached.
fn follow_pipe(ended: Arc<AtomicBool>) {
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            if line.is_ok_and(|line| line == DETACH) {
                return;
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
}

fn first_child(process: u32) -> Option<u32> {
    let path = format!("/proc/{process}/task/{process}/children");
    fs::read_to_string(path).ok()?.split_whitespace().next()?.parse().ok()
}
