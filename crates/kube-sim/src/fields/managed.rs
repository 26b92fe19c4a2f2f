//! `metadata.managedFields`: reading, writing, and updating them after plain writes.

use serde_json::{Value, json};

use super::compare::{Comparison, compare};
use super::set::FieldSet;
use crate::object;
use crate::schema::Schema;
use crate::types::ResourceType;

/// The fields of one manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) manager: String,
    pub(super) operation: String,
    pub(super) api_version: String,
    pub(super) subresource: String,
    pub(super) time: String,
    pub(super) set: FieldSet,
}

impl Entry {
    pub(super) fn is_of(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.api_version == other.api_version
            && self.subresource == other.subresource
    }

    fn to_value(&self) -> Value {
        let Self { manager, operation, api_version, subresource, time, set } = self;
        let mut value = json!({
            "manager": manager, "operation": operation, "apiVersion": api_version, "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": set.to_value(),
        });
        if !subresource.is_empty() {
            value["subresource"] = json!(subresource);
        }
        value
    }
}

/// The managers of an object.
pub(super) fn read(object: &Value) -> Vec<Entry> {
    let text = |entry: &Value, field: &str| object::text(entry, &[field]).to_owned();
    object::list(object, &["metadata", "managedFields"])
        .iter()
        .map(|entry| Entry {
            manager: text(entry, "manager"),
            operation: text(entry, "operation"),
            api_version: text(entry, "apiVersion"),
            subresource: text(entry, "subresource"),
            time: text(entry, "time"),
            set: entry.get("fieldsV1").map(FieldSet::from_value).unwrap_or_default(),
        })
        .collect()
}

/// Writes the managers of an object in canonical order.
pub(super) fn write(object: &mut Value, mut entries: Vec<Entry>) {
    entries.retain(|entry| !entry.set.is_empty());
    entries.sort_by(|one, other| {
        let key = |entry: &Entry| {
            (
                entry.operation.clone(),
                entry.time.clone(),
                entry.manager.clone(),
                entry.api_version.clone(),
                entry.subresource.clone(),
            )
        };
        key(one).cmp(&key(other))
    });
    if entries.is_empty() {
        object::remove(object, &["metadata", "managedFields"]);
    } else {
        let entries: Vec<Value> = entries.iter().map(Entry::to_value).collect();
        object::set(object, &["metadata", "managedFields"], entries);
    }
}

/// Removes fields that are never owned.
pub(super) fn strip(set: &mut FieldSet) {
    set.member = false;
    set.children.remove("f:apiVersion");
    set.children.remove("f:kind");
    for field in [
        "f:name",
        "f:namespace",
        "f:creationTimestamp",
        "f:selfLink",
        "f:uid",
        "f:clusterName",
        "f:generation",
        "f:managedFields",
        "f:resourceVersion",
        "f:deletionTimestamp",
        "f:deletionGracePeriodSeconds",
    ] {
        set.remove(&["f:metadata", field]);
    }
    if let Some(metadata) = set.children.get_mut("f:metadata") {
        metadata.member = false;
    }
    set.children.retain(|_, child| !child.is_empty());
}

/// Whether a caller resets all ownership: one empty entry.
fn is_reset(object: &Value) -> bool {
    matches!(object::list(object, &["metadata", "managedFields"]), [one] if object::is_blank(Some(one)))
}

/// The frequent case: a manager changes only fields that it owns alone, such as a kubelet that
/// repeats the node's status. Then only the time changes; `false` in all other cases.
fn track_own(
    kind: &ResourceType,
    old: &Value,
    new: &mut Value,
    manager: &str,
    subresource: &str,
    time: &str,
) -> bool {
    let entries = object::list(new, &["metadata", "managedFields"]);
    if entries.is_empty() || entries != object::list(old, &["metadata", "managedFields"]) {
        return false;
    }
    let version = kind.api_version();
    let is_mine = |entry: &Value| {
        object::text(entry, &["manager"]) == manager
            && object::text(entry, &["operation"]) == "Update"
            && object::text(entry, &["apiVersion"]) == version
            && object::text(entry, &["subresource"]) == subresource
    };
    let Some(mine) = entries.iter().position(is_mine) else { return false };
    let Comparison { mut added, mut modified, mut removed } =
        compare(old, new, Schema::of(kind), kind.definition.is_some());
    for set in [&mut added, &mut modified, &mut removed] {
        strip(set);
    }
    if !added.is_empty() || !removed.is_empty() {
        return false;
    }
    let alone = entries.iter().enumerate().all(|(index, entry)| {
        let fields = entry.get("fieldsV1").unwrap_or(&Value::Null);
        if index == mine {
            modified.is_covered_by(fields, true)
        } else {
            !modified.is_met_by(fields, true)
        }
    });
    if !alone {
        return false;
    }
    if !modified.is_empty()
        && let Some(Value::Array(entries)) = object::metadata(new).get_mut("managedFields")
    {
        object::set(&mut entries[mine], &["time"], time);
        let key = |entry: &Value| {
            ["operation", "time", "manager", "apiVersion", "subresource"]
                .map(|field| object::text(entry, &[field]).to_owned())
        };
        entries.sort_by_cached_key(key);
    }
    true
}

/// Keeps `managedFields` of `new` after a plain write by `manager`.
///
/// An object without tracked ownership stays untracked until it is applied.
pub(crate) fn track(
    kind: &ResourceType,
    old: Option<&Value>,
    new: &mut Value,
    manager: &str,
    subresource: &str,
    time: &str,
) {
    if is_reset(new) {
        object::remove(new, &["metadata", "managedFields"]);
        return;
    }
    if let Some(old) = old
        && track_own(kind, old, new, manager, subresource, time)
    {
        return;
    }
    let given = read(new);
    let mut entries = match old {
        Some(old) if given.is_empty() => read(old),
        Some(_) => given,
        None => Vec::new(),
    };
    if old.is_some() && entries.is_empty() {
        object::remove(new, &["metadata", "managedFields"]);
        return;
    }
    let schema = Schema::of(kind);
    let empty = json!({"metadata": {}});
    let mut comparison = compare(old.unwrap_or(&empty), new, schema, kind.definition.is_some());
    let Comparison { added, modified, removed } = &mut comparison;
    for set in [&mut *added, &mut *modified, &mut *removed] {
        strip(set);
    }
    let changed = added.union(modified);
    let mine = Entry {
        manager: manager.to_owned(),
        operation: "Update".to_owned(),
        api_version: kind.api_version(),
        subresource: subresource.to_owned(),
        time: time.to_owned(),
        set: FieldSet::default(),
    };
    for entry in &mut entries {
        if entry.set.meets(removed) {
            entry.set = entry.set.difference(removed);
        }
        if !entry.is_of(&mine) && entry.set.meets(&changed) {
            entry.set = entry.set.difference(&changed);
        }
    }
    if !changed.is_empty() {
        match entries.iter_mut().find(|entry| entry.is_of(&mine)) {
            Some(entry) => {
                if !entry.set.covers(&changed) {
                    entry.set = entry.set.union(&changed);
                }
                entry.time = mine.time;
            }
            None => entries.push(Entry { set: changed, ..mine }),
        }
    }
    write(new, entries);
}
