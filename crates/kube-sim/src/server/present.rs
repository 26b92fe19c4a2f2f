//! Objects in the version and form that the caller requested.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::negotiate::{Format, Include};
use super::table;
use crate::names::{EVENTS, ResourceName};
use crate::object;
use crate::time::Time;
use crate::types::ResourceType;

/// How a caller sees the objects of a kind.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) kind: Arc<ResourceType>,
    pub(super) version: String,
    pub(super) format: Format,
}

/// Fields of events with another name in `events.k8s.io`.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

impl View {
    /// The resource the objects are stored as: both event groups share one.
    pub(super) fn storage(&self) -> ResourceName {
        if self.is_event_view() { EVENTS } else { self.kind.name.clone() }
    }

    /// Whether callers see objects as stored.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.format, Format::Object | Format::Aggregated)
            && !self.is_event_view()
            && self.version == self.kind.version
    }

    /// A list of objects as stored.
    pub(super) fn plain_list<'a>(
        &self,
        texts: impl Iterator<Item = &'a str>,
        metadata: &Value,
    ) -> String {
        let version = json!(self.kind.api_version());
        let mut list = format!("{{\"apiVersion\":{version},\"items\":[");
        for (index, text) in texts.enumerate() {
            if index > 0 {
                list.push(',');
            }
            if self.kind.definition.is_some() {
                list.push_str(text);
            } else {
                list.push_str(&without_type(text));
            }
        }
        let kind = json!(self.kind.list_kind);
        list.extend([
            "],\"kind\":",
            &kind.to_string(),
            ",\"metadata\":",
            &metadata.to_string(),
            "}",
        ]);
        list
    }

    fn is_event_view(&self) -> bool {
        self.kind.name.group == "events.k8s.io"
    }

    /// Converts an object from the caller to its stored form.
    pub(super) fn incoming(&self, mut object: Value) -> Value {
        if self.is_event_view()
            && let Value::Object(map) = &mut object
        {
            for (stored, seen) in EVENT_FIELDS {
                if let Some(value) = map.remove(seen) {
                    map.insert(stored.to_owned(), value);
                }
            }
        }
        object
    }

    /// Converts an object to the caller's version.
    pub(super) fn outgoing(&self, object: &Value) -> Value {
        let mut object = object.clone();
        if self.is_event_view()
            && let Value::Object(map) = &mut object
        {
            for (stored, seen) in EVENT_FIELDS {
                if let Some(value) = map.remove(stored) {
                    map.insert(seen.to_owned(), value);
                }
            }
        }
        if self.is_event_view() || self.version != self.kind.version {
            object::set(&mut object, &["apiVersion"], self.kind.api_version_of(&self.version));
        }
        object
    }

    /// One object in the caller's form.
    pub(super) fn one(&self, object: &Value, now: Time) -> Value {
        match self.format {
            Format::Object | Format::Aggregated => self.outgoing(object),
            Format::Metadata => partial(object),
            Format::Table(include) => {
                let version = object::text(object, &["metadata", "resourceVersion"]);
                let metadata = json!({"resourceVersion": version});
                self.table([object].into_iter(), include, &metadata, true, now)
            }
        }
    }

    /// A list in the caller's form.
    pub(super) fn many<'a>(
        &self,
        objects: impl Iterator<Item = &'a Value>,
        metadata: &Value,
        now: Time,
    ) -> Value {
        match self.format {
            Format::Object | Format::Aggregated => {
                let item = |object| {
                    let mut item = self.outgoing(object);
                    // The list's kind implies the kind of its items.
                    if self.kind.definition.is_none()
                        && let Value::Object(map) = &mut item
                    {
                        map.remove("apiVersion");
                        map.remove("kind");
                    }
                    item
                };
                let items: Vec<Value> = objects.map(item).collect();
                json!({
                    "kind": self.kind.list_kind,
                    "apiVersion": self.kind.api_version_of(&self.version),
                    "metadata": metadata,
                    "items": items,
                })
            }
            Format::Metadata => {
                let items: Vec<Value> = objects.map(partial).collect();
                json!({
                    "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                    "metadata": metadata, "items": items,
                })
            }
            Format::Table(include) => self.table(objects, include, metadata, true, now),
        }
    }

    /// One object of a watch; only the first table contains the column definitions.
    pub(super) fn event(&self, object: &Value, first: bool, now: Time) -> Value {
        match self.format {
            Format::Table(include) => {
                let version = object::text(object, &["metadata", "resourceVersion"]);
                let metadata = json!({"resourceVersion": version});
                self.table([object].into_iter(), include, &metadata, first, now)
            }
            _ => self.one(object, now),
        }
    }

    /// A bookmark, which only carries a version.
    pub(super) fn bookmark(&self, revision: u64, end: bool) -> Value {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        match self.format {
            Format::Table(_) => json!({
                "kind": "Table", "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": revision.to_string()},
                "columnDefinitions": null,
                "rows": [{"cells": null, "object": {
                    "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                    "metadata": metadata,
                }}],
            }),
            Format::Metadata => json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
            }),
            _ => json!({
                "kind": self.kind.kind,
                "apiVersion": self.kind.api_version_of(&self.version),
                "metadata": metadata,
            }),
        }
    }

    fn table<'a>(
        &self,
        objects: impl Iterator<Item = &'a Value>,
        include: Include,
        metadata: &Value,
        columns: bool,
        now: Time,
    ) -> Value {
        let definitions = table::columns(&self.kind, &self.version);
        let rows: Vec<Value> = objects
            .map(|object| {
                let shown = match include {
                    Include::Metadata => partial(object),
                    Include::Object => self.outgoing(object),
                    Include::Nothing => Value::Null,
                };
                let cells = table::cells(&self.kind, &self.version, object, now);
                let mut row = json!({"cells": cells});
                if !shown.is_null() {
                    row["object"] = shown;
                }
                row
            })
            .collect();
        json!({
            "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
            "columnDefinitions": if columns { json!(definitions) } else { Value::Null },
            "rows": rows,
        })
    }
}

fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
}

/// The JSON text of an item of a built-in kind without `apiVersion` and `kind`, which the list
/// implies. Only the outermost fields are parsed.
fn without_type(text: &str) -> String {
    let fields = serde_json::from_str::<BTreeMap<&str, &RawValue>>(text);
    let mut fields = fields.expect("a stored object is a JSON object");
    fields.remove("apiVersion");
    fields.remove("kind");
    serde_json::to_string(&fields).expect("fields of an object are JSON")
}
