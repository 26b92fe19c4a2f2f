//! The history: one change per revision, until it is compacted.
//!
//! Recent changes are available directly. Changes that every reader has processed can be compressed
//! to a hundredth of the memory; only clients that continue from an old version need them again.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::names::ResourceName;
use crate::time::Time;

/// The minimum number of changes in a block.
const BLOCK: usize = 16;

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangeKind {
    /// Created.
    Added,
    /// Updated.
    Modified,
    /// Deleted.
    Deleted,
}

/// One change of one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The revision it made.
    pub revision: u64,
    /// When.
    pub at: Time,
    /// The resource of the object.
    pub resource: ResourceName,
    /// The kind of change.
    pub kind: ChangeKind,
    /// The object after the change; for a deletion, its last state.
    pub object: Arc<Value>,
    /// The object before the change.
    pub previous: Option<Arc<Value>>,
}

/// Compressed changes: deflated JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Block {
    last: u64,
    /// When the first and the last of them happened.
    from: Time,
    until: Time,
    #[serde(serialize_with = "write_bytes", deserialize_with = "read_bytes")]
    bytes: Box<[u8]>,
}

fn write_bytes<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

fn read_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<[u8]>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map(Into::into).map_err(serde::de::Error::custom)
}

impl Block {
    /// `None` if there are no changes. Compression in memory does not fail.
    fn pack(changes: &[Change]) -> Option<Self> {
        let (first, last) = (changes.first()?, changes.last()?);
        let text = serde_json::to_vec(changes).ok()?;
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&text).ok()?;
        let bytes = encoder.finish().ok()?.into();
        Some(Self { last: last.revision, from: first.at, until: last.at, bytes })
    }

    fn unpack(&self) -> Vec<Change> {
        let mut text = Vec::new();
        let read = DeflateDecoder::new(&*self.bytes).read_to_end(&mut text);
        read.ok().and_then(|_| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }
}

/// Changes, oldest first, without a gap.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Log {
    /// The last revision that has been compacted.
    compacted: u64,
    packed: VecDeque<Block>,
    /// The changes after the compressed ones.
    changes: VecDeque<Change>,
}

impl Log {
    pub(super) fn revision(&self) -> u64 {
        self.changes.back().map_or(self.begin(), |change| change.revision)
    }

    /// The revision before the first uncompressed change.
    fn begin(&self) -> u64 {
        self.packed.back().map_or(self.compacted, |block| block.last)
    }

    pub(super) fn compacted(&self) -> u64 {
        self.compacted
    }

    pub(super) fn push(&mut self, change: Change) {
        debug_assert_eq!(change.revision, self.revision() + 1, "revisions have no gaps");
        self.changes.push_back(change);
    }

    /// The uncompressed changes after a revision; `None` if that is not all of them.
    pub(super) fn since(&self, revision: u64) -> Option<impl Iterator<Item = &Change>> {
        let skip = revision.checked_sub(self.begin())?;
        let skip = usize::try_from(skip).unwrap_or(usize::MAX).min(self.changes.len());
        Some(self.changes.range(skip..))
    }

    /// All changes after a revision; `None` if some have been compacted.
    pub(super) fn history(&self, revision: u64) -> Option<Vec<Change>> {
        if revision < self.compacted {
            return None;
        }
        let packed = self.packed.iter().filter(|block| block.last > revision);
        let changes = packed.flat_map(Block::unpack).chain(self.changes.iter().cloned());
        Some(changes.filter(|change| change.revision > revision).collect())
    }

    /// When the oldest change happened.
    pub(super) fn oldest(&self) -> Option<Time> {
        let packed = self.packed.front().map(|block| block.from);
        packed.or_else(|| self.changes.front().map(|change| change.at))
    }

    /// The newest revision that is at least that old, at the granularity of blocks.
    pub(super) fn revision_at(&self, time: Time) -> u64 {
        let packed = self.packed.iter().take_while(|block| block.until <= time);
        let packed = packed.last().map_or(self.compacted, |block| block.last);
        if packed < self.begin() {
            return packed;
        }
        let changes = self.changes.iter().take_while(|change| change.at <= time);
        changes.last().map_or(packed, |change| change.revision)
    }

    /// Compresses the changes up to a revision, if there are enough.
    pub(super) fn pack(&mut self, revision: u64) {
        let count = self.changes.partition_point(|change| change.revision <= revision);
        if count < BLOCK {
            return;
        }
        let changes: Vec<Change> = self.changes.drain(..count).collect();
        self.packed.extend(Block::pack(&changes));
        self.changes.shrink_to_fit();
    }

    pub(super) fn compact(&mut self, revision: u64) {
        while self.packed.front().is_some_and(|block| block.last <= revision) {
            self.packed.pop_front();
        }
        if self.packed.is_empty() {
            let count = self.changes.partition_point(|change| change.revision <= revision);
            self.changes.drain(..count);
        }
        self.compacted = self.compacted.max(revision);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::names::NODES;

    fn log(count: u64) -> Log {
        let mut log = Log::default();
        for revision in 1..=count {
            let previous = (revision > 1).then(|| Arc::new(json!({"n": revision - 1})));
            log.push(Change {
                revision,
                at: Time::from_secs(revision),
                resource: NODES,
                kind: ChangeKind::Modified,
                object: Arc::new(json!({"n": revision})),
                previous,
            });
        }
        log
    }

    #[test]
    fn compressed_changes_stay_in_the_history() {
        let (plain, mut packed) = (log(50), log(50));
        packed.pack(20);
        packed.pack(40);
        assert_eq!((packed.packed.len(), packed.changes.len()), (2, 10));
        let text = serde_json::to_string(&packed).unwrap();
        let packed: Log = serde_json::from_str(&text).unwrap();
        assert_eq!(packed.revision(), 50);
        for revision in 0..=50 {
            assert_eq!(packed.history(revision), plain.history(revision), "{revision}");
        }
        assert!(packed.since(39).is_none());
        assert_eq!(packed.since(40).unwrap().count(), 10);
        assert_eq!(packed.oldest(), Some(Time::from_secs(1)));
        assert_eq!(packed.revision_at(Time::from_secs(30)), 20);
        assert_eq!(packed.revision_at(Time::from_secs(45)), 45);
    }

    #[test]
    fn compacted_changes_are_gone() {
        let mut log = log(50);
        log.pack(20);
        log.pack(40);
        log.compact(30);
        assert_eq!((log.compacted(), log.revision()), (30, 50));
        assert_eq!(log.history(29), None);
        assert_eq!(log.history(30).map(|changes| changes.len()), Some(20));
        log.compact(50);
        assert_eq!((log.compacted(), log.revision()), (50, 50));
        assert_eq!(log.history(50), Some(Vec::new()));
    }
}
