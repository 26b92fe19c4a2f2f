//! What acts by itself on the objects: placing pods, rolling out, collecting
//! garbage, emptying namespaces.

pub(crate) mod conditions;

use serde::{Deserialize, Serialize};

use crate::store::Store;
use crate::time::Time;

/// The controllers and what they remember between two looks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Controllers {
    /// The changes up to this revision have been seen.
    seen: u64,
}

impl Controllers {
    /// When something is due by itself next.
    pub fn next_event(&self) -> Option<Time> {
        None
    }

    /// Reacts to what has changed and to the time, [`Store::now`]. Called after
    /// every request and at the time of [`next_event`](Self::next_event).
    pub fn react(&mut self, store: &mut Store) {
        self.seen = store.revision();
    }
}
