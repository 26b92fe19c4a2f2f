//! JSON patches, RFC 6902.

use serde_json::Value;

/// Applies a list of operations, all or none. The error goes to the caller.
pub(crate) fn json_patch(target: &mut Value, patch: &Value) -> Result<(), String> {
    let operations = patch.as_array().ok_or("a JSON patch is a list of operations")?;
    let mut result = target.clone();
    for operation in operations {
        carry_out(&mut result, operation)?;
    }
    *target = result;
    Ok(())
}

fn carry_out(target: &mut Value, operation: &Value) -> Result<(), String> {
    let text = |field: &str| operation.get(field).and_then(Value::as_str);
    let path = text("path").ok_or("an operation has no path")?;
    let value = || {
        let value = operation.get("value").cloned();
        value.ok_or_else(|| format!("{} operation: missing value", text("op").unwrap_or_default()))
    };
    let from = || text("from").ok_or("an operation has no from");
    match text("op").unwrap_or_default() {
        "add" => add(target, path, value()?),
        "remove" => remove(target, path).map(drop),
        "replace" => {
            let new = value()?;
            let here = target.pointer_mut(path).ok_or_else(|| missing("replace", path))?;
            *here = new;
            Ok(())
        }
        "move" => {
            let taken = remove(target, from()?)?;
            add(target, path, taken)
        }
        "copy" => {
            let from = from()?;
            let copied = target.pointer(from).cloned().ok_or_else(|| missing("copy", from))?;
            add(target, path, copied)
        }
        "test" => {
            let wanted = operation.get("value").unwrap_or(&Value::Null);
            let found = target.pointer(path).unwrap_or(&Value::Null);
            if found == wanted {
                Ok(())
            } else {
                Err(format!("testing value {path} failed: test failed"))
            }
        }
        other => Err(format!("unexpected kind of operation: {other}")),
    }
}

fn missing(operation: &str, path: &str) -> String {
    format!("{operation} operation does not apply: doc is missing path: {path}: missing value")
}

/// The container at a path, and the last step of the path.
fn parent<'a>(target: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let (way, last) = path.rsplit_once('/')?;
    let last = last.replace("~1", "/").replace("~0", "~");
    Some((target.pointer_mut(way)?, last))
}

fn add(target: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        *target = value;
        return Ok(());
    }
    match parent(target, path).ok_or_else(|| missing("add", path))? {
        (Value::Object(map), last) => {
            map.insert(last, value);
            Ok(())
        }
        (Value::Array(items), last) if last == "-" => {
            items.push(value);
            Ok(())
        }
        (Value::Array(items), last) => match last.parse::<usize>() {
            Ok(index) if index <= items.len() => {
                items.insert(index, value);
                Ok(())
            }
            _ => Err(missing("add", path)),
        },
        _ => Err(missing("add", path)),
    }
}

fn remove(target: &mut Value, path: &str) -> Result<Value, String> {
    let taken = match parent(target, path).ok_or_else(|| missing("remove", path))? {
        (Value::Object(map), last) => map.remove(&last),
        (Value::Array(items), last) => {
            let index = last.parse::<usize>().ok().filter(|index| *index < items.len());
            index.map(|index| items.remove(index))
        }
        _ => None,
    };
    taken.ok_or_else(|| missing("remove", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_operation() {
        let mut target = json!({"a": [1, 2], "b/c": {"d": 1}});
        let patch = json!([
            {"op": "test", "path": "/a/0", "value": 1},
            {"op": "add", "path": "/a/1", "value": 9},
            {"op": "add", "path": "/a/-", "value": 3},
            {"op": "remove", "path": "/a/0"},
            {"op": "replace", "path": "/b~1c/d", "value": 2},
            {"op": "copy", "from": "/b~1c/d", "path": "/e"},
            {"op": "move", "from": "/b~1c", "path": "/f"},
        ]);
        json_patch(&mut target, &patch).unwrap();
        assert_eq!(target, json!({"a": [9, 2, 3], "e": 2, "f": {"d": 2}}));
    }

    #[test]
    fn all_or_nothing() {
        let mut target = json!({"a": 1});
        let patch = json!([
            {"op": "replace", "path": "/a", "value": 2},
            {"op": "test", "path": "/a", "value": 1},
        ]);
        assert!(json_patch(&mut target, &patch).is_err());
        assert_eq!(target, json!({"a": 1}));
        assert!(json_patch(&mut target, &json!([{"op": "remove", "path": "/x"}])).is_err());
    }
}
