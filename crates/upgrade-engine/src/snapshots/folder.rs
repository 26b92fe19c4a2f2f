//! Snapshots in a local folder. A file gets its name only once it is complete, verified and on the
//! disk.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};

use jiff::Timestamp;
use tokio::fs;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use upgrade_core::jiff;
use upgrade_core::reason::FailureKind;

use super::{SnapshotStore, StoreError, names};

/// The suffix of files that are not complete yet.
const PARTIAL: &str = ".partial";

/// Snapshots in a folder, which is created with the first one. Clusters may share it: the names of
/// files begin with the name of their cluster.
#[derive(Clone, Debug)]
pub struct FolderSnapshots {
    folder: PathBuf,
}

/// A snapshot that is being written.
#[derive(Debug)]
pub struct FolderWriter {
    file: fs::File,
    partial: Partial,
    name: String,
}

impl FolderSnapshots {
    /// In this folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// In a folder below this one.
    #[must_use]
    pub fn join(&self, segment: &str) -> Self {
        Self { folder: self.folder.join(segment) }
    }

    fn failed(&self, what: &str, error: &io::Error) -> StoreError {
        let folder = self.folder.display();
        let text = format!("the snapshot's folder {folder}: {what}: {error}");
        StoreError::new(FailureKind::Refused, &text)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}{}", names::SUFFIX))
    }
}

impl SnapshotStore for FolderSnapshots {
    type Writer = FolderWriter;

    async fn begin(&self, cluster: &str, at: Timestamp) -> Result<FolderWriter, StoreError> {
        let made = fs::create_dir_all(&self.folder).await;
        made.map_err(|error| self.failed("it cannot be created", &error))?;
        let name = names::free(&names::stem(cluster, at), |name| self.path(name).exists());
        let path = self.folder.join(format!(".{name}{PARTIAL}"));
        // Deleted also if opening it is cancelled.
        let partial = Partial(Some(path.clone()));
        let file = private().open(&path).await;
        let file = file.map_err(|error| self.failed("it cannot be written to", &error))?;
        Ok(FolderWriter { file, partial, name })
    }

    async fn commit(&self, writer: FolderWriter) -> Result<String, StoreError> {
        let FolderWriter { mut file, mut partial, name } = writer;
        let failed = |error: &io::Error| self.failed("it was not written to the disk", error);
        file.flush().await.map_err(|error| failed(&error))?;
        file.sync_all().await.map_err(|error| failed(&error))?;
        drop(file);
        let path = self.path(&name);
        if let Some(from) = &partial.0 {
            let named = fs::rename(from, &path).await;
            named.map_err(|error| self.failed("it cannot be renamed", &error))?;
        }
        partial.0 = None;
        let synced = sync_folder(&self.folder).await;
        synced.map_err(|error| self.failed("its name was not written to the disk", &error))?;
        Ok(path.display().to_string())
    }

    async fn list(&self, cluster: &str) -> Result<Vec<String>, StoreError> {
        let failed = |error: &io::Error| self.failed("it cannot be read", error);
        let mut files = match fs::read_dir(&self.folder).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            files => files.map_err(|error| failed(&error))?,
        };
        let mut own = Vec::new();
        while let Some(file) = files.next_entry().await.map_err(|error| failed(&error))? {
            if names::is_of(cluster, &file.file_name().to_string_lossy()) {
                own.push(file.path().display().to_string());
            }
        }
        own.sort();
        Ok(own)
    }

    async fn prune(&self, cluster: &str, keep: usize, newest: &str) -> Result<(), StoreError> {
        let mut first = None;
        for path in names::surplus(self.list(cluster).await?, keep, newest) {
            // One that cannot be deleted does not prevent deleting the others.
            if let Err(error) = fs::remove_file(&path).await {
                let text = format!("{path}: {error}");
                first.get_or_insert(StoreError::new(FailureKind::Refused, &text));
            }
        }
        first.map_or(Ok(()), Err)
    }
}

fn private() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    options.mode(0o600);
    options
}

async fn sync_folder(folder: &Path) -> io::Result<()> {
    fs::File::open(folder).await?.sync_all().await
}

/// Deletes an incomplete file, also when its future is dropped.
#[derive(Debug)]
struct Partial(Option<PathBuf>);

impl Drop for Partial {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl AsyncWrite for FolderWriter {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().file).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().file).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().file).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_newest_of_this_cluster_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in [
            "prod-20260101T000000Z.snapshot",
            "prod-20260102T000000Z.snapshot",
            "prod-20260103T000000Z.snapshot",
            "prod-west-20250101T000000Z.snapshot",
            "prod-notes.txt",
        ] {
            std::fs::write(path(name), "x").unwrap();
        }
        let newest = path("prod-20260103T000000Z.snapshot");
        let location = newest.display().to_string();
        let store = FolderSnapshots::new(folder.path());
        store.prune("prod", 2, &location).await.unwrap();
        assert!(!path("prod-20260101T000000Z.snapshot").exists());
        assert!(path("prod-20260102T000000Z.snapshot").exists());
        assert!(newest.exists());
        assert!(path("prod-west-20250101T000000Z.snapshot").exists(), "another cluster's");
        assert!(path("prod-notes.txt").exists());
        // Rule 3: the one just taken stays, whatever the number is.
        store.prune("prod", 0, &location).await.unwrap();
        assert!(newest.exists());
        assert!(!path("prod-20260102T000000Z.snapshot").exists());
    }
}
