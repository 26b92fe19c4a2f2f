//! Small accessors for objects, which are plain JSON.

use serde_json::{Map, Value};

/// The value at a path of fields; `None` if any part of the path is missing.
pub fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, field| value.get(field))
}

/// The text at a path; empty if there is none.
pub fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The whole number at a path.
pub fn number(object: &Value, path: &[&str]) -> Option<i64> {
    at(object, path).and_then(Value::as_i64)
}

/// Whether there is `true` at a path.
pub fn flag(object: &Value, path: &[&str]) -> bool {
    at(object, path).and_then(Value::as_bool).unwrap_or_default()
}

/// The list at a path; empty if there is none.
pub fn list<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// `metadata.name`.
pub fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"])
}

/// `metadata.namespace`; empty for cluster-scoped objects.
pub fn namespace(object: &Value) -> &str {
    text(object, &["metadata", "namespace"])
}

/// `metadata.uid`.
pub fn uid(object: &Value) -> &str {
    text(object, &["metadata", "uid"])
}

/// `metadata.resourceVersion`, which is always a number here.
pub fn revision(object: &Value) -> u64 {
    text(object, &["metadata", "resourceVersion"]).parse().unwrap_or_default()
}

/// A label.
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    at(object, &["metadata", "labels", key]).and_then(Value::as_str)
}

/// An annotation.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    at(object, &["metadata", "annotations", key]).and_then(Value::as_str)
}

/// Whether it is being deleted.
pub fn is_deleting(object: &Value) -> bool {
    at(object, &["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null())
}

/// The value as a map; replaces any other value with an empty map.
pub fn map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it was made a map above"),
    }
}

/// `metadata`, created if missing.
pub fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    map(map(object).entry("metadata").or_insert(Value::Null))
}

/// Sets the value at a path, creating maps on the way.
pub fn set(object: &mut Value, path: &[&str], value: impl Into<Value>) {
    let Some((last, way)) = path.split_last() else { return };
    let mut here = object;
    for field in way {
        here = map(here).entry(*field).or_insert(Value::Null);
    }
    map(here).insert((*last).to_owned(), value.into());
}

/// Removes the value at a path; maps that become empty stay.
pub fn remove(object: &mut Value, path: &[&str]) -> Option<Value> {
    let (last, way) = path.split_last()?;
    let mut here = object;
    for field in way {
        here = here.get_mut(*field)?;
    }
    here.as_object_mut()?.remove(*last)
}

/// Whether a map is empty or missing.
pub(crate) fn is_blank(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths() {
        let mut object = json!({"metadata": {"name": "a"}});
        set(&mut object, &["spec", "replicas"], 3);
        assert_eq!(number(&object, &["spec", "replicas"]), Some(3));
        assert_eq!(name(&object), "a");
        assert_eq!(namespace(&object), "");
        assert_eq!(remove(&mut object, &["spec", "replicas"]), Some(json!(3)));
        assert_eq!(remove(&mut object, &["status", "replicas"]), None);
    }
}
