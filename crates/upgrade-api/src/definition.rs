//! The definition of the kind, as `kubectl apply` takes it.

/// A definition of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Its name.
    pub name: &'static str,
    /// It, as YAML.
    pub text: &'static str,
}

/// The definition of [`UpgradeRun`](crate::UpgradeRun).
pub const UPGRADE_RUNS: Definition = Definition {
    name: "upgraderuns.upgrade.vitistack.io",
    text: include_str!("../crds/upgraderuns.yaml"),
};

#[cfg(test)]
mod tests {
    use kube::Resource;
    use serde_json::{Value, json};

    use super::*;
    use crate::UpgradeRun;
    use crate::run::{
        NodeProgress, ProductVersions, RunPhase, RunSpec, RunStatus, RunVersions, Transition,
    };

    fn read() -> Value {
        serde_saphyr::from_str(UPGRADE_RUNS.text).expect("YAML")
    }

    fn schema(definition: &Value) -> &Value {
        &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    }

    #[test]
    fn the_definition_and_the_type_agree_on_names() {
        type K = UpgradeRun;
        let definition = read();
        assert_eq!(definition["metadata"]["name"], UPGRADE_RUNS.name);
        assert_eq!(definition["spec"]["group"], K::group(&()).as_ref());
        assert_eq!(definition["spec"]["names"]["kind"], K::kind(&()).as_ref());
        assert_eq!(definition["spec"]["names"]["plural"], K::plural(&()).as_ref());
        assert_eq!(definition["spec"]["versions"][0]["name"], K::version(&()).as_ref());
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
    fn a_run_fits_its_definition() {
        let status = RunStatus {
            started: Some("2026-01-02T03:04:05Z".to_owned()),
            ended: Some("2026-01-02T03:04:05Z".to_owned()),
            nodes: vec![NodeProgress { step: "reboot".to_owned(), ..NodeProgress::default() }],
            history: vec![Transition { message: "why".to_owned(), ..Transition::default() }],
            journal: vec!["{}".to_owned()],
            ..RunStatus::default()
        };
        let definition = read();
        let properties = &schema(&definition)["properties"];
        let versions = || ProductVersions {
            talos: Some("1.13.9".to_owned()),
            kubernetes: Some("1.34.2".to_owned()),
        };
        let versions = RunVersions { from: versions(), to: versions() };
        let (spec, status) = (json!(RunSpec { versions, ..RunSpec::default() }), json!(status));
        fits(&spec, &properties["spec"], "spec");
        fits(&status, &properties["status"], "status");
        let phases = json!(RunPhase::ALL.map(RunPhase::as_str));
        assert_eq!(properties["status"]["properties"]["phase"]["enum"], phases);
    }
}
