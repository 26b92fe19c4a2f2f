//! API paths of objects.

use kube_sim::ResourceName;

/// The path of a resource that kubelets use, in one namespace or in all. All of those resources
/// have version `v1`.
pub(super) fn collection(resource: &ResourceName, namespace: &str) -> String {
    let root = group_version(&resource.group, "v1");
    collection_of(&root, &resource.plural, namespace)
}

/// The path of an object of such a resource, and of its subresource.
pub(super) fn item(
    resource: &ResourceName,
    namespace: &str,
    name: &str,
    subresource: &str,
) -> String {
    let path = format!("{}/{name}", collection(resource, namespace));
    if subresource.is_empty() { path } else { format!("{path}/{subresource}") }
}

/// `/api/v1`, `/apis/apps/v1`.
pub(super) fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

/// The path of a resource below its group and version.
pub(super) fn collection_of(root: &str, plural: &str, namespace: &str) -> String {
    if namespace.is_empty() {
        format!("{root}/{plural}")
    } else {
        format!("{root}/namespaces/{namespace}/{plural}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_sim::names::{LEASES, NODES, PODS};

    #[test]
    fn paths() {
        assert_eq!(collection(&NODES, ""), "/api/v1/nodes");
        assert_eq!(item(&PODS, "a", "b", "status"), "/api/v1/namespaces/a/pods/b/status");
        assert_eq!(
            item(&LEASES, "kube-node-lease", "w", ""),
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/w"
        );
    }
}
