//! The journal on disk: a file of JSON lines that is append-only.
//!
//! A folder holds the runs of one cluster:
//!
//! ```text
//! run.jsonl    the current run, or the last one: first its plan, then entries
//! run.lock     held by the process that drives, with its name
//! past/        earlier runs, the newest few
//! ```
//!
//! The first line is the plan itself, so a run is resumed from its journal alone. An incomplete
//! last line, after a power cut, is cut off; nothing was done that the whole line would have
//! announced.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use upgrade_core::guard;
use upgrade_core::jiff;
use upgrade_core::journal::{Entry, State};
use upgrade_core::mutant::Mutant;
use upgrade_core::plan::Plan;

use super::history::read;
use super::lock::{self, Holder, Lock};
use super::{Fence, Journal, JournalError, Lost};
use crate::store::{Inherited, NotBegun, OpenRun, RunStore, StoredRun, Unfit, take_over};

/// The version of the file format.
pub(super) const FORMAT: u32 = 1;

/// How many earlier runs are kept.
const KEEP: usize = 20;

/// An error of the files of runs.
#[derive(Debug, Error)]
pub enum FileError {
    /// The file system refused.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// What was done with the file.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Its error.
        source: std::io::Error,
    },
    /// Another process drives this cluster (rule 9).
    #[error("{} drives this cluster already ({})",
        by.as_ref().map_or("another process".to_owned(), ToString::to_string), path.display())]
    Held {
        /// Who.
        by: Option<Holder>,
        /// The lock.
        path: PathBuf,
    },
    /// The last run has not ended.
    #[error(transparent)]
    NotBegun(#[from] NotBegun),
    /// There is no run.
    #[error("there is no run in {}", .0.display())]
    NoRun(PathBuf),
    /// A line in the middle is not readable.
    #[error("{} is damaged at line {line}: {why}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Why.
        why: String,
    },
    /// The entries do not fit their plan.
    #[error(transparent)]
    Unfit(#[from] Unfit),
}

/// Adds the path to an error of the file system.
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
    /// What earlier runs left to it.
    #[serde(flatten)]
    pub inherited: Inherited,
}

impl Header {
    /// The name of its run: it begins with its time, so names sort by time.
    pub(super) fn name(&self) -> String {
        let began = self.began.strftime("%Y%m%dT%H%M%SZ");
        format!("{began}-{}", self.plan.hash().short())
    }
}

/// The folder of a cluster's runs.
#[derive(Clone, Debug)]
pub struct Folder {
    dir: PathBuf,
}

impl Folder {
    /// The runs in this folder, which need not exist yet.
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

    /// The process that drives, if there is one.
    pub fn holder(&self) -> Result<Option<Holder>, FileError> {
        lock::holder(&self.lock())
    }

    /// Begins a run. A run that has not ended is overwritten on request only, since what it left
    /// behind would be forgotten.
    pub fn begin(
        &self,
        plan: Plan,
        holder: &Holder,
        replace: bool,
    ) -> Result<OpenRun<FileJournal>, FileError> {
        let past = self.past();
        fs::create_dir_all(&past).at("create", &past)?;
        let lock = Lock::take(&self.lock(), holder)?;
        let current = self.current();
        let last = self.last()?;
        let inherited = take_over(last.as_ref(), replace)?;
        let header = Header { journal: FORMAT, began: holder.since, plan, inherited };
        let mut line =
            serde_json::to_vec(&header).map_err(std::io::Error::from).at("write", &current)?;
        line.push(b'\n');
        // Under another name until it is complete.
        let new = self.dir.join("run.jsonl.new");
        let mut file = File::create(&new).at("create", &new)?;
        file.write_all(&line).and_then(|()| file.sync_all()).at("write", &new)?;
        if let Some(last) = &last {
            // There is a current run at every moment: the last one or this one.
            keep(&current, &past.join(format!("{}.jsonl", last.name)))?;
            sync_dir(&past)?;
        }
        fs::rename(&new, &current).at("move", &new)?;
        sync_dir(&self.dir)?;
        self.prune()?;
        let journal = FileJournal::open(&current, lock)?;
        Ok(OpenRun::new(Arc::new(header.plan), header.inherited, journal))
    }

    /// Opens the last run again. An incomplete last line is cut off.
    pub fn resume(&self, holder: &Holder) -> Result<OpenRun<FileJournal>, FileError> {
        let current = self.current();
        if !current.exists() {
            return Err(FileError::NoRun(self.dir.clone()));
        }
        let lock = Lock::take(&self.lock(), holder)?;
        let (run, whole_bytes) = read(&current)?;
        let journal = FileJournal::open(&current, lock)?;
        journal.cut(whole_bytes).at("cut off the incomplete end of", &current)?;
        Ok(OpenRun::of(run, journal)?)
    }

    /// Deletes all but the newest earlier runs.
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

/// The runs of a folder, for the process that drives them.
#[derive(Clone, Debug)]
pub struct FileStore {
    /// The runs.
    pub folder: Folder,
    /// The process that drives.
    pub holder: Holder,
}

impl RunStore for FileStore {
    type Journal = FileJournal;
    type Error = FileError;

    async fn last(&self) -> Result<Option<StoredRun>, FileError> {
        self.folder.last()
    }

    async fn runs(&self) -> Result<Vec<StoredRun>, FileError> {
        self.folder.runs()
    }

    async fn begin(&self, plan: Plan, replace: bool) -> Result<OpenRun<FileJournal>, FileError> {
        self.folder.begin(plan, &self.holder, replace)
    }

    async fn resume(&self) -> Result<OpenRun<FileJournal>, FileError> {
        self.folder.resume(&self.holder)
    }
}

/// Adds a second name to a file; one from before a crash is fine. Where the file system does not
/// support that, the file is copied.
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
    file: Mutex<JournalWriter>,
}

#[derive(Debug)]
struct JournalWriter {
    file: File,
    /// A write that failed may have left half a line: nothing may follow it.
    broken: bool,
}

impl FileJournal {
    fn open(path: &Path, lock: Lock) -> Result<Self, FileError> {
        let file = OpenOptions::new().append(true).open(path).at("open", path)?;
        let file = Mutex::new(JournalWriter { file, broken: false });
        Ok(Self { shared: Arc::new(Shared { path: path.to_owned(), lock, file }) })
    }

    fn cut(&self, length: u64) -> std::io::Result<()> {
        let writer = self.shared.file.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.file.metadata()?.len() > length {
            writer.file.set_len(length)?;
            writer.file.sync_all()?;
        }
        Ok(())
    }
}

impl Shared {
    /// A process that lost the lock has lost the run (rule 9).
    fn is_ours(&self) -> Result<(), String> {
        let path = self.path.display();
        if guard!(Mutant::FenceOff, !self.lock.is_held()) {
            return Err(format!("the lock beside {path} was taken away"));
        }
        Ok(())
    }

    fn append(&self, line: &[u8]) -> Result<(), JournalError> {
        self.is_ours().map_err(JournalError)?;
        let path = self.path.display();
        let mut writer = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.broken {
            return Err(JournalError(format!("{path}: an earlier write failed")));
        }
        let written = writer.file.write_all(line).and_then(|()| writer.file.sync_data());
        written.map_err(|error| {
            writer.broken = true;
            JournalError(format!("{path}: {error}"))
        })
    }
}

impl Journal for FileJournal {
    async fn append(&mut self, entry: &Entry, _: &State) -> Result<(), JournalError> {
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

/// Holds while the lock of the journal does, without keeping it: the lock is released with the
/// journal, even if a fence is still in use.
struct LockFence(Weak<Shared>);

impl Fence for LockFence {
    fn holds(&self) -> Result<(), Lost> {
        let Some(journal) = self.0.upgrade() else {
            return Err(Lost("its journal was closed".to_owned()));
        };
        journal.is_ours().map_err(Lost)
    }
}
