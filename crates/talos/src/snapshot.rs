//! Taking an etcd snapshot, and being sure of it (rule 3).
//!
//! The stream is the database followed by the SHA-256 of the database. Both are
//! written, since that is the format that `etcdutl` restores from; and the sum
//! is computed on the way, so a snapshot that comes back as `Ok` is whole.

use sha2::{Digest as _, Sha256};
use talos_proto::machine as wire;
use thiserror::Error;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use crate::client::{Limit, Node};
use crate::error::Error;
use crate::stream::{ByteStream, Incoming};

/// How long the sum at the end is.
const SUM: usize = 32;

/// A database is made of whole pages, and no page is smaller than this.
const PAGE: u64 = 512;

/// A snapshot that was written and verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdSnapshot {
    /// How many bytes were written, the sum included.
    pub bytes: u64,
    /// The SHA-256 of the database, which is also the last 32 bytes.
    pub sha256: [u8; SUM],
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
    /// It is not as long as a snapshot can be.
    #[error("what came is no whole snapshot ({bytes} bytes); take another")]
    Size {
        /// How many bytes came.
        bytes: u64,
    },
    /// The sum at the end is not that of the data.
    #[error("the snapshot's checksum does not fit its content; take another")]
    Checksum,
}

/// Adds up a stream whose last 32 bytes are the sum of all before them.
#[derive(Default)]
struct Trailer {
    sha: Sha256,
    /// What may still turn out to be the sum: the newest 32 bytes.
    tail: Vec<u8>,
    bytes: u64,
}

impl Trailer {
    fn update(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        if piece.len() >= SUM {
            self.sha.update(&self.tail);
            let (data, tail) = piece.split_at(piece.len() - SUM);
            self.sha.update(data);
            self.tail = tail.to_vec();
        } else {
            self.tail.extend_from_slice(piece);
            let data = self.tail.len().saturating_sub(SUM);
            self.sha.update(&self.tail[..data]);
            self.tail.drain(..data);
        }
    }

    fn finish(self) -> Result<EtcdSnapshot, SnapshotError> {
        let Self { sha, tail, bytes } = self;
        let Ok(sum) = <[u8; SUM]>::try_from(tail) else {
            return Err(SnapshotError::Size { bytes });
        };
        if bytes % PAGE != SUM as u64 || bytes == SUM as u64 {
            return Err(SnapshotError::Size { bytes });
        }
        let computed: [u8; SUM] = sha.finalize().into();
        if computed != sum {
            return Err(SnapshotError::Checksum);
        }
        Ok(EtcdSnapshot { bytes, sha256: sum })
    }
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
        let mut trailer = Trailer::default();
        while let Some(bytes) = stream.next().await.map_err(SnapshotError::Call)? {
            trailer.update(&bytes);
            writer.write_all(&bytes).await.map_err(SnapshotError::Write)?;
        }
        let snapshot = trailer.finish()?;
        writer.flush().await.map_err(SnapshotError::Write)?;
        Ok(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_sum(database: &[u8]) -> Vec<u8> {
        let mut all = database.to_vec();
        all.extend_from_slice(&Sha256::digest(database));
        all
    }

    fn add_up(bytes: &[u8], piece: usize) -> Result<EtcdSnapshot, SnapshotError> {
        let mut trailer = Trailer::default();
        for piece in bytes.chunks(piece) {
            trailer.update(piece);
        }
        trailer.finish()
    }

    #[test]
    fn any_cut_of_a_whole_snapshot_verifies() {
        let database: Vec<u8> = (0..1024_u32).map(|byte| (byte % 251) as u8).collect();
        let whole = with_sum(&database);
        for piece in [1, 7, 31, 32, 33, 64, 511, 1024, 1056, 4096] {
            let snapshot = add_up(&whole, piece).unwrap();
            assert_eq!(snapshot.bytes, 1056);
            assert_eq!(snapshot.sha256[..], whole[1024..]);
        }
    }

    #[test]
    fn a_changed_byte_is_found() {
        let mut whole = with_sum(&[7; 512]);
        whole[100] ^= 1;
        assert!(matches!(add_up(&whole, 64), Err(SnapshotError::Checksum)));
    }

    #[test]
    fn what_is_cut_off_is_found() {
        let whole = with_sum(&[7; 512]);
        for length in [0, 1, 31, 32, 33, 500, 512, 543] {
            assert!(
                matches!(add_up(&whole[..length], 64), Err(SnapshotError::Size { .. })),
                "{length}"
            );
        }
        // A whole page cut off is no size that gives itself away.
        let long = with_sum(&[7; 1024]);
        assert!(matches!(add_up(&long[..544], 64), Err(SnapshotError::Checksum)));
    }
}
