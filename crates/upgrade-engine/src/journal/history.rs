//! Reads runs from disk: the current one and earlier ones.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::file::{At as _, FORMAT, FileError, Folder, Header};
use crate::store::StoredRun;

impl Folder {
    /// The current run, or the last one. Reading needs no lock.
    pub fn last(&self) -> Result<Option<StoredRun>, FileError> {
        let current = self.current();
        if current.exists() { Ok(Some(read(&current)?.0)) } else { Ok(None) }
    }

    /// Every run, the newest first.
    pub fn runs(&self) -> Result<Vec<StoredRun>, FileError> {
        let mut runs: Vec<StoredRun> = self.last()?.into_iter().collect();
        for path in self.archived()?.iter().rev() {
            runs.push(read(path)?.0);
        }
        Ok(runs)
    }
}

/// Reads a file, and returns how many of its bytes are complete lines: an incomplete last line is
/// left out.
pub(super) fn read(path: &Path) -> Result<(StoredRun, u64), FileError> {
    let bytes = fs::read(path).at("read", path)?;
    let broken = |line: usize, why: String| FileError::Broken { path: path.to_owned(), line, why };
    // Only a line with its newline is complete.
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut lines = bytes[..whole].split_inclusive(|byte| *byte == b'\n').enumerate();
    let Some((_, first)) = lines.next() else {
        return Err(broken(1, "the first line, with the plan, is missing".to_owned()));
    };
    let header: Header =
        serde_json::from_slice(first).map_err(|error| broken(1, error.to_string()))?;
    if header.journal != FORMAT {
        let why = format!("its format is {}, this program reads {FORMAT}", header.journal);
        return Err(broken(1, why));
    }
    let mut entries = Vec::new();
    let mut whole_bytes = first.len();
    for (number, line) in lines {
        match serde_json::from_slice(line) {
            Ok(entry) => entries.push(entry),
            // A disk may keep the end of a line and lose its middle.
            Err(_) if whole_bytes + line.len() == whole => break,
            Err(error) => return Err(broken(number + 1, error.to_string())),
        }
        whole_bytes += line.len();
    }
    let name = header.name();
    let Header { began, plan, inherited, .. } = header;
    let run = StoredRun { name, began, plan: Arc::new(plan), inherited, entries };
    Ok((run, whole_bytes as u64))
}
