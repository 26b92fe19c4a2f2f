//! Talos's inventory: a ConfigMap that names every object it has applied, so
//! that what leaves the manifests can be told from what was never in them.
//!
//! Talos from 1.13 keeps it. A key is `namespace_name_group_kind`, with colons
//! in the names of roles and bindings written as two underscores; values are
//! empty, and nobody reads them.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::io::kubernetes::ObjectName;

/// The inventory's name, which is also its objects' mark.
pub(super) const NAME: &str = "talos-bootstrap-manifests-inventory";

/// Where it lies.
pub(super) const NAMESPACE: &str = "kube-system";

/// Who applies: the owner of fields that Talos itself has.
pub(super) const MANAGER: &str = "talos";

/// The annotation that says whose an object is.
pub(super) const OWNER: &str = "config.k8s.io/owning-inventory";

/// The value of a key whose object is about to go. It differs from what other
/// managers wrote, so that applying it makes the key ours alone, and leaving it
/// out next time removes it.
const GOING: &str = "going";

/// An object, whatever its version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) group: String,
    pub(super) kind: String,
}

const ROLES: [&str; 4] = ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"];

impl Entry {
    /// Of an object in JSON form.
    pub(super) fn of(object: &Value) -> Self {
        let ObjectName { api_version, kind, namespace, name } = name_of(object);
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
        Self { namespace, name, group, kind }
    }

    /// Reads a key.
    fn parse(key: &str) -> Option<Self> {
        let (namespace, rest) = key.split_once('_')?;
        let (rest, kind) = rest.rsplit_once('_')?;
        let (name, group) = rest.rsplit_once('_')?;
        Some(Self {
            namespace: namespace.to_owned(),
            name: name.replace("__", ":"),
            group: group.to_owned(),
            kind: kind.to_owned(),
        })
    }

    fn key(&self) -> String {
        let Self { namespace, name, group, kind } = self;
        let is_role = group == "rbac.authorization.k8s.io" && ROLES.contains(&kind.as_str());
        let name = if is_role { name.replace(':', "__") } else { name.clone() };
        format!("{namespace}_{name}_{group}_{kind}")
    }

    /// Whether a manifest stands for it. An object of the whole cluster may
    /// have been written with a namespace all the same.
    fn is(&self, manifest: &Self) -> bool {
        let Self { namespace, name, group, kind } = manifest;
        self.name == *name
            && self.group == *group
            && self.kind == *kind
            && (self.namespace == *namespace || self.namespace.is_empty())
    }

    /// The object's name in a version.
    pub(super) fn in_version(&self, api_version: String) -> ObjectName {
        let Self { namespace, name, group: _, kind } = self.clone();
        ObjectName { api_version, kind, namespace, name }
    }
}

/// The name of an object in JSON form.
pub(super) fn name_of(object: &Value) -> ObjectName {
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

/// The inventory's own name.
pub(super) fn object_name() -> ObjectName {
    ObjectName {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: NAMESPACE.to_owned(),
        name: NAME.to_owned(),
    }
}

/// What an inventory names. Keys that are no entries are left alone.
pub(super) fn entries(inventory: Option<&Value>) -> BTreeSet<Entry> {
    let data = inventory.and_then(|it| it.get("data")?.as_object());
    data.into_iter().flatten().filter_map(|(key, _)| Entry::parse(key)).collect()
}

/// Those that no manifest stands for any more.
pub(super) fn left(entries: &BTreeSet<Entry>, manifests: &BTreeSet<Entry>) -> Vec<Entry> {
    let stands = |entry: &&Entry| !manifests.iter().any(|manifest| entry.is(manifest));
    entries.iter().filter(stands).cloned().collect()
}

/// Whether the inventory has a manifest's entry.
pub(super) fn holds(entries: &BTreeSet<Entry>, manifest: &Entry) -> bool {
    entries.iter().any(|entry| entry.is(manifest))
}

/// The inventory with these entries, some of which are about to go.
pub(super) fn object(entries: &BTreeSet<Entry>, going: &[Entry]) -> Value {
    let value = |entry: &Entry| if going.contains(entry) { GOING } else { "" };
    let data: Map<String, Value> =
        entries.iter().map(|entry| (entry.key(), json!(value(entry)))).collect();
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "data": data,
    })
}

/// Whose an object is by its annotation.
pub(super) fn owner(object: &Value) -> Option<&str> {
    object.pointer("/metadata/annotations")?.get(OWNER)?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str) -> Entry {
        Entry::parse(key).unwrap()
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
            let entry = Entry::of(&object);
            assert_eq!(entry.key(), key);
            assert_eq!(Entry::parse(key), Some(entry));
        }
        assert_eq!(Entry::parse("nonsense"), None);
    }

    #[test]
    fn only_what_no_manifest_stands_for_has_left() {
        let entries = BTreeSet::from([
            entry("kube-system_a_apps_DaemonSet"),
            entry("_b_policy_PodSecurityPolicy"),
            entry("other_a_apps_DaemonSet"),
        ]);
        let manifests = BTreeSet::from([
            entry("kube-system_a_apps_DaemonSet"),
            entry("kube-system_b_policy_PodSecurityPolicy"),
        ]);
        assert_eq!(left(&entries, &manifests), [entry("other_a_apps_DaemonSet")]);
    }

    #[test]
    fn an_inventory_is_read_back() {
        let entries_before = BTreeSet::from([entry("a_b__ConfigMap"), entry("_c__Namespace")]);
        let object = object(&entries_before, &[entry("_c__Namespace")]);
        assert_eq!(object["data"]["a_b__ConfigMap"], "");
        assert_eq!(object["data"]["_c__Namespace"], GOING);
        assert_eq!(entries(Some(&object)), entries_before);
        assert!(entries(None).is_empty());
    }
}
