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
    use serde_json::json;

    use super::*;
    use crate::UpgradeRun;
    use crate::run::{
        NodeProgress, ProductVersions, RunPhase, RunSpec, RunStatus, RunVersions, Transition,
    };

    fn definition() -> testkit::Definition {
        testkit::Definition::read(UPGRADE_RUNS.text)
    }

    #[test]
    fn the_definition_and_the_type_agree_on_names() {
        definition().is_for::<UpgradeRun>(UPGRADE_RUNS.name);
    }

    #[test]
    fn a_run_fits_its_definition() {
        let status = RunStatus {
            started: Some("2026-01-02T03:04:05Z".to_owned()),
            ended: Some("2026-01-02T03:04:05Z".to_owned()),
            nodes: vec![NodeProgress {
                step: "reboot".to_owned(),
                failure: "boot-back".to_owned(),
                armed: true,
                cordoned: true,
                ..NodeProgress::default()
            }],
            history: vec![Transition { message: "why".to_owned(), ..Transition::default() }],
            journal: vec!["{}".to_owned()],
            ..RunStatus::default()
        };
        let versions = || ProductVersions {
            talos: Some("1.13.9".to_owned()),
            kubernetes: Some("1.34.2".to_owned()),
        };
        let versions = RunVersions { from: versions(), to: versions() };
        let definition = definition();
        definition.takes("spec", &json!(RunSpec { versions, ..RunSpec::default() }));
        definition.takes("status", &json!(status));
        let phases = json!(RunPhase::ALL.map(RunPhase::as_str));
        assert_eq!(definition.schema("status")["properties"]["phase"]["enum"], phases);
    }
}
