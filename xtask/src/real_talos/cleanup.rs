//! Checks what is left of a cluster after its command ended, however it ended.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::cluster::{NODES, cgroup, starts_at_once};
use super::host;
use super::keeper::Place;
use crate::tools::host::{self as clock, note};

/// How the command is ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// Ctrl-C: the command cleans up itself.
    Interrupt,
    /// `kill -9` of the command: its keeper cleans up.
    Kill,
    /// `kill -9` of the command and its keeper: the next `down` cleans up.
    KillBoth,
}

/// How long nodes boot before the end, so that containers and mounts exist.
const RUNNING: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_mins(3);
const POLL: Duration = Duration::from_millis(200);
const NAMESPACES: [&str; 3] = ["net", "mnt", "pid"];

/// Starts a cluster in its own folder, ends its command, and checks that nothing is left.
pub(super) fn run(folder: &Path, end: End) -> Result<()> {
    let folder = folder.with_file_name(format!(
        "{}-cleanup",
        folder.file_name().unwrap_or_default().to_string_lossy()
    ));
    fs::create_dir_all(&folder)?;
    let before = host::all_settings();
    let mut command = start(&folder)?;
    let watched = watch(&folder, &mut command);
    let ended = watched.and_then(|spaces| {
        stop(&folder, &mut command, end)?;
        Ok(spaces)
    });
    // After any failure above, this scenario must not affect the next one.
    command.kill().ok();
    command.wait().ok();
    let left = ended.and_then(|spaces| nothing_left(&folder, &before, &spaces));
    Place::new(&folder).take_down(PATIENCE)?;
    left?;
    fs::remove_dir_all(&folder).context("removing the folder of the cluster")
}

fn start(folder: &Path) -> Result<Child> {
    let log = File::create(folder.join("command.log"))?;
    Command::new(std::env::current_exe()?)
        .args(["real-talos", "up", "--dir"])
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("starting a cluster")
}

/// Waits until the first nodes have processes, and for containers; returns the namespaces.
fn watch(folder: &Path, command: &mut Child) -> Result<BTreeSet<PathBuf>> {
    let name = cgroup(folder);
    let began = clock::now();
    let first = NODES.iter().filter(|node| starts_at_once(node)).count();
    while nodes_in(&name) < first {
        if let Some(status) = command.try_wait()? {
            let log = fs::read_to_string(folder.join("command.log")).unwrap_or_default();
            bail!("the command ended with {status}: {}", log.trim());
        }
        ensure!(began.elapsed() < PATIENCE, "not all of the first nodes began to boot");
        thread::sleep(POLL);
    }
    thread::sleep(RUNNING);
    let own: BTreeSet<PathBuf> = namespaces("self").into_iter().collect();
    let spaces: BTreeSet<PathBuf> = processes_in(&name)
        .into_iter()
        .flat_map(|process| namespaces(&process))
        .filter(|space| !own.contains(space))
        .collect();
    ensure!(spaces.len() > NAMESPACES.len(), "the nodes have no namespaces of their own");
    note(&format!("    {} namespaces, {} processes", spaces.len(), processes_in(&name).len()));
    Ok(spaces)
}

fn stop(folder: &Path, command: &mut Child, end: End) -> Result<()> {
    let signal = |signal: &str, process: &str| -> Result<()> {
        let status = Command::new("kill").args([signal, process]).status()?;
        ensure!(status.success(), "kill {signal} {process}: {status}");
        Ok(())
    };
    let id = command.id().to_string();
    let keeper =
        fs::read_to_string(folder.join("keeper.pid")).context("the keeper's process ID")?;
    match end {
        End::Interrupt => signal("-INT", &id)?,
        End::Kill => signal("-KILL", &id)?,
        End::KillBoth => {
            signal("-KILL", keeper.trim())?;
            signal("-KILL", &id)?;
        }
    }
    command.wait()?;
    let place = Place::new(folder);
    if matches!(end, End::KillBoth) {
        ensure!(place.take_down(PATIENCE)?, "`down` found nothing to clean up");
    }
    let began = clock::now();
    while place.is_kept()? {
        ensure!(began.elapsed() < PATIENCE, "the keeper is still running");
        thread::sleep(POLL);
    }
    Ok(())
}

fn nothing_left(
    folder: &Path,
    before: &BTreeMap<String, String>,
    spaces: &BTreeSet<PathBuf>,
) -> Result<()> {
    let groups = host::control_groups(&cgroup(folder));
    ensure!(groups.is_empty(), "control groups are left: {groups:?}");
    let changed: Vec<String> = host::all_settings()
        .into_iter()
        .filter(|(name, value)| before.get(name).is_some_and(|before| before != value))
        .map(|(name, value)| format!("{name} is {value}, was {}", before[&name]))
        .collect();
    ensure!(changed.is_empty(), "settings of the machine changed: {}", changed.join("; "));
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let place = folder.display().to_string();
    let left: Vec<&str> = mounts.lines().filter(|line| line.contains(&place)).collect();
    ensure!(left.is_empty(), "mounts are left: {left:?}");
    let left: Vec<String> = all_processes()
        .into_iter()
        .filter(|process| namespaces(process).iter().any(|space| spaces.contains(space)))
        .map(|process| {
            let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
            format!("{process} {}", name.trim())
        })
        .collect();
    ensure!(left.is_empty(), "processes are left in the namespaces of the nodes: {left:?}");
    for name in ["hub.pid", "keeper.pid", "control.sock", "noted.json"] {
        ensure!(!folder.join(name).exists(), "{name} is left");
    }
    Ok(())
}

/// How many nodes have processes.
fn nodes_in(name: &str) -> usize {
    let Some(group) = host::control_groups(name).into_iter().next() else { return 0 };
    super::cluster::NODES
        .iter()
        .filter(|node| !processes_below(&group.join(node.name)).is_empty())
        .count()
}

fn processes_in(name: &str) -> BTreeSet<String> {
    host::control_groups(name).iter().flat_map(|group| processes_below(group)).collect()
}

fn processes_below(group: &Path) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = fs::read_to_string(group.join("cgroup.procs"))
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect();
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(processes_below(&entry.path()));
        }
    }
    found
}

fn all_processes() -> Vec<String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).collect()
}

fn namespaces(process: &str) -> Vec<PathBuf> {
    NAMESPACES
        .iter()
        .filter_map(|kind| fs::read_link(format!("/proc/{process}/ns/{kind}")).ok())
        .collect()
}
