//! Whether an etcd snapshot is whole (rule 3): a database followed by its SHA-256, which is
//! the format that `etcdutl` restores from.

use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// How long the sum at the end is.
const SUM: usize = 32;

/// A database is made of whole pages, and no page is smaller than this.
const PAGE: u64 = 512;

/// A whole snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Its length, the sum included.
    pub bytes: u64,
    /// The SHA-256 of the database, which is also the last 32 bytes.
    pub database: [u8; SUM],
    /// The SHA-256 of all bytes, as `sha256sum` prints it of the file.
    pub file: [u8; SUM],
}

/// Why a snapshot is of no use. The stream was cut or changed on its way.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Damaged {
    /// It is not as long as a snapshot can be.
    #[error("this is not a whole etcd snapshot ({bytes} bytes); take another")]
    Size {
        /// How many bytes came.
        bytes: u64,
    },
    /// The sum at the end is not that of the data.
    #[error("the snapshot's checksum does not match its content; take another")]
    Checksum,
}

/// Adds up a stream, in pieces of any length.
#[derive(Clone, Debug, Default)]
pub struct Verifier {
    sha: Sha256,
    /// What may still turn out to be the sum: the newest 32 bytes.
    tail: Vec<u8>,
    bytes: u64,
}

impl Verifier {
    /// Takes the next piece.
    pub fn update(&mut self, piece: &[u8]) {
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

    /// How many bytes came so far.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Judges the whole.
    pub fn finish(self) -> Result<Verified, Damaged> {
        let Self { mut sha, tail, bytes } = self;
        let Ok(sum) = <[u8; SUM]>::try_from(tail) else {
            return Err(Damaged::Size { bytes });
        };
        if bytes % PAGE != SUM as u64 || bytes == SUM as u64 {
            return Err(Damaged::Size { bytes });
        }
        let database: [u8; SUM] = sha.clone().finalize().into();
        if database != sum {
            return Err(Damaged::Checksum);
        }
        sha.update(sum);
        Ok(Verified { bytes, database, file: sha.finalize().into() })
    }
}

/// A database with its sum, as etcd streams it: for simulators and tests.
pub fn with_sum(database: &[u8]) -> Vec<u8> {
    let mut all = database.to_vec();
    all.extend_from_slice(&Sha256::digest(database));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add_up(bytes: &[u8], piece: usize) -> Result<Verified, Damaged> {
        let mut verifier = Verifier::default();
        for piece in bytes.chunks(piece) {
            verifier.update(piece);
        }
        verifier.finish()
    }

    fn database() -> Vec<u8> {
        (0..1024_u32).map(|byte| u8::try_from(byte % 251).unwrap()).collect()
    }

    #[test]
    fn a_whole_snapshot_verifies_in_any_pieces() {
        let whole = with_sum(&database());
        let file: [u8; 32] = Sha256::digest(&whole).into();
        for piece in [1, 7, 31, 32, 33, 64, 511, 1024, 1056, 4096] {
            let verified = add_up(&whole, piece).unwrap();
            assert_eq!(verified.bytes, 1056);
            assert_eq!(verified.database[..], whole[1024..]);
            assert_eq!(verified.file, file);
        }
    }

    #[test]
    fn what_is_cut_or_changed_is_refused() {
        // Rule 3.
        let whole = with_sum(&database());
        for length in [0, 1, 32, 512, 544, 1055] {
            let damaged = add_up(&whole[..length], 100).unwrap_err();
            let cut_at_a_page = length == 544;
            assert_eq!(damaged == Damaged::Checksum, cut_at_a_page, "{length}: {damaged}");
        }
        let mut changed = whole;
        changed[17] ^= 1;
        assert_eq!(add_up(&changed, 100), Err(Damaged::Checksum));
    }
}
