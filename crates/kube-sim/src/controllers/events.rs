//! Removes expired events, and the oldest when there are too many.

use super::{Controllers, Kind, manager};
use crate::events::{KEPT, MOST, last};
use crate::names::EVENTS;
use crate::object;
use crate::store::{Change, ChangeKind, DeleteOptions, Store};

impl Controllers {
    pub(super) fn absorb_event(&mut self, change: &Change) {
        let key = |event: &serde_json::Value| {
            let at = last(event).unwrap_or_default();
            (at, object::namespace(event).to_owned(), object::name(event).to_owned())
        };
        if let Some(previous) = &change.previous {
            self.index.events.remove(&key(previous));
        }
        if change.kind != ChangeKind::Deleted {
            self.index.events.insert(key(&change.object));
            self.enqueue(Kind::Events, "", "");
        }
    }

    pub(super) fn forget_events(&mut self, store: &mut Store) {
        let now = store.now();
        let mut left = self.index.events.len();
        let old: Vec<_> = self
            .index
            .events
            .iter()
            .take_while(|(at, ..)| {
                let goes = at.plus(KEPT) <= now || left > MOST;
                left -= usize::from(goes);
                goes
            })
            .cloned()
            .collect();
        for (_, namespace, name) in old {
            let options = DeleteOptions::now();
            let _ = store.delete(&manager(), &EVENTS, &namespace, &name, &options);
        }
        let next = self.index.events.iter().find(|(at, ..)| at.plus(KEPT) > now);
        if let Some(at) = next.map(|(at, ..)| at.plus(KEPT))
            && self.forgets.is_none_or(|planned| planned <= now)
        {
            self.forgets = Some(at);
            self.later(at, Kind::Events, "", "");
        }
    }
}
