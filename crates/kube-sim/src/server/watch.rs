//! Open watches.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::api::{Item, Output, StreamId};
use crate::names::ResourceName;
use crate::store::{ChangeKind, Store};
use crate::time::Time;

/// One of them.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    pub(super) resource: ResourceName,
    pub(super) namespace: String,
    /// Changes up to here have been told.
    pub(super) seen: u64,
    pub(super) until: Time,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Watches {
    next: u64,
    open: BTreeMap<StreamId, Watch>,
    outputs: Vec<Output>,
}

impl Watches {
    pub(super) fn open(&mut self, watch: Watch) -> StreamId {
        self.next += 1;
        let stream = StreamId(self.next);
        self.open.insert(stream, watch);
        stream
    }

    pub(super) fn send(&mut self, stream: StreamId, kind: &str, object: &Value) {
        let line = format!("{}\n", json!({"type": kind, "object": object}));
        self.outputs.push(Output { stream, item: Item::Event(line.into()) });
    }

    pub(super) fn close(&mut self, stream: StreamId) {
        self.open.remove(&stream);
        self.outputs.retain(|output| output.stream != stream);
    }

    pub(super) fn next_event(&self) -> Option<Time> {
        self.open.values().map(|watch| watch.until).min()
    }

    pub(super) fn take(&mut self, store: &Store) -> Vec<Output> {
        self.pump(store);
        std::mem::take(&mut self.outputs)
    }

    pub(super) fn advance(&mut self, store: &Store) {
        self.pump(store);
        let over: Vec<StreamId> = self
            .open
            .iter()
            .filter(|(_, watch)| watch.until <= store.now())
            .map(|(stream, _)| *stream)
            .collect();
        for stream in over {
            self.open.remove(&stream);
            self.outputs.push(Output { stream, item: Item::End });
        }
    }

    fn pump(&mut self, store: &Store) {
        let mut told = Vec::new();
        for (stream, watch) in &mut self.open {
            let Some(changes) = store.changes_since(watch.seen) else { continue };
            for change in changes {
                watch.seen = change.revision;
                let kind = match change.kind {
                    ChangeKind::Added => "ADDED",
                    ChangeKind::Modified => "MODIFIED",
                    ChangeKind::Deleted => "DELETED",
                };
                let here = crate::object::namespace(&change.object);
                if change.resource == watch.resource
                    && (watch.namespace.is_empty() || watch.namespace == here)
                {
                    told.push((*stream, kind, change.object.clone()));
                }
            }
        }
        for (stream, kind, object) in told {
            self.send(stream, kind, &object);
        }
    }
}
