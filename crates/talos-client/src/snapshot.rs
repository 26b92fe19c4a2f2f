//! Taking an etcd snapshot, and being sure of it (rule 3).
//!
//! The stream is the database followed by the SHA-256 of the database. Both are
//! written, since that is the format that `etcdutl` restores from; and the sum
//! is computed on the way, so a snapshot that comes back as `Ok` is whole.

use talos_proto::machine as wire;
use thiserror::Error;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use upgrade_core::etcd_snapshot::{Damaged, Verified, Verifier};

use crate::client::{Limit, Node};
use crate::error::Error;
use crate::stream::{ByteStream, Incoming};

/// A snapshot that was written and verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdSnapshot {
    /// How many bytes were written, the sum included.
    pub bytes: u64,
    /// The SHA-256 of the database, which is also the last 32 bytes.
    pub sha256: [u8; 32],
}

/// Why there is no snapshot. What was written is of no use then.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// The call failed.
    #[error("etcd's snapshot could not be fetched")]
    Call(#[source] Error),
    /// The destination failed.
    #[error("the snapshot could not be written; is there space left?")]
    Write(#[source] std::io::Error),
    /// It is not whole.
    #[error(transparent)]
    Damaged(#[from] Damaged),
}

impl Node {
    /// Writes a snapshot of the node's etcd to `writer`, and verifies it. The
    /// writer is flushed; making it durable is the caller's business.
    pub async fn etcd_snapshot<W>(&self, writer: &mut W) -> Result<EtcdSnapshot, SnapshotError>
    where
        W: AsyncWrite + Unpin,
    {
        const METHOD: &str = "EtcdSnapshot";
        let deadlines = self.deadlines();
        let limit = Limit { attempt: deadlines.data_idle, total: deadlines.data_idle };
        let answer = self
            .read_within(METHOD, limit, |line| async move {
                let request = line.request(wire::EtcdSnapshotRequest {});
                line.machine().etcd_snapshot(request).await
            })
            .await
            .map_err(SnapshotError::Call)?;
        let total = Some(deadlines.snapshot);
        let mut stream =
            ByteStream::new(Incoming::new(self, METHOD, answer, deadlines.data_idle, total));
        let mut verifier = Verifier::default();
        while let Some(bytes) = stream.next().await.map_err(SnapshotError::Call)? {
            verifier.update(&bytes);
            writer.write_all(&bytes).await.map_err(SnapshotError::Write)?;
        }
        let Verified { bytes, database, .. } = verifier.finish()?;
        writer.flush().await.map_err(SnapshotError::Write)?;
        Ok(EtcdSnapshot { bytes, sha256: database })
    }
}
