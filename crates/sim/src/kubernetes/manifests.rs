//! What the control planes create in Kubernetes: the objects of their bootstrap
//! manifests that are not there.
//!
//! Up to 1.12 an object that somebody has deleted comes back at the next look.
//! From 1.13 on each object is applied once and written into an inventory; what
//! is in there is left alone.

use std::collections::BTreeMap;

use kube_sim::names::CONFIG_MAPS;
use kube_sim::{Status, Store, Write, object};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::model::{NodeIndex, World};

/// The field manager of what nodes create.
const MANAGER: &str = "talos";

/// The annotation that says which inventory an object belongs to.
const OWNER: &str = "config.k8s.io/owning-inventory";

const INVENTORY: &str = "talos-bootstrap-manifests-inventory";
const NAMESPACE: &str = "kube-system";

/// When each control plane has looked last.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Manifests {
    seen: BTreeMap<usize, (u64, u64)>,
}

impl Manifests {
    /// Lets those look that have a reason to.
    pub(super) fn pass(&mut self, store: &mut Store, world: &World) {
        for index in 0..world.len() {
            let Some(reason) = world.manifests_seen(NodeIndex(index)) else { continue };
            if self.seen.insert(index, reason) != Some(reason) {
                // Talos tries again later; here nothing stands in the way.
                let _ = look(store, world, NodeIndex(index));
            }
        }
    }
}

/// What Talos brings along, as it is in a cluster that nobody has changed.
fn look(store: &mut Store, world: &World, node: NodeIndex) -> Result<(), Status> {
    let objects = world.bootstrap_objects(node);
    if !world.keeps_inventory(node) {
        for object in objects {
            if let Some((kind, false)) = find(store, &object) {
                store.create(&Write::by(MANAGER), &kind, object)?;
            }
        }
        return Ok(());
    }
    let inventory = store.get(&CONFIG_MAPS, NAMESPACE, INVENTORY);
    let there = inventory.is_some();
    let mut contents =
        inventory.and_then(|it| it.get("data")?.as_object()).cloned().unwrap_or_default();
    if !there {
        store.create(&Write::by("machined"), &CONFIG_MAPS, self::inventory())?;
    }
    let known = contents.len();
    for mut object in objects {
        let key = inventory_key(&object);
        let Some((kind, there)) = find(store, &object) else { continue };
        if !contents.contains_key(&key) && !there {
            object::set(&mut object, &["metadata", "annotations", OWNER], json!(INVENTORY));
            store.apply(&Write::by(MANAGER), &kind, &object, "", false)?;
        }
        contents.insert(key, json!(""));
    }
    if contents.len() > known {
        store.modify(&Write::by("machined"), &CONFIG_MAPS, NAMESPACE, INVENTORY, |inventory| {
            object::set(inventory, &["data"], Value::Object(contents));
        })?;
    }
    Ok(())
}

/// The kind of an object, and whether one of its name is there.
fn find(store: &Store, object: &Value) -> Option<(kube_sim::ResourceName, bool)> {
    let (version, kind) = (object::text(object, &["apiVersion"]), object::text(object, &["kind"]));
    let kind = store.types().find_kind(version, kind)?.name.clone();
    let there = store.get(&kind, object::namespace(object), object::name(object)).is_some();
    Some((kind, there))
}

fn inventory() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": INVENTORY, "namespace": NAMESPACE},
    })
}

/// As an inventory names an object: namespace, name, group and kind, where a
/// colon of the name is written with two underscores.
fn inventory_key(object: &Value) -> String {
    let group =
        object::text(object, &["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
    let name = object::name(object).replace(':', "__");
    format!("{}_{name}_{group}_{}", object::namespace(object), object::text(object, &["kind"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inventory_names_objects_as_others_read_them() {
        let inside = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "coredns", "namespace": "kube-system"},
        });
        assert_eq!(inventory_key(&inside), "kube-system_coredns_apps_Deployment");
        let outside = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "system:coredns"},
        });
        let key = "_system__coredns_rbac.authorization.k8s.io_ClusterRole";
        assert_eq!(inventory_key(&outside), key);
        let core = inventory();
        let key = "kube-system_talos-bootstrap-manifests-inventory__ConfigMap";
        assert_eq!(inventory_key(&core), key);
    }
}
