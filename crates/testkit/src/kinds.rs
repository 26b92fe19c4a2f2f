//! The kinds that tests use on a hub, by their names in a kubectl command.

use kube::core::ApiResource;

const RBAC: &str = "rbac.authorization.k8s.io";

/// Group, version, kind and plural, and its other names.
const KINDS: &[([&str; 4], &[&str])] = &[
    (["", "v1", "Event", "events"], &["event"]),
    (["", "v1", "Pod", "pods"], &["pod"]),
    (["", "v1", "Secret", "secrets"], &["secret"]),
    (["", "v1", "ServiceAccount", "serviceaccounts"], &["serviceaccount"]),
    (["", "v1", "Node", "nodes"], &["node"]),
    (["", "v1", "Namespace", "namespaces"], &["namespace"]),
    (["coordination.k8s.io", "v1", "Lease", "leases"], &["lease"]),
    ([RBAC, "v1", "ClusterRole", "clusterroles"], &["clusterrole"]),
    ([RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings"], &["clusterrolebinding"]),
    ([RBAC, "v1", "Role", "roles"], &["role"]),
    ([RBAC, "v1", "RoleBinding", "rolebindings"], &["rolebinding"]),
    (
        ["vitistack.io", "v1alpha1", "KubernetesCluster", "kubernetesclusters"],
        &["kubernetescluster"],
    ),
    (["vitistack.io", "v1alpha1", "Machine", "machines"], &["machine"]),
    (["upgrade.vitistack.io", "v1alpha1", "UpgradeRun", "upgraderuns"], &["upgraderun"]),
];

/// The cluster-scoped kinds.
const CLUSTER_WIDE: &[&str] = &["Node", "Namespace", "ClusterRole", "ClusterRoleBinding"];

/// The resource of a name in a kubectl command.
#[track_caller]
pub(crate) fn named(word: &str) -> ApiResource {
    let known =
        KINDS.iter().find(|([.., plural], others)| word == *plural || others.contains(&word));
    let Some(([group, version, kind, plural], _)) = known else {
        panic!("testkit does not know the kind `{word}`: add it to kinds.rs")
    };
    let api_version =
        if group.is_empty() { (*version).to_owned() } else { format!("{group}/{version}") };
    ApiResource {
        group: (*group).to_owned(),
        version: (*version).to_owned(),
        api_version,
        kind: (*kind).to_owned(),
        plural: (*plural).to_owned(),
    }
}

/// The resource of an object's kind.
#[track_caller]
pub(crate) fn of(object: &serde_json::Value) -> ApiResource {
    let kind = object["kind"].as_str().unwrap_or_default();
    let known = KINDS.iter().find(|([_, _, name, _], _)| *name == kind);
    let Some(([.., plural], _)) = known else {
        panic!("testkit does not know the kind `{kind}`: add it to kinds.rs")
    };
    named(plural)
}

/// Whether a kind is cluster-scoped.
pub(crate) fn is_cluster_wide(resource: &ApiResource) -> bool {
    CLUSTER_WIDE.contains(&resource.kind.as_str())
}

/// A kubectl-like selection: a kind, then a name or `-l` and a selector, or neither.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    pub(crate) resource: ApiResource,
    pub(crate) name: Option<String>,
    pub(crate) labels: Option<String>,
}

impl Selection {
    /// Reads `kubernetescluster one`, `upgraderuns` or `upgraderuns -l key=value`.
    #[track_caller]
    pub(crate) fn read(what: &str) -> Self {
        let words: Vec<&str> = what.split_whitespace().collect();
        let (kind, name, labels) = match words.as_slice() {
            [kind] => (kind, None, None),
            [kind, "-l", labels] => (kind, None, Some((*labels).to_owned())),
            [kind, name] => (kind, Some((*name).to_owned()), None),
            _ => panic!("`{what}` is not a kind, a kind and a name, or a kind and -l"),
        };
        Self { resource: named(kind), name, labels }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections_match_those_of_kubectl() {
        let one = Selection::read("kubernetescluster east");
        assert_eq!(
            (one.resource.kind.as_str(), one.name.as_deref()),
            ("KubernetesCluster", Some("east"))
        );
        assert_eq!(one.resource.api_version, "vitistack.io/v1alpha1");
        let some = Selection::read("upgraderuns -l a=b");
        assert_eq!((some.name, some.labels.as_deref()), (None, Some("a=b")));
        assert_eq!(Selection::read("secrets").resource.api_version, "v1");
        assert!(is_cluster_wide(&named("nodes")) && !is_cluster_wide(&named("leases")));
    }
}
