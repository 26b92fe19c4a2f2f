//! Where the etcd snapshots of live clusters go: a folder or S3.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use jiff::Timestamp;
use s3_snapshots::{S3Snapshots, S3Writer};
use tokio::io::AsyncWrite;
use upgrade_engine::snapshots::{FolderSnapshots, FolderWriter, SnapshotStore, StoreError};

/// A store of etcd snapshots. Clones share its connections.
#[derive(Clone, Debug)]
pub enum LiveSnapshots {
    /// In a folder.
    Folder(FolderSnapshots),
    /// In S3.
    S3(S3Snapshots),
    /// In one that cannot be used, and why. Commands that take no snapshot do without.
    Unusable(StoreError),
}

/// A snapshot that is being written.
pub enum LiveWriter {
    /// To a folder.
    Folder(FolderWriter),
    /// To S3.
    S3(Box<S3Writer>),
}

impl LiveSnapshots {
    /// The same below it: a subfolder, or a longer prefix.
    #[must_use]
    pub fn join(&self, segment: &str) -> Self {
        match self {
            Self::Folder(folder) => Self::Folder(folder.join(segment)),
            Self::S3(store) => Self::S3(store.join(segment)),
            Self::Unusable(error) => Self::Unusable(error.clone()),
        }
    }

    /// Why no snapshot can be taken, as far as that is known without asking anyone.
    pub fn check(&self) -> Result<(), StoreError> {
        match self {
            Self::Folder(_) | Self::S3(_) => Ok(()),
            Self::Unusable(error) => Err(error.clone()),
        }
    }
}

impl Default for LiveSnapshots {
    fn default() -> Self {
        Self::from(PathBuf::default())
    }
}

impl From<PathBuf> for LiveSnapshots {
    fn from(folder: PathBuf) -> Self {
        Self::Folder(FolderSnapshots::new(folder))
    }
}

impl From<S3Snapshots> for LiveSnapshots {
    fn from(store: S3Snapshots) -> Self {
        Self::S3(store)
    }
}

impl SnapshotStore for LiveSnapshots {
    type Writer = LiveWriter;

    async fn begin(&self, cluster: &str, at: Timestamp) -> Result<LiveWriter, StoreError> {
        match self {
            Self::Folder(folder) => Ok(LiveWriter::Folder(folder.begin(cluster, at).await?)),
            Self::S3(store) => Ok(LiveWriter::S3(Box::new(store.begin(cluster, at).await?))),
            Self::Unusable(error) => Err(error.clone()),
        }
    }

    async fn commit(&self, writer: LiveWriter) -> Result<String, StoreError> {
        match (self, writer) {
            (Self::Folder(folder), LiveWriter::Folder(writer)) => folder.commit(writer).await,
            (Self::S3(store), LiveWriter::S3(writer)) => store.commit(*writer).await,
            _ => unreachable!("a writer is committed to the store that began it"),
        }
    }

    async fn discard(&self, writer: LiveWriter) {
        match (self, writer) {
            (Self::Folder(folder), LiveWriter::Folder(writer)) => folder.discard(writer).await,
            (Self::S3(store), LiveWriter::S3(writer)) => store.discard(*writer).await,
            _ => unreachable!("a writer is discarded by the store that began it"),
        }
    }

    async fn list(&self, cluster: &str) -> Result<Vec<String>, StoreError> {
        match self {
            Self::Folder(folder) => folder.list(cluster).await,
            Self::S3(store) => store.list(cluster).await,
            Self::Unusable(error) => Err(error.clone()),
        }
    }

    async fn prune(&self, cluster: &str, keep: usize, newest: &str) -> Result<(), StoreError> {
        match self {
            Self::Folder(folder) => folder.prune(cluster, keep, newest).await,
            Self::S3(store) => store.prune(cluster, keep, newest).await,
            Self::Unusable(error) => Err(error.clone()),
        }
    }
}

impl LiveWriter {
    fn inner(self: Pin<&mut Self>) -> Pin<&mut (dyn AsyncWrite + Send + Unpin)> {
        match self.get_mut() {
            Self::Folder(writer) => Pin::new(writer),
            Self::S3(writer) => Pin::new(&mut **writer),
        }
    }
}

impl AsyncWrite for LiveWriter {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.inner().poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_shutdown(context)
    }
}
