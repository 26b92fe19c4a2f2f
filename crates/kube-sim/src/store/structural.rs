//! Structural schemas of custom resources: defaults and validation.

use serde_json::{Value, json};

use super::unknown::join;
use crate::schema::Schema;
use crate::status::Cause;
use crate::types::ResourceType;

/// Prunes fields outside the schema, sets defaults, and collects errors.
pub(super) fn complete(kind: &ResourceType, new: &mut Value, causes: &mut Vec<Cause>) {
    let schema = Schema::of(kind);
    super::unknown::prune(new, schema);
    fill(new, schema);
    check(new, schema, "", causes);
}

fn fill(value: &mut Value, schema: Schema<'_>) {
    match value {
        Value::Object(map) => {
            for (field, inner) in schema.fields().into_iter().flatten() {
                if let Some(default) = inner.get("default")
                    && map.get(field).is_none_or(|value| {
                        value.is_null() && inner.get("nullable") != Some(&json!(true))
                    })
                {
                    map.insert(field.clone(), default.clone());
                }
            }
            for (field, inner) in map {
                fill(inner, schema.field(field));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, schema.items())),
        _ => {}
    }
}

fn check(value: &Value, schema: Schema<'_>, path: &str, causes: &mut Vec<Cause>) {
    if path == "metadata" || !schema.is_known() {
        return;
    }
    if !has_type(value, schema) {
        let shown = if value.is_null() { "null" } else { type_of(value) };
        causes.push(Cause {
            reason: "FieldValueTypeInvalid",
            message: format!(
                "Invalid value: {:?}: {path} in body must be of type {}: {:?}",
                shown,
                schema.type_name(),
                shown
            ),
            field: path.to_owned(),
        });
        return;
    }
    limits(value, schema, path, causes);
    match value {
        Value::Object(map) => {
            let required = schema.keyword("required").and_then(Value::as_array);
            for field in required.into_iter().flatten().filter_map(Value::as_str) {
                if !map.contains_key(field) {
                    causes.push(Cause::required(&join(path, field), ""));
                }
            }
            for (field, inner) in map {
                check(inner, schema.field(field), &join(path, field), causes);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                check(item, schema.items(), &format!("{path}[{index}]"), causes);
            }
        }
        _ => {}
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn has_type(value: &Value, schema: Schema<'_>) -> bool {
    let wanted = schema.type_name();
    let found = type_of(value);
    wanted.is_empty()
        || wanted == found
        || wanted == "number" && found == "integer"
        || found == "null" && schema.keyword("nullable") == Some(&json!(true))
}

/// Validates enumerations and limits.
fn limits(value: &Value, schema: Schema<'_>, path: &str, causes: &mut Vec<Cause>) {
    if let Some(Value::Array(allowed)) = schema.keyword("enum")
        && !allowed.contains(value)
    {
        let names: Vec<String> = allowed.iter().map(Value::to_string).collect();
        causes.push(Cause {
            reason: "FieldValueNotSupported",
            message: format!("Unsupported value: {value}: supported values: {}", names.join(", ")),
            field: path.to_owned(),
        });
    }
    let size = match value {
        Value::String(text) => Some((text.chars().count(), "minLength", "maxLength", "chars long")),
        Value::Array(items) => Some((items.len(), "minItems", "maxItems", "items")),
        Value::Object(map) => Some((map.len(), "minProperties", "maxProperties", "properties")),
        _ => None,
    };
    let number = |keyword: &str| schema.keyword(keyword).and_then(Value::as_f64);
    if let Some((size, least, most, unit)) = size {
        let size = f64::from(u32::try_from(size).unwrap_or(u32::MAX));
        if let Some(least) = number(least).filter(|least| size < *least) {
            let why = format!("{path} in body should be at least {least} {unit}");
            causes.push(Cause::invalid(path, value, &why));
        }
        if let Some(most) = number(most).filter(|most| size > *most) {
            let why = format!("{path} in body should be at most {most} {unit}");
            causes.push(Cause::invalid(path, value, &why));
        }
    }
    if let Some(found) = value.as_f64() {
        if let Some(least) = number("minimum").filter(|least| found < *least) {
            let why = format!("{path} in body should be greater than or equal to {least}");
            causes.push(Cause::invalid(path, value, &why));
        }
        if let Some(most) = number("maximum").filter(|most| found > *most) {
            let why = format!("{path} in body should be less than or equal to {most}");
            causes.push(Cause::invalid(path, value, &why));
        }
    }
}
