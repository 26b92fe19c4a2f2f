//! The rights that the operator uses: those of `deploy/20-rbac.yaml`, verb by verb.

use super::Weight;

/// Where a right is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// In all that is watched.
    ObservedLease,
    /// Where clusters are: it may be granted in single namespaces.
    Clusters,
    /// In the operator's own namespace.
    Own,
}

/// The role of the shipped manifest that grants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The `ClusterRole` `talos-operator`.
    Operator,
    /// The `ClusterRole` `talos-operator-cluster-access`.
    ClusterAccess,
    /// The `Role` `talos-operator`.
    Own,
}

impl Role {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Operator | Self::Own => "talos-operator",
            Self::ClusterAccess => "talos-operator-cluster-access",
        }
    }
}

/// Verbs on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Right {
    pub(super) group: &'static str,
    /// With its subresource, as roles write it.
    pub(super) resource: &'static str,
    pub(super) verbs: &'static [&'static str],
    pub(super) scope: Scope,
    pub(super) role: Role,
    pub(super) weight: Weight,
}

impl Right {
    /// Its resource as `kubectl auth can-i` takes it.
    pub(super) fn full_name(&self) -> String {
        let Self { group, resource, .. } = self;
        match resource.split_once('/') {
            _ if group.is_empty() => (*resource).to_owned(),
            Some((kind, sub)) => format!("{kind}.{group}/{sub}"),
            None => format!("{resource}.{group}"),
        }
    }
}

const fn right(
    (group, resource): (&'static str, &'static str),
    verbs: &'static [&'static str],
    (scope, role): (Scope, Role),
    weight: Weight,
) -> Right {
    Right { group, resource, verbs, scope, role, weight }
}

const CLUSTERS: &str = "vitistack.io";
const RUNS: &str = "upgrade.vitistack.io";
const WATCHED: (Scope, Role) = (Scope::ObservedLease, Role::Operator);
const THERE: (Scope, Role) = (Scope::Clusters, Role::Operator);

/// What the leases of the operator's own namespace are used with.
pub(super) const LEASES: Right = right(
    ("coordination.k8s.io", "leases"),
    &["get", "list", "create", "update", "patch", "delete"],
    (Scope::Own, Role::Own),
    Weight::Needed,
);

/// For versions that are read from a `ConfigMap`, and only then.
pub(super) const CONFIG_MAPS: Right =
    right(("", "configmaps"), &["get"], (Scope::Own, Role::Own), Weight::Wanted);

/// All others.
pub(super) const RIGHTS: [Right; 9] = [
    right((CLUSTERS, "kubernetesclusters"), &["list", "watch"], WATCHED, Weight::Needed),
    right((CLUSTERS, "kubernetesclusters"), &["patch"], THERE, Weight::Needed),
    right((CLUSTERS, "kubernetesclusters/status"), &["patch"], THERE, Weight::Needed),
    right((CLUSTERS, "machines"), &["list", "watch"], WATCHED, Weight::Needed),
    right((RUNS, "upgraderuns"), &["get", "list", "create", "delete"], THERE, Weight::Needed),
    right((RUNS, "upgraderuns/status"), &["patch"], THERE, Weight::Needed),
    // Whoever looks at `kubectl describe` misses them; an upgrade does not.
    right(("events.k8s.io", "events"), &["create", "patch"], THERE, Weight::Wanted),
    right(("", "secrets"), &["get"], (Scope::Clusters, Role::ClusterAccess), Weight::Needed),
    LEASES,
];

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
