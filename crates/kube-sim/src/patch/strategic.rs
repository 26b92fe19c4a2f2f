//! Strategic merge patches: merge patches that know how lists merge.

use serde_json::{Map, Value};

use crate::schema::Schema;

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DELETE_PREFIX: &str = "$deleteFromPrimitiveList/";
const ORDER_PREFIX: &str = "$setElementOrder/";

/// Merges `patch` into `target`. The error goes to the caller.
pub(crate) fn strategic_merge_patch(
    target: &mut Value,
    patch: &Value,
    schema: Schema<'_>,
) -> Result<(), String> {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return Ok(());
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return Ok(()) };
    merge_map(target, patch, schema)
}

fn merge_map(
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    schema: Schema<'_>,
) -> Result<(), String> {
    match patch.get(DIRECTIVE).and_then(Value::as_str) {
        Some("replace") => {
            target.clone_from(patch);
            target.remove(DIRECTIVE);
            return Ok(());
        }
        Some("delete") => {
            target.clear();
            return Ok(());
        }
        Some("merge") | None => {}
        Some(other) => return Err(format!("Unknown patch type found: {other}")),
    }
    if let Some(keys) = patch.get(RETAIN).and_then(Value::as_array) {
        target.retain(|field, _| keys.iter().any(|key| key == field));
    }
    for (field, value) in patch {
        if field == RETAIN || field == DIRECTIVE || field.starts_with(ORDER_PREFIX) {
            continue;
        }
        if let Some(field) = field.strip_prefix(DELETE_PREFIX) {
            if let (Some(Value::Array(list)), Some(gone)) =
                (target.get_mut(field), value.as_array())
            {
                list.retain(|item| !gone.contains(item));
            }
            continue;
        }
        let inner = schema.field(field);
        match value {
            Value::Null => {
                target.remove(field);
            }
            Value::Object(_) if !inner.replaces() => {
                let here = target.entry(field.clone()).or_insert(Value::Null);
                strategic_merge_patch(here, value, inner)?;
            }
            Value::Array(items) if inner.merges() => {
                let here = target.entry(field.clone()).or_insert_with(|| Value::Array(Vec::new()));
                if !here.is_array() {
                    *here = Value::Array(Vec::new());
                }
                if let Value::Array(list) = here {
                    merge_list(list, items, inner)?;
                }
            }
            _ => {
                target.insert(field.clone(), value.clone());
            }
        }
    }
    for (field, order) in patch {
        if let (Some(field), Some(order)) = (field.strip_prefix(ORDER_PREFIX), order.as_array())
            && let Some(Value::Array(list)) = target.get_mut(field)
        {
            put_in_order(list, order, schema.field(field).merge_key());
        }
    }
    Ok(())
}

fn merge_list(list: &mut Vec<Value>, items: &[Value], schema: Schema<'_>) -> Result<(), String> {
    let Some(key) = schema.merge_key() else {
        for item in items {
            if !list.contains(item) {
                list.push(item.clone());
            }
        }
        return Ok(());
    };
    let directive = |item: &Value| item.get(DIRECTIVE).and_then(Value::as_str).map(str::to_owned);
    if items.iter().any(|item| directive(item).as_deref() == Some("replace")) {
        let stays = |item: &&Value| directive(item).is_none();
        *list = items.iter().filter(stays).cloned().collect();
        return Ok(());
    }
    let mut fresh = Vec::new();
    for item in items {
        let Some(wanted) = item.get(key) else {
            return Err(format!("map: {} does not contain declared merge key: {key}", go(item)));
        };
        if directive(item).as_deref() == Some("delete") {
            list.retain(|here| here.get(key) != Some(wanted));
            continue;
        }
        if let Some(here) = list.iter_mut().find(|here| here.get(key) == Some(wanted)) {
            strategic_merge_patch(here, item, schema.items())?;
        } else {
            let mut new = Value::Null;
            strategic_merge_patch(&mut new, item, schema.items())?;
            fresh.push(new);
        }
    }
    *list = interleave(std::mem::take(list), fresh, items, key);
    Ok(())
}

/// Items named in the patch, in its order, between the items it does not name, in theirs. New items
/// directly follow their predecessor in the patch.
fn interleave(list: Vec<Value>, fresh: Vec<Value>, items: &[Value], key: &str) -> Vec<Value> {
    let place = |of: &Value| items.iter().position(|item| item.get(key) == of.get(key));
    let old = list.into_iter().enumerate().map(|(index, item)| (Some(index), item));
    let all = old.chain(fresh.into_iter().map(|item| (None, item)));
    let (mut named, others): (Vec<_>, Vec<_>) = all.partition(|(_, item)| place(item).is_some());
    named.sort_by_key(|(_, item)| place(item));
    let mut result = Vec::new();
    let mut others = others.into_iter().peekable();
    for (index, item) in named {
        while let Some((_, other)) =
            others.next_if(|(other, _)| index.is_some_and(|index| *other < Some(index)))
        {
            result.push(other);
        }
        result.push(item);
    }
    result.extend(others.map(|(_, other)| other));
    result
}

/// A value in Go's print format.
pub(crate) fn go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(go).collect::<Vec<_>>().join(" "))
        }
        Value::Object(map) => {
            let entry = |(key, value): (&String, &Value)| format!("{key}:{}", go(value));
            format!("map[{}]", map.iter().map(entry).collect::<Vec<_>>().join(" "))
        }
        other => other.to_string(),
    }
}

/// Puts the named items in the named order; each other item stays behind its predecessor.
fn put_in_order(list: &mut [Value], order: &[Value], key: Option<&str>) {
    let rank = |item: &Value| {
        order.iter().position(|wanted| match key {
            Some(key) => wanted.get(key) == item.get(key),
            None => wanted == item,
        })
    };
    let mut behind = 0;
    let mut ranks: Vec<(usize, usize)> = Vec::with_capacity(list.len());
    for (index, item) in list.iter().enumerate() {
        behind = rank(item).unwrap_or(behind);
        ranks.push((behind, index));
    }
    ranks.sort_unstable();
    let sorted: Vec<Value> = ranks.iter().map(|(_, index)| list[*index].clone()).collect();
    list.clone_from_slice(&sorted);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Types;
    use serde_json::json;

    fn patched(kind: &str, mut target: Value, patch: &Value) -> Value {
        let types = Types::default();
        let group = if kind == "deployments" { "apps" } else { "" };
        let kind = types.find(group, "v1", kind).unwrap();
        strategic_merge_patch(&mut target, patch, Schema::of(kind)).unwrap();
        target
    }

    #[test]
    fn containers_merge_by_name() {
        let spec =
            |containers: Value| json!({"spec": {"template": {"spec": {"containers": containers}}}});
        let target = spec(json!([{"name": "a", "image": "x", "tty": true}, {"name": "b"}]));
        let patch = spec(json!([{"name": "a", "image": "y"}, {"name": "c"}]));
        let wanted =
            spec(json!([{"name": "a", "image": "y", "tty": true}, {"name": "c"}, {"name": "b"}]));
        assert_eq!(patched("deployments", target, &patch), wanted);
    }

    #[test]
    fn items_are_deleted_and_replaced() {
        let conditions = |list: Value| json!({"status": {"conditions": list}});
        let target = conditions(json!([{"type": "A", "status": "x"}, {"type": "B"}]));
        let patch = conditions(json!([{"type": "A", "$patch": "delete"}]));
        assert_eq!(patched("nodes", target.clone(), &patch), conditions(json!([{"type": "B"}])));
        let patch = conditions(json!([{"type": "C"}, {"$patch": "replace"}]));
        assert_eq!(patched("nodes", target, &patch), conditions(json!([{"type": "C"}])));
    }

    #[test]
    fn plain_lists() {
        let target =
            json!({"metadata": {"finalizers": ["a", "b"]}, "spec": {"taints": [{"key": "k"}]}});
        let patch = json!({
            "metadata": {"finalizers": ["c", "b"], "$deleteFromPrimitiveList/finalizers": ["a"]},
            "spec": {"taints": [{"key": "l"}], "unschedulable": null},
        });
        let wanted =
            json!({"metadata": {"finalizers": ["b", "c"]}, "spec": {"taints": [{"key": "l"}]}});
        assert_eq!(patched("nodes", target, &patch), wanted);
    }

    #[test]
    fn keys_are_retained_and_orders_set() {
        let target = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
        let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
        let wanted = json!({"spec": {"strategy": {"type": "Recreate"}}});
        assert_eq!(patched("deployments", target, &patch), wanted);
        let target = json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}});
        let patch = json!({"spec": {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}],
            "containers": [{"name": "c"}],
        }});
        let wanted = json!({"spec": {"containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}]}});
        assert_eq!(patched("pods", target, &patch), wanted);
    }
}
