//! The differences between two objects, field by field.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::set::{FieldSet, parts};
use crate::schema::Schema;

/// Fields that were added, removed or changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

/// Structs that always exist, so that they never count as added.
const STRUCTS: [&str; 6] = ["metadata", "spec", "status", "strategy", "template", "updateStrategy"];

/// The fields of a value and everything in it.
fn everything(value: &Value, schema: Schema<'_>, custom: bool) -> FieldSet {
    let mut set = FieldSet::leaf();
    for (step, item, inner) in parts(value, schema).into_iter().flatten() {
        let mut child = everything(item, inner, custom);
        if let Some(field) = step.strip_prefix("f:")
            && !custom
            && !child.children.is_empty()
            && (STRUCTS.contains(&field) || schema.is_required(field))
        {
            child.member = false;
        }
        set.children.insert(step, child);
    }
    set
}

impl Comparison {
    /// Adds the differences one step below.
    fn put(&mut self, step: &str, below: Self) {
        let Self { added, modified, removed } = below;
        let targets = [&mut self.added, &mut self.modified, &mut self.removed];
        for (target, part) in targets.into_iter().zip([added, modified, removed]) {
            if !part.is_empty() {
                target.children.insert(step.to_owned(), part);
            }
        }
    }
}

/// The fields of a value that is new at a step of `schema`.
fn added(
    step: &str,
    value: &Value,
    schema: Schema<'_>,
    inner: Schema<'_>,
    custom: bool,
) -> FieldSet {
    let mut set = everything(value, inner, custom);
    if let Some(field) = step.strip_prefix("f:")
        && !custom
        && !set.children.is_empty()
        && (STRUCTS.contains(&field) || schema.is_required(field))
    {
        set.member = false;
    }
    set
}

/// The same as [`compare`] for maps: only fields that differ get a name.
fn compare_maps(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    schema: Schema<'_>,
    custom: bool,
) -> Comparison {
    let mut result = Comparison::default();
    for (field, value) in after {
        match before.get(field) {
            Some(old) if old == value => {}
            Some(old) => {
                let below = compare(old, value, schema.field(field), custom);
                result.put(&format!("f:{field}"), below);
            }
            None => {
                let step = format!("f:{field}");
                let set = added(&step, value, schema, schema.field(field), custom);
                result.added.children.insert(step, set);
            }
        }
    }
    for (field, value) in before.iter().filter(|(field, _)| !after.contains_key(*field)) {
        let set = everything(value, schema.field(field), true);
        result.removed.children.insert(format!("f:{field}"), set);
    }
    result
}

/// Compares two values of one schema.
pub(super) fn compare(old: &Value, new: &Value, schema: Schema<'_>, custom: bool) -> Comparison {
    // Most of an object is unchanged, and that check needs no names.
    if old == new {
        return Comparison::default();
    }
    if let (Value::Object(before), Value::Object(after)) = (old, new)
        && !schema.is_atomic()
    {
        return compare_maps(before, after, schema, custom);
    }
    let (Some(old_parts), Some(new_parts)) = (parts(old, schema), parts(new, schema)) else {
        let modified = FieldSet::leaf();
        return Comparison { modified, ..Comparison::default() };
    };
    let mut result = Comparison::default();
    let mut before: BTreeMap<String, &Value> =
        old_parts.into_iter().map(|(step, value, _)| (step, value)).collect();
    for (step, value, inner) in new_parts {
        match before.remove(&step) {
            None => {
                let set = added(&step, value, schema, inner, custom);
                result.added.children.insert(step, set);
            }
            Some(old) => result.put(&step, compare(old, value, inner, custom)),
        }
    }
    for (step, value) in before {
        let inner = match step.strip_prefix("f:") {
            Some(field) => schema.field(field),
            None => schema.items(),
        };
        result.removed.children.insert(step, everything(value, inner, true));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Types;
    use serde_json::json;

    #[test]
    fn differences() {
        let types = Types::default();
        let schema = Schema::of(types.find("", "v1", "nodes").unwrap());
        let old = json!({"metadata": {"labels": {"a": "1", "b": "1"}}, "spec": {"podCIDR": "x"}});
        let new = json!({"metadata": {"labels": {"a": "2", "c": "1"}}, "spec": {"podCIDR": "x"}});
        let found = compare(&old, &new, schema, false);
        assert_eq!(found.modified.to_value(), json!({"f:metadata": {"f:labels": {"f:a": {}}}}));
        assert_eq!(found.added.to_value(), json!({"f:metadata": {"f:labels": {"f:c": {}}}}));
        assert_eq!(found.removed.to_value(), json!({"f:metadata": {"f:labels": {"f:b": {}}}}));
        let found = compare(&json!({}), &new, schema, false);
        assert_eq!(
            found.added.to_value(),
            json!({
                "f:metadata": {"f:labels": {".": {}, "f:a": {}, "f:c": {}}},
                "f:spec": {"f:podCIDR": {}},
            })
        );
    }
}
