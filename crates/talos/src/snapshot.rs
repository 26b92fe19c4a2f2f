//! Takes an etcd snapshot and verifies it (rule 3).
//!
//! The stream is the database followed by its SHA-256. Both are written, because `etcdutl` restores
//! from that format; the sum is computed during the transfer, so a snapshot returned as `Ok` is
//! complete.

use sha2::{Digest as _, Sha256};
use talos_proto::machine as wire;
use thiserror::Error;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use crate::client::{Limit, Node};
use crate::error::Error;
use crate::stream::{ByteStream, Incoming};

/// The length of the checksum.
const SUM: usize = 32;

/// A database consists of whole pages, and no page is smaller than this.
const PAGE: u64 = 512;

/// A snapshot that was written and verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdSnapshot {
    /// The number of bytes written, including the checksum.
    pub bytes: u64,
    /// The SHA-256 of the database, which is also the last 32 bytes.
    pub sha256: [u8; SUM],
}

/// Why a snapshot failed. The data written so far is useless.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// The call failed.
    #[error("etcd's snapshot could not be fetched")]
    Call(#[source] Error),
    /// The destination failed.
    #[error("the snapshot could not be written; is there space left?")]
    Write(#[source] std::io::Error),
    /// Its length is impossible for a snapshot.
    #[error("the snapshot is incomplete ({bytes} bytes); take another one")]
    Size {
        /// The number of bytes received.
        bytes: u64,
    },
    /// The checksum does not match the data.
    #[error("the snapshot's checksum does not match its content; take another one")]
    Checksum,
}

/// Verifies a stream whose last 32 bytes are the checksum of all bytes before them.
#[derive(Default)]
struct Trailer {
    sha: Sha256,
    /// The newest 32 bytes, which may be the checksum.
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
    /// Writes a verified snapshot of the node's etcd to `writer` and flushes it; the caller has to
    /// sync it to disk.
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
    fn a_snapshot_verifies_with_any_chunks() {
        let database: Vec<u8> = (0..1024_u32).map(|byte| (byte % 251) as u8).collect();
        let whole = with_sum(&database);
        for piece in [1, 7, 31, 32, 33, 64, 511, 1024, 1056, 4096] {
            let snapshot = add_up(&whole, piece).unwrap();
            assert_eq!(snapshot.bytes, 1056);
            assert_eq!(snapshot.sha256[..], whole[1024..]);
        }
    }

    #[test]
    fn a_changed_byte_is_detected() {
        let mut whole = with_sum(&[7; 512]);
        whole[100] ^= 1;
        assert!(matches!(add_up(&whole, 64), Err(SnapshotError::Checksum)));
    }

    #[test]
    fn a_truncated_snapshot_is_detected() {
        let whole = with_sum(&[7; 512]);
        for length in [0, 1, 31, 32, 33, 500, 512, 543] {
            assert!(
                matches!(add_up(&whole[..length], 64), Err(SnapshotError::Size { .. })),
                "{length}"
            );
        }
        // A missing page is not visible in the size.
        let long = with_sum(&[7; 1024]);
        assert!(matches!(add_up(&long[..544], 64), Err(SnapshotError::Checksum)));
    }
}
