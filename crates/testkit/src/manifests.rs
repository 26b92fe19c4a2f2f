//! The shipped manifests, for the namespace of a test.

use std::path::PathBuf;

use serde_json::Value;

/// The operator's namespace in the shipped manifests.
const SHIPPED: &str = "vitistack-system";

/// All shipped manifests except the pods, which the tests replace.
const PARTS: [&str; 4] = ["00-namespace", "10-crds", "20-rbac", "30-admission"];

/// The file of a shipped manifest.
pub(crate) fn path(part: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy")).join(format!("{part}.yaml"))
}

/// The manifests that a hub gets.
pub(crate) fn paths() -> Vec<PathBuf> {
    PARTS.iter().map(|part| path(part)).collect()
}

/// The shipped account and its rights, in another namespace: cluster-scoped objects get a unique
/// name, and every rule stays unchanged.
pub(crate) fn account_in(namespace: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(path("20-rbac")).expect("a manifest");
    account_from(&text, namespace)
}

fn account_from(text: &str, namespace: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).expect("YAML");
    documents
        .into_iter()
        .map(|mut object| {
            let cluster_wide = object["metadata"]["namespace"].is_null();
            for place in ["/metadata/namespace", "/subjects/0/namespace"] {
                if let Some(found) = object.pointer_mut(place) {
                    assert_eq!(found, SHIPPED, "{place}");
                    *found = namespace.into();
                }
            }
            if cluster_wide {
                for place in ["/metadata/name", "/roleRef/name"] {
                    if let Some(name) = object.pointer_mut(place) {
                        let own = format!("{}-{namespace}", name.as_str().expect("a name"));
                        *name = own.into();
                    }
                }
            }
            object
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_of_a_namespace_has_the_shipped_rules() {
        let text = std::fs::read_to_string(path("20-rbac")).expect("a manifest");
        let shipped: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
        let own = account_in("mine");
        assert_eq!(own.len(), shipped.len());
        for (own, shipped) in own.iter().zip(&shipped) {
            assert_eq!(own["rules"], shipped["rules"]);
            assert!(!own.to_string().contains(SHIPPED), "{own:#}");
        }
        let binding = own.iter().find(|it| it["kind"] == "ClusterRoleBinding").expect("one");
        assert_eq!(binding["roleRef"]["name"], "talos-operator-mine");
        assert_eq!(binding["subjects"][0]["namespace"], "mine");
        let role = own.iter().find(|it| it["kind"] == "Role").expect("one");
        assert_eq!(
            (&role["metadata"]["name"], &role["metadata"]["namespace"]),
            (&"talos-operator".into(), &"mine".into())
        );
    }
}
