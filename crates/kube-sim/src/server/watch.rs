//! Open watches.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::ApiServer;
use super::dispatch::Operation;
use super::list::Selection;
use super::present::View;
use crate::api::{Item, Output, Reply, StreamId};
use crate::names::ResourceName;
use crate::object;
use crate::status::{Cause, Status};
use crate::store::{Change, ChangeKind, Store};
use crate::time::Time;

/// How long a watch without `timeoutSeconds` stays open.
const TIMEOUT: Duration = Duration::from_mins(30);

/// How often those who want bookmarks get one.
const BOOKMARK: Duration = Duration::from_mins(1);

/// One of them.
#[derive(Clone, Debug)]
struct Watch {
    view: View,
    resource: ResourceName,
    namespace: String,
    selection: Selection,
    /// Changes up to here have been told.
    seen: u64,
    until: Time,
    bookmark: Option<Time>,
    /// Whether nothing has been told yet.
    first: bool,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Watches {
    next: u64,
    open: BTreeMap<StreamId, Watch>,
    outputs: Vec<Output>,
}

impl Watch {
    fn is_about(&self, object: &Value) -> bool {
        (self.namespace.is_empty() || self.namespace == object::namespace(object))
            && self.selection.matches(object)
    }

    /// What a change is to somebody who only knows what is selected.
    fn event<'a>(&self, change: &'a Change) -> Option<(&'static str, &'a Value)> {
        if change.resource != self.resource {
            return None;
        }
        let before = change.previous.as_ref().is_some_and(|object| self.is_about(object));
        let now = change.kind != ChangeKind::Deleted && self.is_about(&change.object);
        match (before, now) {
            (false, true) => Some(("ADDED", &change.object)),
            (true, true) => Some(("MODIFIED", &change.object)),
            (true, false) => Some(("DELETED", &change.object)),
            (false, false) => None,
        }
    }
}

fn line(kind: &str, object: &Value) -> Item {
    Item::Event(format!("{}\n", json!({"type": kind, "object": object})).into())
}

impl Watches {
    pub(super) fn close(&mut self, stream: StreamId) {
        self.open.remove(&stream);
        self.outputs.retain(|output| output.stream != stream);
    }

    pub(super) fn next_event(&self) -> Option<Time> {
        let times = |watch: &Watch| [Some(watch.until), watch.bookmark].into_iter().flatten().min();
        self.open.values().filter_map(times).min()
    }

    pub(super) fn take(&mut self, store: &Store) -> Vec<Output> {
        self.pump(store);
        std::mem::take(&mut self.outputs)
    }

    /// Bookmarks and timeouts that are due.
    pub(super) fn advance(&mut self, store: &Store) {
        self.pump(store);
        let now = store.now();
        for (stream, watch) in &mut self.open {
            if watch.bookmark.is_some_and(|at| at <= now) {
                watch.bookmark = Some(now.plus(BOOKMARK));
                let item = line("BOOKMARK", &watch.view.bookmark(watch.seen, false));
                self.outputs.push(Output { stream: *stream, item });
            }
        }
        let outputs = &mut self.outputs;
        self.open.retain(|stream, watch| {
            let stays = watch.until > now;
            if !stays {
                outputs.push(Output { stream: *stream, item: Item::End });
            }
            stays
        });
    }

    /// Tells what has changed.
    pub(super) fn pump(&mut self, store: &Store) {
        for (stream, watch) in &mut self.open {
            let Some(changes) = store.changes_since(watch.seen) else { continue };
            for change in changes {
                watch.seen = change.revision;
                if let Some((kind, object)) = watch.event(change) {
                    let mut shown = watch.view.event(object, watch.first, store.now());
                    if kind == "DELETED" && change.kind != ChangeKind::Deleted {
                        // It is not selected any more: told as it was, at the
                        // version of now.
                        let previous = change.previous.as_ref().unwrap_or(&change.object);
                        let mut last = previous.as_ref().clone();
                        let version = change.revision.to_string();
                        object::set(&mut last, &["metadata", "resourceVersion"], version);
                        shown = watch.view.event(&last, watch.first, store.now());
                    }
                    watch.first = false;
                    self.outputs.push(Output { stream: *stream, item: line(kind, &shown) });
                }
            }
        }
    }
}

impl ApiServer {
    pub(super) fn watch(&mut self, operation: &Operation<'_>) -> Result<Reply, Status> {
        let query = &operation.query;
        let view = operation.view.clone();
        let bookmarks = query.flag("allowWatchBookmarks");
        let initial = check_initial(operation)?;
        let text = query.get("resourceVersion");
        let from: u64 = match text {
            "" => 0,
            text => text.parse().map_err(|_| {
                Status::failure(format!(
                    "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: \
                     invalid syntax"
                ))
            })?,
        };
        let current = self.store.revision();
        let timeout = query.get("timeoutSeconds").parse().map_or(TIMEOUT, Duration::from_secs);
        let now = self.store.now();
        // A list that streams begins with what there is; so does a watch from
        // nowhere.
        let begin = initial.unwrap_or(from == 0);
        let mut watch = Watch {
            resource: view.storage(),
            namespace: operation.target.namespace.clone(),
            selection: Selection::of(operation)?,
            seen: if begin || from == 0 { current } else { from },
            until: now.plus(timeout),
            bookmark: bookmarks.then(|| now.plus(BOOKMARK)),
            first: true,
            view,
        };
        self.watches.next += 1;
        let stream = StreamId(self.watches.next);
        let content_type = "application/json";
        // History is forgotten up to and including `compacted`; whoever knows
        // that version misses nothing.
        if !begin && from != 0 && from < self.store.compacted() {
            let why = format!("too old resource version: {from} ({})", self.store.compacted() + 1);
            let item = line("ERROR", &Status::expired(why).to_value());
            self.watches.outputs.push(Output { stream, item });
            self.watches.outputs.push(Output { stream, item: Item::End });
            return Ok(Reply::Watch { stream, content_type });
        }
        if begin {
            let namespace = operation.namespace();
            for object in self.store.list(&watch.resource, namespace) {
                if watch.selection.matches(object) {
                    let shown = watch.view.event(object, watch.first, now);
                    watch.first = false;
                    self.watches.outputs.push(Output { stream, item: line("ADDED", &shown) });
                }
            }
            if initial == Some(true) && bookmarks {
                let item = line("BOOKMARK", &watch.view.bookmark(current, true));
                self.watches.outputs.push(Output { stream, item });
            }
        }
        self.watches.open.insert(stream, watch);
        Ok(Reply::Watch { stream, content_type })
    }
}

/// `sendInitialEvents`, which may only be said together with how.
fn check_initial(operation: &Operation<'_>) -> Result<Option<bool>, Status> {
    let query = &operation.query;
    let forbidden = |field: &str, why: &str| {
        Status::invalid("meta.k8s.io", "ListOptions", "", vec![Cause::forbidden(field, why)])
    };
    let matching = query.get("resourceVersionMatch");
    if !query.has("sendInitialEvents") {
        if !matching.is_empty() {
            let why =
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            return Err(forbidden("resourceVersionMatch", why));
        }
        return Ok(None);
    }
    if matching != "NotOlderThan" {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        return Err(forbidden("resourceVersionMatch", why));
    }
    Ok(Some(query.flag("sendInitialEvents")))
}
