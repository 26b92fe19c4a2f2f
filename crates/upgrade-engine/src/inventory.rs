//! Talos's inventory: a ConfigMap that names every object that Talos has applied, so that objects
//! that left the manifests can be told from those that were never in them.
//!
//! Talos from 1.13 keeps it. A key is `namespace_name_group_kind`, with colons in the names of
//! roles and bindings written as two underscores; values are empty and never read.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use upgrade_core::manifests::ObjectKey;

use crate::io::kubernetes::ObjectName;

/// The name of the inventory, which is also the value of the owner annotation.
pub(crate) const NAME: &str = "talos-bootstrap-manifests-inventory";

pub(crate) const NAMESPACE: &str = "kube-system";

/// The field manager: the one that Talos itself uses.
pub(crate) const MANAGER: &str = "talos";

/// The annotation that names the owner of an object.
pub(crate) const OWNER: &str = "config.k8s.io/owning-inventory";

/// The value of a key whose object is about to be deleted. It differs from what other managers
/// wrote, so that applying it makes the key ours alone, and leaving it out next time removes it.
const GOING: &str = "going";

const ROLES: [&str; 4] = ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"];

/// The key of an object in JSON form.
pub(crate) fn key_of(object: &Value) -> ObjectKey {
    let ObjectName { api_version, kind, namespace, name } = name_of(object);
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
    ObjectKey { group, kind, namespace, name }
}

/// Parses a key.
fn parse(key: &str) -> Option<ObjectKey> {
    let (namespace, rest) = key.split_once('_')?;
    let (rest, kind) = rest.rsplit_once('_')?;
    let (name, group) = rest.rsplit_once('_')?;
    Some(ObjectKey {
        namespace: namespace.to_owned(),
        name: name.replace("__", ":"),
        group: group.to_owned(),
        kind: kind.to_owned(),
    })
}

fn text(key: &ObjectKey) -> String {
    let ObjectKey { namespace, name, group, kind } = key;
    let is_role = group == "rbac.authorization.k8s.io" && ROLES.contains(&kind.as_str());
    let name = if is_role { name.replace(':', "__") } else { name.clone() };
    format!("{namespace}_{name}_{group}_{kind}")
}

/// Whether a manifest and an entry are about the same object. A cluster-wide object may have been
/// written with a namespace all the same, and an object without one is in `default` if its kind has
/// namespaces.
fn is_same_object(manifest: &ObjectKey, entry: &ObjectKey) -> bool {
    let ObjectKey { namespace, name, group, kind } = manifest;
    entry.name == *name
        && entry.group == *group
        && entry.kind == *kind
        && (entry.namespace == *namespace
            || entry.namespace.is_empty()
            || (namespace.is_empty() && entry.namespace == "default"))
}

/// The name of the object in this API version.
pub(crate) fn in_version(key: &ObjectKey, api_version: String) -> ObjectName {
    let ObjectKey { namespace, name, group: _, kind } = key.clone();
    ObjectName { api_version, kind, namespace, name }
}

/// The name of an object in JSON form.
pub(crate) fn name_of(object: &Value) -> ObjectName {
    let text = |pointer: &str| {
        object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    ObjectName {
        api_version: text("/apiVersion"),
        kind: text("/kind"),
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name"),
    }
}

/// The name of the inventory object.
pub(crate) fn object_name() -> ObjectName {
    ObjectName {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: NAMESPACE.to_owned(),
        name: NAME.to_owned(),
    }
}

/// The entries of an inventory. Keys that are no entries are ignored.
pub(crate) fn entries(inventory: Option<&Value>) -> BTreeSet<ObjectKey> {
    let data = inventory.and_then(|it| it.get("data")?.as_object());
    data.into_iter().flatten().filter_map(|(key, _)| parse(key)).collect()
}

/// Entries that no manifest has any more.
pub(crate) fn left(
    entries: &BTreeSet<ObjectKey>,
    manifests: &BTreeSet<ObjectKey>,
) -> BTreeSet<ObjectKey> {
    let gone =
        |entry: &&ObjectKey| !manifests.iter().any(|manifest| is_same_object(manifest, entry));
    entries.iter().filter(gone).cloned().collect()
}

/// Whether the inventory has an entry for a manifest.
pub(crate) fn holds(entries: &BTreeSet<ObjectKey>, manifest: &ObjectKey) -> bool {
    entries.iter().any(|entry| is_same_object(manifest, entry))
}

/// The inventory object with these entries, some of which are about to be deleted.
pub(crate) fn object(entries: &BTreeSet<ObjectKey>, going: &BTreeSet<ObjectKey>) -> Value {
    let value = |entry: &ObjectKey| if going.contains(entry) { GOING } else { "" };
    let data: Map<String, Value> =
        entries.iter().map(|entry| (text(entry), json!(value(entry)))).collect();
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "data": data,
    })
}

/// The owner of an object, by its annotation.
pub(crate) fn owner(object: &Value) -> Option<&str> {
    object.pointer("/metadata/annotations")?.get(OWNER)?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str) -> ObjectKey {
        parse(key).unwrap()
    }

    #[test]
    fn keys_are_written_as_talos_writes_them() {
        let roles = json!({"apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding", "metadata": {"name": "system:default-sa"}});
        let proxy = json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "kube-proxy", "namespace": "kube-system"}});
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "kubeconfig-in-cluster", "namespace": "kube-system"}});
        for (object, key) in [
            (roles, "_system__default-sa_rbac.authorization.k8s.io_ClusterRoleBinding"),
            (proxy, "kube-system_kube-proxy_apps_DaemonSet"),
            (config, "kube-system_kubeconfig-in-cluster__ConfigMap"),
        ] {
            let entry = key_of(&object);
            assert_eq!(text(&entry), key);
            assert_eq!(parse(key), Some(entry));
        }
        assert_eq!(parse("nonsense"), None);
    }

    #[test]
    fn only_what_no_manifest_stands_for_has_left() {
        let entries = BTreeSet::from([
            entry("kube-system_a_apps_DaemonSet"),
            entry("_b_policy_PodSecurityPolicy"),
            entry("other_a_apps_DaemonSet"),
            entry("default_c__ConfigMap"),
        ]);
        let manifests = BTreeSet::from([
            // Written without a namespace, it is in `default`.
            entry("_c__ConfigMap"),
            entry("kube-system_a_apps_DaemonSet"),
            entry("kube-system_b_policy_PodSecurityPolicy"),
        ]);
        let other = BTreeSet::from([entry("other_a_apps_DaemonSet")]);
        assert_eq!(left(&entries, &manifests), other);
    }

    #[test]
    fn an_inventory_is_read_back() {
        let entries_before = BTreeSet::from([entry("a_b__ConfigMap"), entry("_c__Namespace")]);
        let object = object(&entries_before, &BTreeSet::from([entry("_c__Namespace")]));
        assert_eq!(object["data"]["a_b__ConfigMap"], "");
        assert_eq!(object["data"]["_c__Namespace"], GOING);
        assert_eq!(entries(Some(&object)), entries_before);
        assert!(entries(None).is_empty());
    }
}
