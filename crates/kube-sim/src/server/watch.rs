//! Open watches.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::ApiServer;
use super::dispatch::Operation;
use super::list::Selection;
use super::present::View;
use crate::api::{Item, Output, Reply, StreamId};
use crate::names::{LEASES, ResourceName};
use crate::object;
use crate::status::{Cause, Status};
use crate::store::lazy_leases::NODE_LEASES;
use crate::store::{Change, ChangeKind, Store};
use crate::time::Time;

/// How long a watch without `timeoutSeconds` stays open.
const TIMEOUT: Duration = Duration::from_mins(30);

/// The bookmark interval of watches that request bookmarks.
const BOOKMARK: Duration = Duration::from_mins(1);

/// An open watch.
#[derive(Clone, Debug)]
struct Watch {
    view: View,
    resource: ResourceName,
    namespace: String,
    selection: Selection,
    /// Changes up to this revision have been sent.
    seen: u64,
    until: Time,
    bookmark: Option<Time>,
    /// Whether nothing has been sent yet.
    first: bool,
}

/// All open watches.
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

    /// The event type of a change for a watch with a selector.
    fn event(&self, change: &Change) -> Option<&'static str> {
        if change.resource != self.resource {
            return None;
        }
        let before = change.previous.as_ref().is_some_and(|object| self.is_about(object));
        let now = change.kind != ChangeKind::Deleted && self.is_about(&change.object);
        match (before, now) {
            (false, true) => Some("ADDED"),
            (true, true) => Some("MODIFIED"),
            (true, false) => Some("DELETED"),
            (false, false) => None,
        }
    }

    /// The item for a change, if the watch selects it.
    fn tell(&mut self, change: &Change, now: Time, lines: &mut Lines) -> Option<Item> {
        self.seen = change.revision;
        let kind = self.event(change)?;
        let first = std::mem::take(&mut self.first);
        if kind == "DELETED" && change.kind != ChangeKind::Deleted {
            // No longer selected: send the last selected state with the current version.
            let previous = change.previous.as_ref().unwrap_or(&change.object);
            let mut last = previous.as_ref().clone();
            let version = change.revision.to_string();
            object::set(&mut last, &["metadata", "resourceVersion"], version);
            return Some(line(kind, &self.view.event(&last, first, now)));
        }
        if self.view.is_plain() {
            let line = || text_line(kind, &change.object.to_string());
            return Some(lines.entry((change.revision, kind)).or_insert_with(line).clone());
        }
        Some(line(kind, &self.view.event(&change.object, first, now)))
    }
}

fn line(kind: &str, object: &Value) -> Item {
    text_line(kind, &object.to_string())
}

fn text_line(kind: &str, object: &str) -> Item {
    Item::Event(format!("{{\"object\":{object},\"type\":\"{kind}\"}}\n").into())
}

/// Lines shared by many watches: by revision and event type.
type Lines = BTreeMap<(u64, &'static str), Item>;

impl Watches {
    pub(super) fn close(&mut self, stream: StreamId) {
        self.open.remove(&stream);
        self.outputs.retain(|output| output.stream != stream);
    }

    /// Whether any watch selects node leases.
    pub(super) fn want_node_leases(&self) -> bool {
        self.open.values().any(|watch| {
            watch.resource == LEASES && ["", NODE_LEASES].contains(&watch.namespace.as_str())
        })
    }

    pub(super) fn next_event(&self) -> Option<Time> {
        let times = |watch: &Watch| [Some(watch.until), watch.bookmark].into_iter().flatten().min();
        self.open.values().filter_map(times).min()
    }

    pub(super) fn take(&mut self, store: &Store) -> Vec<Output> {
        self.pump(store);
        std::mem::take(&mut self.outputs)
    }

    /// Sends bookmarks and timeouts that are due.
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

    /// Sends the changes to the watches.
    pub(super) fn pump(&mut self, store: &Store) {
        let (now, revision) = (store.now(), store.revision());
        let mut lines = Lines::new();
        for (stream, watch) in self.open.iter_mut().filter(|(_, watch)| watch.seen != revision) {
            let Some(changes) = store.changes_since(watch.seen) else { continue };
            for change in changes {
                if let Some(item) = watch.tell(change, now, &mut lines) {
                    self.outputs.push(Output { stream: *stream, item });
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
        // A streaming list starts with the existing objects; so does a watch without a version.
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
        // History is forgotten up to and including `compacted`; a client at that version misses
        // nothing.
        if !begin && from != 0 && from < self.store.compacted() {
            let why = format!("too old resource version: {from} ({})", self.store.compacted() + 1);
            let item = line("ERROR", &Status::expired(why).to_value());
            self.watches.outputs.push(Output { stream, item });
            self.watches.outputs.push(Output { stream, item: Item::End });
            return Ok(Reply::Watch { stream, content_type });
        }
        let late = if begin { None } else { self.store.history(watch.seen) };
        for change in late.into_iter().flatten() {
            if let Some(item) = watch.tell(&change, now, &mut Lines::new()) {
                self.watches.outputs.push(Output { stream, item });
            }
        }
        if begin {
            let namespace = operation.namespace();
            for (_, stored) in self.store.list_stored(&watch.resource, namespace) {
                if !watch.selection.matches_stored(stored) {
                    continue;
                }
                let first = std::mem::take(&mut watch.first);
                let item = if watch.view.is_plain() {
                    text_line("ADDED", stored.text())
                } else {
                    line("ADDED", &watch.view.event(stored.value(), first, now))
                };
                self.watches.outputs.push(Output { stream, item });
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

/// `sendInitialEvents`, which requires `resourceVersionMatch`.
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
