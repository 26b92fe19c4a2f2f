//! Server-side apply.

use serde_json::{Map, Value};

use super::compare::{Comparison, compare};
use super::managed::{self, Entry};
use super::set::{FieldSet, item_step, parts};
use crate::schema::{ListType, Schema};
use crate::status::{Cause, Status};
use crate::types::ResourceType;

/// The manager that applies, and its options.
pub(crate) struct Manager<'a> {
    pub(crate) name: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) force: bool,
    pub(crate) time: &'a str,
}

/// Applies a configuration to an object, or creates one from it.
pub(crate) fn apply(
    kind: &ResourceType,
    live: Option<&Value>,
    config: &Value,
    manager: &Manager<'_>,
) -> Result<Value, Status> {
    let schema = Schema::of(kind);
    let empty = Value::Object(Map::new());
    let live = live.unwrap_or(&empty);
    let mut entries = managed::read(live);
    let mut applied = FieldSet::of(config, schema);
    managed::strip(&mut applied);
    let mut config = config.clone();
    crate::object::remove(&mut config, &["metadata", "managedFields"]);
    crate::object::remove(&mut config, &["metadata", "resourceVersion"]);
    let mut object = live.clone();
    merge(&mut object, &config, schema);
    let mine = Entry {
        manager: manager.name.to_owned(),
        operation: "Apply".to_owned(),
        api_version: kind.api_version(),
        subresource: manager.subresource.to_owned(),
        time: manager.time.to_owned(),
        set: applied,
    };
    let mut comparison = compare(live, &object, schema, kind.definition.is_some());
    let Comparison { added, modified, removed } = &mut comparison;
    for set in [&mut *added, &mut *modified, &mut *removed] {
        managed::strip(set);
    }
    let changed = added.union(modified);
    let last = entries.iter().find(|entry| entry.is_of(&mine)).map(|entry| entry.set.clone());
    entries.retain(|entry| !entry.is_of(&mine));
    let mut conflicts: Vec<(String, FieldSet)> = Vec::new();
    for entry in &mut entries {
        let conflict = entry.set.intersection(&changed);
        if !conflict.is_empty() {
            conflicts.push((described(entry), conflict.clone()));
            entry.set = entry.set.difference(&conflict);
        }
        entry.set = entry.set.difference(removed);
    }
    if !conflicts.is_empty() && !manager.force {
        return Err(conflict(&conflicts));
    }
    if let Some(last) = last {
        let owners: Vec<&FieldSet> =
            entries.iter().map(|entry| &entry.set).chain([&mine.set]).collect();
        prune(&mut object, &last.difference(&mine.set), &owners, schema);
    }
    let unchanged = managed::read(live)
        .into_iter()
        .find(|entry| entry.is_of(&mine) && entry.set == mine.set)
        .map(|entry| entry.time);
    let mine = Entry { time: unchanged.unwrap_or_else(|| mine.time.clone()), ..mine };
    entries.push(mine);
    managed::write(&mut object, entries);
    Ok(object)
}

fn merge(live: &mut Value, config: &Value, schema: Schema<'_>) {
    match (&mut *live, config) {
        (Value::Object(here), Value::Object(wanted)) if !schema.is_atomic() => {
            for (field, value) in wanted {
                let inner = schema.field(field);
                match here.get_mut(field) {
                    Some(old) => merge(old, value, inner),
                    None => drop(here.insert(field.clone(), value.clone())),
                }
            }
        }
        (Value::Array(here), Value::Array(wanted)) => {
            let list = schema.list_type();
            let inner = schema.items();
            if list == ListType::Atomic {
                *live = config.clone();
                return;
            }
            for item in wanted {
                let step = item_step(item, &list, inner);
                match here.iter_mut().find(|old| item_step(old, &list, inner) == step) {
                    Some(old) => merge(old, item, inner),
                    None => here.push(item.clone()),
                }
            }
        }
        _ => *live = config.clone(),
    }
}

/// Removes fields that were applied before and no longer are, unless another manager still owns
/// them or something in them.
fn prune(object: &mut Value, gone: &FieldSet, owners: &[&FieldSet], schema: Schema<'_>) {
    let mut paths = gone.paths();
    // Remove whole items first: an item cannot be found without its keys.
    paths.sort_by_key(Vec::len);
    for path in paths {
        let owned = owners.iter().any(|set| set.at(&path).is_some());
        if !owned {
            remove(object, &path, schema);
        }
    }
}

fn remove(value: &mut Value, path: &[String], schema: Schema<'_>) {
    let Some((step, rest)) = path.split_first() else { return };
    match value {
        Value::Object(map) => {
            let Some(field) = step.strip_prefix("f:") else { return };
            if rest.is_empty() {
                map.remove(field);
            } else if let Some(inner) = map.get_mut(field) {
                remove(inner, rest, schema.field(field));
                // Remove a list or map that has become empty.
                if parts(inner, schema.field(field)).is_some_and(|parts| parts.is_empty()) {
                    map.remove(field);
                }
            }
        }
        Value::Array(items) => {
            let list = schema.list_type();
            let inner = schema.items();
            let is_it = |item: &Value| item_step(item, &list, inner).as_deref() == Some(step);
            if rest.is_empty() {
                items.retain(|item| !is_it(item));
            } else if let Some(item) = items.iter_mut().find(|item| is_it(item)) {
                remove(item, rest, inner);
            }
        }
        _ => {}
    }
}

/// `"kubectl" with subresource "scale" using apps/v1`, the form used in messages.
fn described(entry: &Entry) -> String {
    let mut words = format!("{:?}", entry.manager);
    if !entry.subresource.is_empty() {
        words = format!("{words} with subresource {:?}", entry.subresource);
    }
    if entry.operation == "Update" {
        words = format!("{words} using {}", entry.api_version);
    }
    words
}

fn conflict(conflicts: &[(String, FieldSet)]) -> Status {
    let mut causes = Vec::new();
    let mut by_manager: Vec<(String, Vec<String>)> = Vec::new();
    for (manager, set) in conflicts {
        let fields: Vec<String> = set.paths().iter().map(|path| dotted(path)).collect();
        for field in &fields {
            causes.push(Cause {
                reason: "FieldManagerConflict",
                message: format!("conflict with {manager}"),
                field: field.clone(),
            });
        }
        by_manager.push((manager.clone(), fields));
    }
    let count = causes.len();
    let words = match by_manager.as_slice() {
        [(manager, fields)] if fields.len() == 1 => {
            format!("conflict with {manager}: {}", fields[0])
        }
        many => {
            let lines: Vec<String> = many
                .iter()
                .map(|(manager, fields)| {
                    format!("conflicts with {manager}:\n- {}", fields.join("\n- "))
                })
                .collect();
            lines.join("\n")
        }
    };
    let plural = if count == 1 { "conflict" } else { "conflicts" };
    Status::apply_conflict(format!("Apply failed with {count} {plural}: {words}"), causes)
}

/// `.spec.containers[name="a"].image`
fn dotted(path: &[String]) -> String {
    let mut text = String::new();
    for step in path {
        if let Some(field) = step.strip_prefix("f:") {
            text.push('.');
            text.push_str(field);
        } else if let Some(keys) = step.strip_prefix("k:") {
            let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let keys: Vec<String> =
                keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
            text.extend(["[", &keys.join(","), "]"]);
        } else if let Some(value) = step.strip_prefix("v:") {
            text.extend(["[=", value, "]"]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Types;
    use serde_json::json;

    fn go(live: Option<&Value>, config: &Value, name: &str, force: bool) -> Result<Value, Status> {
        let types = Types::default();
        let kind = types.find("apps", "v1", "deployments").unwrap();
        let manager = Manager { name, subresource: "", force, time: "2026-01-02T03:04:05Z" };
        apply(kind, live, config, &manager)
    }

    fn config(containers: &Value) -> Value {
        json!({"spec": {"template": {"spec": {"containers": containers}}}})
    }

    fn containers(object: &Value) -> &Value {
        &object["spec"]["template"]["spec"]["containers"]
    }

    #[test]
    fn fields_no_longer_applied_are_removed() {
        let first = config(&json!([{"name": "a", "image": "x", "tty": true}, {"name": "b"}]));
        let live = go(None, &first, "me", false).unwrap();
        let second = config(&json!([{"name": "a", "image": "y"}]));
        let live = go(Some(&live), &second, "me", false).unwrap();
        assert_eq!(containers(&live), &json!([{"name": "a", "image": "y"}]));
    }

    #[test]
    fn fields_of_other_managers_stay() {
        let mine = config(&json!([{"name": "a", "image": "x"}]));
        let live = go(None, &mine, "me", false).unwrap();
        let theirs = json!({"metadata": {"labels": {"l": "1"}}});
        let live = go(Some(&live), &theirs, "them", false).unwrap();
        let live = go(Some(&live), &mine, "me", false).unwrap();
        assert_eq!(live["metadata"]["labels"], json!({"l": "1"}));
        let live = go(Some(&live), &json!({}), "them", false).unwrap();
        assert_eq!(live["metadata"].get("labels"), None);
    }

    #[test]
    fn a_conflict_names_manager_and_field() {
        let live = go(None, &config(&json!([{"name": "a", "image": "x"}])), "them", false).unwrap();
        let mine = config(&json!([{"name": "a", "image": "y"}]));
        let error = go(Some(&live), &mine, "me", false).unwrap_err();
        assert_eq!(
            error.message,
            "Apply failed with 1 conflict: conflict with \"them\": \
             .spec.template.spec.containers[name=\"a\"].image"
        );
        let live = go(Some(&live), &mine, "me", true).unwrap();
        assert_eq!(containers(&live), &json!([{"name": "a", "image": "y"}]));
        // The manager that lost the field no longer owns it and gets no conflict.
        go(Some(&live), &mine, "me", false).unwrap();
    }

    #[test]
    fn managers_that_apply_the_same_value_share_it() {
        let config = config(&json!([{"name": "a", "image": "x"}]));
        let live = go(None, &config, "them", false).unwrap();
        let live = go(Some(&live), &config, "me", false).unwrap();
        let live = go(Some(&live), &json!({}), "me", false).unwrap();
        assert_eq!(containers(&live), &json!([{"name": "a", "image": "x"}]));
    }
}
