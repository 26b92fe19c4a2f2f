//! What the annotation operator needs of its hub.

use kube::Client;
use kube::core::ApiResource;
use upgrade_api::UpgradeRun;
use upgrade_controller::needs::{
    CONFIG_MAPS, LEASES, NeededKind, Needs, Right, Role, Scope, Weight,
};
use vitistack_api::{KubernetesCluster, Machine};

const CLUSTERS: &str = "vitistack.io";
const RUNS: &str = "upgrade.vitistack.io";
const WATCHED: (Scope, Role) = (Scope::Watched, Role::Operator);
const THERE: (Scope, Role) = (Scope::Clusters, Role::Operator);

/// The rights that the operator uses: those of `deploy/20-rbac.yaml`, verb by verb.
const RIGHTS: [Right; 9] = [
    Right::new((CLUSTERS, "kubernetesclusters"), &["list", "watch"], WATCHED, Weight::Needed),
    Right::new((CLUSTERS, "kubernetesclusters"), &["get", "patch"], THERE, Weight::Needed),
    Right::new((CLUSTERS, "kubernetesclusters/status"), &["patch"], THERE, Weight::Needed),
    Right::new((CLUSTERS, "machines"), &["list", "watch"], WATCHED, Weight::Needed),
    Right::new((RUNS, "upgraderuns"), &["get", "list", "create", "delete"], THERE, Weight::Needed),
    Right::new((RUNS, "upgraderuns/status"), &["patch"], THERE, Weight::Needed),
    // Missed by users of `kubectl describe`, but not by an upgrade.
    Right::new(("events.k8s.io", "events"), &["create", "patch"], THERE, Weight::Wanted),
    Right::new(("", "secrets"), &["get"], (Scope::Clusters, Role::ClusterAccess), Weight::Needed),
    LEASES,
];

/// What this front end needs; `reads_config_map` says that versions come from a `ConfigMap`.
pub fn needs(
    client: Client,
    namespace: String,
    watch_namespace: Option<String>,
    reads_config_map: bool,
) -> Needs {
    let mut rights = RIGHTS.to_vec();
    rights.extend(reads_config_map.then_some(CONFIG_MAPS));
    Needs {
        client,
        namespace,
        watch_namespace,
        clusters: ApiResource::erase::<KubernetesCluster>(&()),
        kinds: vec![
            NeededKind::of::<KubernetesCluster>(true),
            NeededKind::of::<Machine>(false),
            NeededKind::of::<UpgradeRun>(true),
        ],
        rights,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    const SHIPPED: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/20-rbac.yaml"));

    /// Role, group, resource and verb.
    type Row = (String, String, String, String);

    fn shipped() -> BTreeSet<Row> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(SHIPPED).expect("YAML");
        let mut rows = BTreeSet::new();
        for role in documents {
            let texts = |rule: &Value, key: &str| -> Vec<String> {
                let list = rule[key].as_array().expect("a list");
                list.iter().map(|it| it.as_str().expect("text").to_owned()).collect()
            };
            let name = format!(
                "{} {}",
                role["kind"].as_str().expect("a kind"),
                role["metadata"]["name"].as_str().expect("a name")
            );
            for rule in role["rules"].as_array().into_iter().flatten() {
                for group in texts(rule, "apiGroups") {
                    for resource in texts(rule, "resources") {
                        for verb in texts(rule, "verbs") {
                            rows.insert((name.clone(), group.clone(), resource.clone(), verb));
                        }
                    }
                }
            }
        }
        rows
    }

    /// What is asked for is what is shipped, and the other way round.
    #[test]
    fn the_rights_are_those_of_the_shipped_manifest() {
        let mut asked = BTreeSet::new();
        for right in RIGHTS.iter().chain([&CONFIG_MAPS]) {
            let kind = if right.role == Role::Own { "Role" } else { "ClusterRole" };
            for verb in right.verbs {
                let row = (
                    format!("{kind} {}", right.role.name()),
                    right.group.to_owned(),
                    right.resource.to_owned(),
                    (*verb).to_owned(),
                );
                assert!(asked.insert(row), "{right:?} is there twice");
            }
        }
        assert_eq!(asked, shipped());
    }

    #[test]
    fn resources_are_named_as_kubectl_names_them() {
        let names: Vec<_> = RIGHTS.iter().map(Right::full_name).collect();
        assert!(names.contains(&"kubernetesclusters.vitistack.io/status".to_owned()), "{names:?}");
        assert!(names.contains(&"secrets".to_owned()) && CONFIG_MAPS.full_name() == "configmaps");
    }
}
