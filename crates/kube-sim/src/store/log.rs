//! The history: one change a revision, until it is compacted.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::names::ResourceName;
use crate::time::Time;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It is different.
    Modified,
    /// It is gone.
    Deleted,
}

/// One change of one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The revision it made.
    pub revision: u64,
    /// When.
    pub at: Time,
    /// What the object is.
    pub resource: ResourceName,
    /// What happened.
    pub kind: ChangeKind,
    /// The object as it is since, or was last.
    pub object: Arc<Value>,
    /// The object as it was before.
    pub previous: Option<Arc<Value>>,
}

/// Changes, oldest first, without a gap.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Log {
    /// The last revision that is not in here any more.
    compacted: u64,
    changes: VecDeque<Change>,
}

impl Log {
    pub(super) fn revision(&self) -> u64 {
        self.changes.back().map_or(self.compacted, |change| change.revision)
    }

    pub(super) fn compacted(&self) -> u64 {
        self.compacted
    }

    pub(super) fn push(&mut self, change: Change) {
        debug_assert_eq!(change.revision, self.revision() + 1, "revisions have no gaps");
        self.changes.push_back(change);
    }

    pub(super) fn since(&self, revision: u64) -> Option<impl Iterator<Item = &Change>> {
        let skip = revision.checked_sub(self.compacted)?;
        let skip = usize::try_from(skip).unwrap_or(usize::MAX).min(self.changes.len());
        Some(self.changes.range(skip..))
    }

    pub(super) fn first(&self) -> Option<&Change> {
        self.changes.front()
    }

    pub(super) fn compact(&mut self, revision: u64) {
        while self.changes.front().is_some_and(|change| change.revision <= revision) {
            self.changes.pop_front();
            self.compacted += 1;
        }
    }
}
