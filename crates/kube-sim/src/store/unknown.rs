//! Unknown fields and values of the wrong type.

use serde_json::Value;

use crate::schema::Schema;

/// Removes unknown fields and returns their names.
pub(crate) fn prune(value: &mut Value, schema: Schema<'_>) -> Vec<String> {
    let mut unknown = Vec::new();
    walk(value, schema, "", &mut unknown);
    unknown
}

fn walk(value: &mut Value, schema: Schema<'_>, path: &str, unknown: &mut Vec<String>) {
    if !schema.is_known() {
        return;
    }
    match value {
        Value::Object(map) => {
            map.retain(|field, _| {
                let known = schema.allows(field);
                if !known {
                    unknown.push(join(path, field));
                }
                known
            });
            for (field, inner) in map {
                walk(inner, schema.field(field), &join(path, field), unknown);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                walk(item, schema.items(), &format!("{path}[{index}]"), unknown);
            }
        }
        _ => {}
    }
}

pub(super) fn join(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

/// The first value of a wrong type, in the wording of the decoder of built-in kinds.
pub(crate) fn mistyped(value: &Value, schema: Schema<'_>, kind: &str) -> Option<String> {
    find(value, schema, kind, "")
}

/// Go's name for the type of a field.
fn go_type(schema: Schema<'_>) -> String {
    if let Some(reference) = schema.reference() {
        let parts: Vec<&str> = reference.rsplitn(3, '.').collect();
        if let [name, version, _] = parts.as_slice() {
            return format!("{version}.{name}");
        }
    }
    match schema.type_name() {
        "boolean" => "bool".to_owned(),
        "integer" if schema.keyword("format").is_some_and(|format| format == "int32") => {
            "int32".to_owned()
        }
        "integer" => "int64".to_owned(),
        "array" => format!("[]{}", go_type(schema.items())),
        "object" => format!("map[string]{}", go_type(schema.field("any"))),
        other => other.to_owned(),
    }
}

/// `owner` is the struct at the end of `path`, which starts at the root.
fn find(value: &Value, schema: Schema<'_>, owner: &str, path: &str) -> Option<String> {
    let wanted = schema.type_name();
    let (found, right) = match value {
        Value::Null => return None,
        Value::Bool(_) => ("bool", wanted == "boolean"),
        Value::Number(_) => ("number", wanted == "integer" || wanted == "number"),
        Value::String(_) => ("string", wanted == "string"),
        Value::Array(_) => ("array", wanted == "array"),
        Value::Object(_) => ("object", wanted == "object"),
    };
    if !wanted.is_empty() && !right {
        return Some(format!(
            "json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {}",
            go_type(schema)
        ));
    }
    let named = schema.reference().filter(|_| schema.fields().is_some());
    let owner = named.and_then(|name| name.rsplit('.').next()).unwrap_or(owner);
    match value {
        Value::Object(map) => map.iter().find_map(|(field, inner)| {
            let deeper =
                if schema.fields().is_some() { join(path, field) } else { path.to_owned() };
            find(inner, schema.field(field), owner, &deeper)
        }),
        Value::Array(items) => {
            items.iter().find_map(|item| find(item, schema.items(), owner, path))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Types;
    use serde_json::json;

    #[test]
    fn unknown_fields_are_removed_and_named() {
        let types = Types::default();
        let schema = Schema::of(types.find("", "v1", "pods").unwrap());
        let mut pod = json!({
            "metadata": {"labels": {"any": "thing"}}, "foo": 1,
            "spec": {"containers": [{"name": "a", "imag": "b"}]},
        });
        assert_eq!(prune(&mut pod, schema), ["foo", "spec.containers[0].imag"]);
        assert_eq!(pod["spec"]["containers"], json!([{"name": "a"}]));
    }

    #[test]
    fn wrong_types_are_reported() {
        let types = Types::default();
        let schema = Schema::of(types.find("", "v1", "configmaps").unwrap());
        let error = mistyped(&json!({"data": {"a": 1}}), schema, "ConfigMap");
        assert_eq!(
            error.as_deref(),
            Some(
                "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
            )
        );
    }
}
