//! etcd snapshots, off the cluster (rule 3). A control plane streams one
//! ([`EtcdAdmin::snapshot`](crate::io::EtcdAdmin::snapshot)), the stream is verified on its way
//! ([`upgrade_core::etcd_snapshot`]), and a [`SnapshotStore`] keeps it.

mod folder;
mod memory;
pub mod names;

use std::fmt::Write as _;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use jiff::Timestamp;
use thiserror::Error;
use tokio::io::AsyncWrite;
use upgrade_core::etcd_snapshot::{Verified, Verifier};
use upgrade_core::event::{StepProgress, Unit};
use upgrade_core::jiff;
use upgrade_core::journal::Proof;
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::snapshot::NodeName;

use crate::io::{
    Applied, Clock as _, EtcdAdmin as _, Io, IoError, Machine, Machines as _, ProgressSink,
};

pub use folder::{FolderSnapshots, FolderWriter};
pub use memory::MemorySnapshots;

/// Why a store failed, with what to check.
#[derive(Clone, Debug, Error)]
#[error("{0}")]
pub struct StoreError(Failure);

impl StoreError {
    /// `kind` says whether a retry may help.
    pub fn new(kind: FailureKind, text: &str) -> Self {
        Self(Failure::new(kind, text))
    }

    /// Whether a retry may help.
    pub const fn kind(&self) -> FailureKind {
        self.0.kind
    }
}

impl From<StoreError> for IoError {
    fn from(StoreError(failure): StoreError) -> Self {
        Self { failure, applied: Applied::No }
    }
}

/// Where snapshots are kept. A snapshot has a location only once it is complete, verified and
/// durable, since anybody who finds a location may restore from it. It contains every secret of the
/// cluster: only its owner may read it (rule 14).
pub trait SnapshotStore: Send + Sync {
    /// A snapshot that is being written. Dropped without a commit, it leaves nothing behind, as far
    /// as that is possible without waiting; see [`discard`](Self::discard).
    type Writer: AsyncWrite + Send + Unpin;

    /// Begins a snapshot of a cluster.
    fn begin(
        &self,
        cluster: &str,
        at: Timestamp,
    ) -> impl Future<Output = Result<Self::Writer, StoreError>> + Send;

    /// Makes what was written durable, and returns its location: a path or a URL.
    fn commit(
        &self,
        writer: Self::Writer,
    ) -> impl Future<Output = Result<String, StoreError>> + Send;

    /// Removes what was written, and returns when it is gone. A store whose writer cleans up when it
    /// is dropped needs nothing else.
    fn discard(&self, writer: Self::Writer) -> impl Future<Output = ()> + Send {
        drop(writer);
        std::future::ready(())
    }

    /// The locations of a cluster's snapshots, the oldest first.
    fn list(&self, cluster: &str) -> impl Future<Output = Result<Vec<String>, StoreError>> + Send;

    /// Deletes the oldest snapshots of a cluster beyond `keep`, and never `newest`, whatever its
    /// time.
    fn prune(
        &self,
        cluster: &str,
        keep: usize,
        newest: &str,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// Takes a snapshot from the first of these control planes that returns one: followers first, since
/// the leader has more to do. `permitted` is asked before each of them.
pub async fn take_from_any<I: Io>(
    io: &I,
    cluster: &str,
    mut members: Vec<Machine>,
    keep: usize,
    progress: &dyn ProgressSink,
    permitted: impl Fn() -> Result<(), Failure>,
) -> Result<Proof, Failure> {
    let etcd = io.machines().etcd(&members).await;
    let leader: Option<&NodeName> = etcd.known().and_then(|etcd| etcd.leader());
    members.sort_by_key(|member| (Some(&member.name) == leader, member.clone()));
    let mut last = Failure::new(FailureKind::Unavailable, "no control plane is known to ask");
    for member in &members {
        let name = &member.name;
        progress.report(StepProgress::text(format!("taking a snapshot from {name}")));
        permitted()?;
        match take(io, cluster, member, keep, progress).await {
            Ok(proof) => return Ok(proof),
            Err(error) => {
                let text = format!("no snapshot from {name}: {error}");
                progress.report(StepProgress::text(text.as_str()));
                last = Failure::new(error.failure.kind, &text);
            }
        }
    }
    Err(last)
}

/// Takes a snapshot from this control plane, verifies it, and deletes the oldest beyond `keep`.
async fn take<I: Io>(
    io: &I,
    cluster: &str,
    from: &Machine,
    keep: usize,
    progress: &dyn ProgressSink,
) -> Result<Proof, IoError> {
    let store = io.snapshots();
    let writer = store.begin(cluster, io.clock().now()).await?;
    let mut writer = Checked { writer, verifier: Verifier::default(), megabytes: 0, progress };
    let streamed = io.etcd().snapshot(from, &mut writer).await;
    let Checked { writer, verifier, .. } = writer;
    let verified = match streamed {
        // The stream was cut or damaged on its way; another may be complete.
        Ok(()) => verifier
            .finish()
            .map_err(|why| IoError::new(FailureKind::Unavailable, &why.to_string())),
        Err(error) => Err(error),
    };
    let Verified { bytes, file, .. } = match verified {
        Ok(verified) => verified,
        Err(error) => {
            store.discard(writer).await;
            return Err(error);
        }
    };
    let location = store.commit(writer).await?;
    if let Err(error) = store.prune(cluster, keep, &location).await {
        // Too many snapshots only cost space.
        let text = format!("old snapshots could not be deleted: {error}");
        progress.report(StepProgress::text(text));
    }
    let mut sha256 = String::new();
    for byte in file {
        let _ = write!(sha256, "{byte:02x}");
    }
    Ok(Proof::EtcdSnapshot { location, sha256, bytes })
}

/// Verifies what is written, and reports its size.
struct Checked<'a, W> {
    writer: W,
    verifier: Verifier,
    megabytes: u64,
    progress: &'a dyn ProgressSink,
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Checked<'_, W> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.writer).poll_write(context, bytes))?;
        this.verifier.update(&bytes[..written]);
        let bytes = this.verifier.bytes();
        let megabytes = bytes / 1_000_000;
        if megabytes > this.megabytes {
            this.megabytes = megabytes;
            let message = format!("{megabytes} MB");
            this.progress.report(StepProgress::counted(Unit::Bytes, bytes, None, message));
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().writer).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().writer).poll_shutdown(context)
    }
}
