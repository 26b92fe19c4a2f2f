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
    use serde_json::json;

    use super::*;
    use crate::status::empty_state;
    use crate::{KubernetesCluster, Machine};

    fn read(index: usize) -> testkit::Definition {
        testkit::Definition::read(DEFINITIONS[index].text)
    }

    #[test]
    fn definitions_and_types_agree_on_names() {
        read(0).is_for::<KubernetesCluster>(DEFINITIONS[0].name);
        read(1).is_for::<Machine>(DEFINITIONS[1].name);
    }

    #[test]
    fn the_first_status_of_a_cluster_fits_its_definition() {
        let status = json!({
            "phase": "Ready",
            "conditions": [{"type": "TalosUpgrade", "status": "False", "reason": "Idle",
                "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}],
            "state": empty_state("2026-01-02T03:04:05Z"),
        });
        read(0).takes("status", &status);
    }
}
