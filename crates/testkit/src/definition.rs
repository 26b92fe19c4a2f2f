//! The definition of a kind, and what has to fit it.

use kube::Resource;
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
        fits(value, self.schema(field), field);
    }
}

/// A value against a schema, as far as both sides write them here: every
/// field is known, and everything required is there.
#[track_caller]
fn fits(value: &Value, schema: &Value, path: &str) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let known = &schema["properties"][name];
                assert!(known.is_object(), "{path}.{name} is not in the definition");
                fits(field, known, &format!("{path}.{name}"));
            }
            for name in schema["required"].as_array().into_iter().flatten() {
                let name = name.as_str().expect("a name");
                assert!(fields.contains_key(name), "{path}.{name} is missing");
            }
        }
        Value::Array(items) => {
            for item in items {
                fits(item, &schema["items"], path);
            }
        }
        Value::String(_) => {
            let text = schema["type"] == "string" || schema["x-kubernetes-int-or-string"] == true;
            assert!(text, "{path} is no text");
        }
        Value::Bool(_) => assert_eq!(schema["type"], "boolean", "{path}"),
        Value::Number(_) => assert_eq!(schema["type"], "integer", "{path}"),
        Value::Null => panic!("{path} is null"),
    }
}
