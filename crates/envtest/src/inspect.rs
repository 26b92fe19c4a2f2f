//! Inspects and stops a control plane that another process started.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Error;
use crate::folder::{Access, Folder, Record};
use crate::process::{self, Manner};
use crate::ready::Question;
use crate::{Component, Tools, clock};

/// The time limit for an owner to stop its control plane: four components, each with at most twice
/// ten seconds.
const OWNER_LIMIT: Duration = Duration::from_secs(80);

const PAUSE: Duration = Duration::from_millis(50);

/// The state of a folder's control plane.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The folder.
    pub folder: PathBuf,
    /// The admin's access.
    pub access: Access,
    /// The process that owns the control plane; `None` if it runs without one, or not at all.
    pub owner: Option<u32>,
    /// All components.
    pub components: Vec<Running>,
}

impl Inspection {
    /// Whether all components are ready.
    pub fn is_ready(&self) -> bool {
        !self.components.is_empty() && self.components.iter().all(|it| it.health == Health::Ready)
    }
}

/// One component of a control plane.
#[derive(Clone, Debug)]
pub struct Running {
    /// The component.
    pub component: Component,
    /// The URL it listens on, or listened on.
    pub url: String,
    /// Its log.
    pub log: PathBuf,
    /// Its process, if it runs.
    pub pid: Option<u32>,
    /// Its health.
    pub health: Health,
}

/// The health of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It is ready.
    Ready,
    /// It runs, but this is missing.
    Unready(String),
    /// It does not run.
    Stopped,
}

/// Inspects the control plane in a folder. `None` if the folder never had one.
pub fn inspect(folder: &Path, tools: &Tools) -> Result<Option<Inspection>, Error> {
    let Some(folder) = Folder::open(folder)? else { return Ok(None) };
    let Some(ports) = folder.ports()? else { return Ok(None) };
    let record = folder.record()?;
    let question = Question { folder: &folder, ports, kubectl: &tools.kubectl };
    let check = |component: Component| {
        let recorded = record.processes.iter().find(|(it, _)| *it == component);
        let pid = recorded.map(|(_, pid)| *pid);
        let pid = pid.filter(|pid| process::is_alive(&folder, component, *pid));
        let health = match pid.map(|_| question.ask(component)) {
            Some(Ok(())) => Health::Ready,
            Some(Err(reason)) => Health::Unready(reason),
            None => Health::Stopped,
        };
        let (url, log) = (component.url(ports), folder.log_of(component));
        Running { component, url, log, pid, health }
    };
    Ok(Some(Inspection {
        folder: folder.path().to_owned(),
        access: folder.access(ports),
        owner: record.owner.filter(|_| matches!(folder.try_lock(), Err(Error::Busy { .. }))),
        components: Component::ALL.map(check).into(),
    }))
}

/// Stops the control plane in a folder, whoever owns it, and returns the components that it
/// stopped. It does nothing if nothing runs.
///
/// It sends the owner SIGTERM first, and then stops what is left.
pub fn take_down(folder: &Path) -> Result<Vec<Component>, Error> {
    let Some(folder) = Folder::open(folder)? else { return Ok(Vec::new()) };
    let before = alive(&folder, &folder.record()?);
    let mut asked = false;
    let mut lock = folder.try_lock();
    clock::within(OWNER_LIMIT, PAUSE, || {
        if !matches!(lock, Err(Error::Busy { .. })) {
            return true;
        }
        // An owner that has just started may not have written its ID yet.
        let owner = folder.record().ok().and_then(|record| record.owner);
        if let (false, Some(owner)) = (asked, owner) {
            process::ask_owner(owner);
            asked = true;
        }
        lock = folder.try_lock();
        lock.is_ok()
    });
    let _lock = lock?;
    let mut stopped = end_recorded(&folder, &folder.record()?)?;
    stopped.extend(before.into_iter().map(|(component, _)| component));
    stopped.sort();
    stopped.dedup();
    Ok(stopped)
}

/// Ends the recorded processes in reverse start order. Only for the holder of the lock.
pub(crate) fn end_recorded(folder: &Folder, record: &Record) -> Result<Vec<Component>, Error> {
    let alive = alive(folder, record);
    let etcd_runs = alive.iter().any(|(component, _)| *component == Component::Etcd);
    for (component, pid) in alive.iter().rev() {
        process::end_leftover(folder, *component, *pid, Manner::suits(*component, etcd_runs))?;
    }
    folder.keep_record(&Record::default())?;
    Ok(alive.into_iter().map(|(component, _)| component).collect())
}

fn alive(folder: &Folder, record: &Record) -> Vec<(Component, u32)> {
    let mut alive = record.processes.clone();
    alive.retain(|(component, pid)| process::is_alive(folder, *component, *pid));
    alive
}
