//! The journal on disk: a file of JSON lines that is only ever appended to.
//!
//! A folder holds the runs of one cluster:
//!
//! ```text
//! run.jsonl    the run at hand, or the last one: first its plan, then entries
//! run.lock     held by the process that drives, with its name
//! past/        earlier runs, the newest few
//! ```
//!
//! The first line is the plan itself, so that a run is resumed with nothing but
//! its journal. A line that a power cut tore is cut off; nothing was done that
//! its whole line would have announced.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use upgrade_core::jiff;
use upgrade_core::journal::{Armed, Entry, FoldError};
use upgrade_core::mutant::{self, Mutant};
use upgrade_core::plan::{Plan, PlanHash};
use upgrade_core::snapshot::NodeName;

use super::history::{Recorded, read};
use super::lock::{self, Holder, Lock};
use super::{Fence, Journal, JournalError, Lost};

/// The version of the file's form.
pub(super) const FORMAT: u32 = 1;

/// How many earlier runs are kept.
const KEEP: usize = 20;

/// What went wrong with the files.
#[derive(Debug, Error)]
pub enum FileError {
    /// The file system said no.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// Another process drives this cluster (rule 9).
    #[error("{} drives this cluster already; wait for it, or stop it and resume ({})",
        by.as_ref().map_or("another process".to_owned(), ToString::to_string), path.display())]
    Held {
        /// Who.
        by: Option<Holder>,
        /// The lock.
        path: PathBuf,
    },
    /// The last run did not end, and another plan would forget it.
    #[error("the run of plan {} has not ended ({ended}); resume it, or say that it is to be replaced", plan.short())]
    Unfinished {
        /// Its plan.
        plan: PlanHash,
        /// How it stands.
        ended: String,
    },
    /// There is no run.
    #[error("there is no run in {}", .0.display())]
    NoRun(PathBuf),
    /// A line in the middle is not readable.
    #[error("{} is broken at line {line}: {why}; move it away to begin anew", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Why.
        why: String,
    },
    /// The entries do not fit their plan.
    #[error("{}: {source}", path.display())]
    Fold {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: FoldError,
    },
}

/// Names the file in an error of the file system.
pub(super) trait At<T> {
    fn at(self, what: &'static str, path: &Path) -> Result<T, FileError>;
}

impl<T> At<T> for std::io::Result<T> {
    fn at(self, what: &'static str, path: &Path) -> Result<T, FileError> {
        self.map_err(|source| FileError::Io { what, path: path.to_owned(), source })
    }
}

/// The first line of a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The version of this form.
    pub journal: u32,
    /// When the run began.
    pub began: Timestamp,
    /// The plan, whole.
    pub plan: Plan,
    /// Nodes that a replaced run left cordoned (rule 7). Here and not only in an
    /// entry, since a process may die before its first one.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub inherited_cordons: BTreeSet<NodeName>,
    /// Nodes that a replaced run left armed, or may have (rule 5).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inherited_armed: BTreeMap<NodeName, Armed>,
}

/// A run that can be driven on.
#[derive(Debug)]
pub struct Opened {
    /// Its plan.
    pub plan: Plan,
    /// What was journaled before.
    pub past: Vec<Entry>,
    /// Where it goes on.
    pub journal: FileJournal,
    /// Nodes that a replaced run left cordoned (rule 7).
    pub inherited_cordons: BTreeSet<NodeName>,
    /// Nodes that it left armed, or may have (rule 5).
    pub inherited_armed: BTreeMap<NodeName, Armed>,
}

/// The folder of a cluster's runs.
#[derive(Clone, Debug)]
pub struct Folder {
    dir: PathBuf,
}

impl Folder {
    /// The runs in this folder, which need not be there yet.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    pub(super) fn current(&self) -> PathBuf {
        self.dir.join("run.jsonl")
    }

    pub(super) fn past(&self) -> PathBuf {
        self.dir.join("past")
    }

    fn lock(&self) -> PathBuf {
        self.dir.join("run.lock")
    }

    /// Who drives now, if anybody does.
    pub fn holder(&self) -> Result<Option<Holder>, FileError> {
        lock::holder(&self.lock())
    }

    /// Begins a run. One that did not end stands in its way unless it is to be
    /// replaced, since what it left behind would be forgotten.
    pub fn begin(&self, plan: Plan, holder: &Holder, replace: bool) -> Result<Opened, FileError> {
        let past = self.past();
        fs::create_dir_all(&past).at("create", &past)?;
        let lock = Lock::take(&self.lock(), holder)?;
        let current = self.current();
        let last = if current.exists() { Some(read(&current)?) } else { None };
        let mut inherited_cordons = BTreeSet::new();
        let mut inherited_armed = BTreeMap::new();
        if let Some(last) = &last {
            let state = last.state()?;
            let touched = state.steps().iter().any(|step| step.attempts > 0);
            if touched && !state.completed() && !replace {
                let ended = last.result()?.to_string();
                return Err(FileError::Unfinished { plan: state.plan().clone(), ended });
            }
            inherited_cordons = state.cordons_left(&last.header.inherited_cordons);
            inherited_armed = state.armed_left(&last.header.inherited_armed);
        }
        let began = holder.since;
        let header = Header { journal: FORMAT, began, plan, inherited_cordons, inherited_armed };
        let mut line =
            serde_json::to_vec(&header).map_err(std::io::Error::from).at("write", &current)?;
        line.push(b'\n');
        // Under another name until it is whole.
        let new = self.dir.join("run.jsonl.new");
        let mut file = File::create(&new).at("create", &new)?;
        file.write_all(&line).and_then(|()| file.sync_all()).at("write", &new)?;
        if let Some(last) = &last {
            // There is a current run at every moment: the last one or this.
            keep(&current, &past.join(format!("{}.jsonl", last.name())))?;
            sync_dir(&past)?;
        }
        fs::rename(&new, &current).at("move", &new)?;
        sync_dir(&self.dir)?;
        self.prune()?;
        let journal = FileJournal::open(&current, lock)?;
        let Header { plan, inherited_cordons, inherited_armed, .. } = header;
        Ok(Opened { plan, past: Vec::new(), journal, inherited_cordons, inherited_armed })
    }

    /// Takes the last run up again. A torn last line is cut off.
    pub fn resume(&self, holder: &Holder) -> Result<Opened, FileError> {
        let current = self.current();
        if !current.exists() {
            return Err(FileError::NoRun(self.dir.clone()));
        }
        let lock = Lock::take(&self.lock(), holder)?;
        let Recorded { header, entries, whole_bytes, .. } = read(&current)?;
        let journal = FileJournal::open(&current, lock)?;
        journal.cut(whole_bytes).at("cut the torn end of", &current)?;
        let Header { plan, inherited_cordons, inherited_armed, .. } = header;
        Ok(Opened { plan, past: entries, journal, inherited_cordons, inherited_armed })
    }

    /// Lets go of all but the newest earlier runs.
    fn prune(&self) -> Result<(), FileError> {
        let mut files = self.archived()?;
        let surplus = files.len().saturating_sub(KEEP);
        for path in files.drain(..surplus) {
            fs::remove_file(&path).at("delete", &path)?;
        }
        Ok(())
    }

    /// The files of earlier runs, the oldest first.
    pub(super) fn archived(&self) -> Result<Vec<PathBuf>, FileError> {
        let past = self.past();
        if !past.exists() {
            return Ok(Vec::new());
        }
        let mut files = Vec::new();
        for item in fs::read_dir(&past).at("read", &past)? {
            let path = item.at("read", &past)?.path();
            if path.extension().is_some_and(|extension| extension == "jsonl") {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }
}

/// Gives a file a second name; one that it got before a crash is as good. Where
/// the file system knows only one name for a file, it is copied.
fn keep(current: &Path, archived: &Path) -> Result<(), FileError> {
    match fs::hard_link(current, archived) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(_) => fs::copy(current, archived).map(drop).at("copy", current),
        Ok(()) => Ok(()),
    }
}

fn sync_dir(dir: &Path) -> Result<(), FileError> {
    File::open(dir).and_then(|dir| dir.sync_all()).at("sync", dir)
}

/// A journal on disk, held by this process.
#[derive(Debug)]
pub struct FileJournal {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    lock: Lock,
    file: Mutex<Pen>,
}

#[derive(Debug)]
struct Pen {
    file: File,
    /// A write that failed may have left half a line: nothing may follow it.
    broken: bool,
}

impl FileJournal {
    fn open(path: &Path, lock: Lock) -> Result<Self, FileError> {
        let file = OpenOptions::new().append(true).open(path).at("open", path)?;
        let file = Mutex::new(Pen { file, broken: false });
        Ok(Self { shared: Arc::new(Shared { path: path.to_owned(), lock, file }) })
    }

    fn cut(&self, length: u64) -> std::io::Result<()> {
        let pen = self.shared.file.lock().unwrap_or_else(PoisonError::into_inner);
        if pen.file.metadata()?.len() > length {
            pen.file.set_len(length)?;
            pen.file.sync_all()?;
        }
        Ok(())
    }
}

impl Shared {
    /// Whoever lost the lock has lost the run (rule 9).
    fn is_ours(&self) -> Result<(), String> {
        let path = self.path.display();
        let ours = self.lock.is_held() || mutant::is(Mutant::FenceOff);
        ours.then_some(()).ok_or(format!("the lock beside {path} was taken away"))
    }

    fn append(&self, line: &[u8]) -> Result<(), JournalError> {
        self.is_ours().map_err(JournalError)?;
        let path = self.path.display();
        let mut pen = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if pen.broken {
            return Err(JournalError(format!("{path}: an earlier write failed")));
        }
        let written = pen.file.write_all(line).and_then(|()| pen.file.sync_data());
        written.map_err(|error| {
            pen.broken = true;
            JournalError(format!("{path}: {error}"))
        })
    }
}

impl Journal for FileJournal {
    async fn append(&mut self, entry: &Entry) -> Result<(), JournalError> {
        let mut line =
            serde_json::to_vec(entry).map_err(|error| JournalError(error.to_string()))?;
        line.push(b'\n');
        let shared = Arc::clone(&self.shared);
        let written = tokio::task::spawn_blocking(move || shared.append(&line)).await;
        written.map_err(|error| JournalError(error.to_string()))?
    }

    fn fence(&self) -> Arc<dyn Fence> {
        Arc::new(LockFence(Arc::downgrade(&self.shared)))
    }
}

/// Holds while the journal's lock does, and does not keep it: the lock goes with
/// the journal, whoever still asks.
struct LockFence(Weak<Shared>);

impl Fence for LockFence {
    fn holds(&self) -> Result<(), Lost> {
        let Some(journal) = self.0.upgrade() else {
            return Err(Lost("its journal was closed".to_owned()));
        };
        journal.is_ours().map_err(Lost)
    }
}
