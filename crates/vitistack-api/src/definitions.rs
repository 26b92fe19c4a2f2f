//! The definitions, as `kubectl apply` takes them.

use upgrade_api::{Definition, UPGRADE_RUNS};

/// All that the operator needs, our own kind included, in alphabetical order.
pub const DEFINITIONS: [Definition; 3] = [
    Definition {
        name: "kubernetesclusters.vitistack.io",
        text: include_str!("../crds/kubernetesclusters.yaml"),
    },
    Definition { name: "machines.vitistack.io", text: include_str!("../crds/machines.yaml") },
    UPGRADE_RUNS,
];

#[cfg(test)]
mod tests {
    use kube::Resource;
    use serde_json::{Value, json};

    use super::*;
    use crate::status::empty_state;
    use crate::{KubernetesCluster, Machine};

    fn read(index: usize) -> Value {
        serde_saphyr::from_str(DEFINITIONS[index].text).expect("YAML")
    }

    fn schema(definition: &Value) -> &Value {
        &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    }

    fn is_for<K: Resource<DynamicType = ()>>(index: usize) {
        let definition = read(index);
        assert_eq!(definition["metadata"]["name"], DEFINITIONS[index].name);
        assert_eq!(definition["spec"]["group"], K::group(&()).as_ref());
        assert_eq!(definition["spec"]["names"]["kind"], K::kind(&()).as_ref());
        assert_eq!(definition["spec"]["names"]["plural"], K::plural(&()).as_ref());
        assert_eq!(definition["spec"]["versions"][0]["name"], K::version(&()).as_ref());
    }

    #[test]
    fn definitions_and_types_agree_on_names() {
        is_for::<KubernetesCluster>(0);
        is_for::<Machine>(1);
    }

    /// A value against a schema, as far as both sides write them here: every
    /// field is known, and everything required is there.
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
                let text =
                    schema["type"] == "string" || schema["x-kubernetes-int-or-string"] == true;
                assert!(text, "{path} is no text");
            }
            Value::Bool(_) => assert_eq!(schema["type"], "boolean", "{path}"),
            Value::Number(_) => assert_eq!(schema["type"], "integer", "{path}"),
            Value::Null => panic!("{path} is null"),
        }
    }

    #[test]
    fn the_first_status_of_a_cluster_fits_its_definition() {
        let definition = read(0);
        let status = json!({
            "phase": "Ready",
            "conditions": [{"type": "TalosUpgrade", "status": "False", "reason": "Idle",
                "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}],
            "state": empty_state("2026-01-02T03:04:05Z"),
        });
        fits(&status, &schema(&definition)["properties"]["status"], "status");
    }
}
