//! The lock that lets one process drive a cluster, and names it (rule 9).

use std::fmt::{self, Display};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use upgrade_core::jiff;

use super::file::{At as _, FileError};

/// The process that drives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The machine's name.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// Since when.
    pub since: Timestamp,
}

impl Holder {
    /// This process.
    pub fn this_process(since: Timestamp) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self { host, pid: std::process::id(), since }
    }
}

impl Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, pid, since } = self;
        write!(f, "process {pid} on {host}, since {since}")
    }
}

/// A held lock; released when it is dropped, and by a crash.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    /// Takes the lock, or returns who has it.
    pub(super) fn take(path: &Path, holder: &Holder) -> Result<Self, FileError> {
        // A process that reads the holder locks the file for a moment, so this is retried.
        const TRIES: u32 = 5;
        for attempt in 1.. {
            let mut file = open(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) if attempt < TRIES => {
                    std::thread::sleep(Duration::from_millis(20));
                    continue;
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(FileError::Held { by: read(&mut file), path: path.to_owned() });
                }
                Err(TryLockError::Error(error)) => return Err(error).at("lock", path),
            }
            let lock = Self { path: path.to_owned(), file };
            if lock.is_held() {
                lock.sign(holder).at("write", path)?;
                return Ok(lock);
            }
            // The file was removed between opening and locking it.
        }
        unreachable!("the loop ends by returning")
    }

    fn sign(&self, holder: &Holder) -> std::io::Result<()> {
        let text = serde_json::to_string(holder)?;
        let mut file = &self.file;
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }

    /// Whether the lock file is still the one that other processes find. The lock of a file that
    /// was deleted or replaced excludes no other process.
    pub(super) fn is_held(&self) -> bool {
        let (Ok(ours), Ok(there)) = (self.file.metadata(), std::fs::metadata(&self.path)) else {
            return false;
        };
        (ours.dev(), ours.ino()) == (there.dev(), there.ino())
    }
}

/// The holder of the lock, if there is one.
pub(super) fn holder(path: &Path) -> Result<Option<Holder>, FileError> {
    if !path.exists() {
        return Ok(None);
    }
    let mut file = open(path)?;
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(read(&mut file)),
        Err(TryLockError::Error(error)) => Err(error).at("lock", path),
    }
}

fn open(path: &Path) -> Result<File, FileError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .at("open", path)
}

fn read(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}
