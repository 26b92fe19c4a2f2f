//! The definition of a kind, and what has to fit it.

use kube::Resource;
use regex::RegexBuilder;
use serde_json::Value;

/// A definition of a kind, as it is in its file.
pub struct Definition(Value);

impl Definition {
    /// Reads it.
    pub fn read(yaml: &str) -> Self {
        Self(serde_saphyr::from_str(yaml).expect("a definition is YAML"))
    }

    /// Asserts that definition and type agree on the names.
    #[track_caller]
    pub fn is_for<K: Resource<DynamicType = ()>>(&self, name: &str) {
        let Self(definition) = self;
        assert_eq!(definition["metadata"]["name"], name);
        assert_eq!(definition["spec"]["group"], K::group(&()).as_ref());
        assert_eq!(definition["spec"]["names"]["kind"], K::kind(&()).as_ref());
        assert_eq!(definition["spec"]["names"]["plural"], K::plural(&()).as_ref());
        assert_eq!(definition["spec"]["versions"][0]["name"], K::version(&()).as_ref());
    }

    /// The schema of a field, such as `spec`.
    pub fn schema(&self, field: &str) -> &Value {
        let schema = &self.0["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        &schema["properties"][field]
    }

    /// Asserts that a value fits a field.
    #[track_caller]
    pub fn takes(&self, field: &str, value: &Value) {
        let problems = self.problems(field, value);
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    /// What an API server would refuse of an object for its schema. Rules in CEL and formats
    /// are left to a real API server, see [`Hub`](crate::Hub). A field that the definition does
    /// not have is a problem here, although an API server would only drop it.
    pub fn refusals(&self, object: &Value) -> Vec<String> {
        let schema = &self.0["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut problems = Vec::new();
        let object = without_nulls(object);
        for name in ["spec", "status"] {
            match object.get(name) {
                Some(value) => fits(value, &schema["properties"][name], name, &mut problems),
                None if is_required(schema, name) => problems.push(format!("{name} is missing")),
                None => {}
            }
        }
        problems
    }

    fn problems(&self, field: &str, value: &Value) -> Vec<String> {
        let mut problems = Vec::new();
        fits(value, self.schema(field), field, &mut problems);
        problems
    }
}

/// A value against a schema: every field is known, everything required is there, and values
/// are within their limits.
fn fits(value: &Value, schema: &Value, path: &str, problems: &mut Vec<String>) {
    let kind = schema["type"].as_str().unwrap_or_default();
    let int_or_string = schema["x-kubernetes-int-or-string"] == true;
    let right = match value {
        Value::Object(_) => kind == "object",
        Value::Array(_) => kind == "array",
        Value::String(_) => kind == "string" || int_or_string,
        Value::Bool(_) => kind == "boolean",
        Value::Number(number) => (kind == "integer" || int_or_string) && !number.is_f64(),
        Value::Null => false,
    };
    if !right {
        problems.push(format!("{path} is no {kind}: {value}"));
        return;
    }
    limits(value, schema, path, problems);
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let path = format!("{path}.{name}");
                let known = &schema["properties"][name];
                let any = &schema["additionalProperties"];
                if known.is_object() {
                    fits(field, known, &path, problems);
                } else if any.is_object() {
                    fits(field, any, &path, problems);
                } else if schema["x-kubernetes-preserve-unknown-fields"] != true {
                    problems.push(format!("{path} is not in the definition"));
                }
            }
            for name in schema["required"].as_array().into_iter().flatten() {
                let name = name.as_str().expect("a name");
                // Defaults are filled in before an object is checked.
                let default = &schema["properties"][name]["default"];
                if !fields.contains_key(name) && default.is_null() {
                    problems.push(format!("{path}.{name} is missing"));
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                fits(item, &schema["items"], &format!("{path}[{index}]"), problems);
            }
        }
        Value::String(_) | Value::Bool(_) | Value::Number(_) | Value::Null => {}
    }
}

/// The words and limits of a schema.
fn limits(value: &Value, schema: &Value, path: &str, problems: &mut Vec<String>) {
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        problems.push(format!("{path} is none of {words:?}: {value}"));
    }
    let (size, limits) = match value {
        Value::String(text) => (text.chars().count(), ["minLength", "maxLength"]),
        Value::Array(items) => (items.len(), ["minItems", "maxItems"]),
        Value::Object(fields) => (fields.len(), ["minProperties", "maxProperties"]),
        Value::Bool(_) | Value::Number(_) | Value::Null => (0, ["", ""]),
    };
    let [min, max] = limits.map(|name| schema[name].as_u64());
    let size = u64::try_from(size).expect("a size");
    let number = value.as_i64();
    if min.is_some_and(|min| size < min)
        || max.is_some_and(|max| size > max)
        || number.zip(schema["minimum"].as_i64()).is_some_and(|(value, min)| value < min)
        || number.zip(schema["maximum"].as_i64()).is_some_and(|(value, max)| value > max)
    {
        problems.push(format!("{path} exceeds a limit: {value}"));
    }
    if let (Some(text), Some(pattern)) = (value.as_str(), schema["pattern"].as_str())
        && !matches(pattern, text)
    {
        problems.push(format!("{path} does not match {pattern}: {text}"));
    }
}

/// As in Go, where `\d` and the like are ASCII only.
fn matches(pattern: &str, text: &str) -> bool {
    let pattern = RegexBuilder::new(pattern).unicode(false).build();
    pattern.expect("a pattern").is_match(text)
}

/// As an API server does before it checks an object, where no field is nullable.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let there = fields.iter().filter(|(_, field)| !field.is_null());
            there.map(|(name, field)| (name.clone(), without_nulls(field))).collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

fn is_required(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|names| names.iter().any(|it| it == name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_that_is_null_is_absent() {
        let definition = |required: &[&str]| {
            let schema = json!({"required": required, "properties": {"spec": {"type": "object",
                "required": ["name"], "properties": {"name": {"type": "string"}}}}});
            Definition(json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}}))
        };
        assert!(definition(&[]).refusals(&json!({"spec": null})).is_empty());
        assert_eq!(definition(&["spec"]).refusals(&json!({"spec": null})), ["spec is missing"]);
        let nameless = json!({"spec": {"name": null}});
        assert_eq!(definition(&[]).refusals(&nameless), ["spec.name is missing"]);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let schema = json!({"type": "object", "required": ["name", "size"], "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^[a-z]*$"},
            "size": {"type": "integer", "minimum": 1, "default": 1},
            "limit": {"x-kubernetes-int-or-string": true},
            "mode": {"type": "string", "enum": ["a", "b"]},
            "list": {"type": "array", "maxItems": 1, "items": {"type": "boolean"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }});
        for (value, problem) in [
            (json!({"name": "a"}), ""),
            (json!({"name": "a", "limit": 1, "mode": "a", "list": [true]}), ""),
            (json!({"name": "a", "limit": "1%", "labels": {"x": "y"}, "any": {"x": [1.5]}}), ""),
            (json!({}), "it.name is missing"),
            (json!({"name": null}), "it.name is no string"),
            (json!({"name": ""}), "it.name exceeds a limit"),
            (json!({"name": "abcd"}), "it.name exceeds a limit"),
            (json!({"name": "A"}), "it.name does not match"),
            (json!({"name": "a", "size": 0}), "it.size exceeds a limit"),
            (json!({"name": "a", "size": 1.5}), "it.size is no integer"),
            (json!({"name": "a", "limit": true}), "it.limit is no"),
            (json!({"name": "a", "mode": "c"}), "it.mode is none of"),
            (json!({"name": "a", "list": [true, false]}), "it.list exceeds a limit"),
            (json!({"name": "a", "list": ["x"]}), "it.list[0] is no boolean"),
            (json!({"name": "a", "labels": {"x": 1}}), "it.labels.x is no string"),
            (json!({"name": "a", "more": 1}), "it.more is not in the definition"),
        ] {
            let mut problems = Vec::new();
            fits(&value, &schema, "it", &mut problems);
            if problem.is_empty() {
                assert!(problems.is_empty(), "{problems:?}");
            } else {
                assert!(problems.len() == 1 && problems[0].starts_with(problem), "{problems:?}");
            }
        }
    }
}
