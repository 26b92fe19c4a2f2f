//! Snapshots in memory, for simulations and tests.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use jiff::Timestamp;
use tokio::io::AsyncWrite;
use upgrade_core::jiff;

use super::names::surplus;
use super::{SnapshotStore, StoreError};

/// Snapshots in memory. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct MemorySnapshots(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    /// By location, which sorts by time; numbered, since two may be taken at the same time.
    whole: BTreeMap<String, (String, Vec<u8>)>,
    begun: u64,
}

/// A snapshot that is being written.
#[derive(Debug)]
pub struct MemoryWriter {
    location: String,
    cluster: String,
    bytes: Vec<u8>,
}

impl MemorySnapshots {
    /// The content of a snapshot.
    pub fn read(&self, location: &str) -> Option<Vec<u8>> {
        self.lock().whole.get(location).map(|(_, bytes)| bytes.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SnapshotStore for MemorySnapshots {
    type Writer = MemoryWriter;

    async fn begin(&self, cluster: &str, at: Timestamp) -> Result<MemoryWriter, StoreError> {
        let mut kept = self.lock();
        kept.begun += 1;
        let time = at.strftime("%Y%m%dT%H%M%SZ");
        let location = format!("memory:{cluster}-{time}-{:04}", kept.begun);
        Ok(MemoryWriter { location, cluster: cluster.to_owned(), bytes: Vec::new() })
    }

    async fn commit(&self, writer: MemoryWriter) -> Result<String, StoreError> {
        let MemoryWriter { location, cluster, bytes } = writer;
        self.lock().whole.insert(location.clone(), (cluster, bytes));
        Ok(location)
    }

    async fn list(&self, cluster: &str) -> Result<Vec<String>, StoreError> {
        let kept = self.lock();
        let own = kept.whole.iter().filter(|(_, (of, _))| of == cluster);
        Ok(own.map(|(location, _)| location.clone()).collect())
    }

    async fn prune(&self, cluster: &str, keep: usize, newest: &str) -> Result<(), StoreError> {
        for location in surplus(self.list(cluster).await?, keep, newest) {
            self.lock().whole.remove(&location);
        }
        Ok(())
    }
}

impl AsyncWrite for MemoryWriter {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().bytes.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
