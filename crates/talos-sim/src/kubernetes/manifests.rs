//! What the control planes create in Kubernetes: the missing objects of their bootstrap manifests.
//!
//! Up to 1.12, a deleted object comes back at the next pass. From 1.13 on, each object is applied
//! once and recorded in an inventory; objects in the inventory are left alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_sim::kubelet::Api;
use kube_sim::names::CONFIG_MAPS;
use kube_sim::types::{ResourceType, Types};
use kube_sim::{Status, Store, Write, object};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::model::{NodeIndex, World};

/// The field manager of what nodes create.
pub(super) const MANAGER: &str = "talos";

/// The annotation with the inventory that an object belongs to.
const OWNER: &str = "config.k8s.io/owning-inventory";

const INVENTORY: &str = "talos-bootstrap-manifests-inventory";
const NAMESPACE: &str = "kube-system";

/// An API server where objects can be installed.
pub(super) trait Install: Api {
    /// Whether an object of this name exists; `None` if its kind is not known.
    fn has(&mut self, object: &Value) -> Result<Option<bool>, Status>;

    /// Creates an object, or applies it.
    fn install(&mut self, object: Value, how: How) -> Result<(), Status>;

    /// Whether objects of this kind are namespaced; `None` if the kind is not known.
    fn is_namespaced(&mut self, object: &Value) -> Result<Option<bool>, Status>;

    /// The object as nodes create it: a namespaced one without a namespace goes into `default`, a
    /// cluster-scoped one loses its namespace. `None` if its kind is not known.
    fn placed(&mut self, object: &Value) -> Result<Option<Value>, Status> {
        let Some(namespaced) = self.is_namespaced(object)? else { return Ok(None) };
        let mut object = object.clone();
        match (namespaced, object::namespace(&object)) {
            (true, "") => object::set(&mut object, &["metadata", "namespace"], json!("default")),
            (false, namespace) if !namespace.is_empty() => {
                object::remove(&mut object, &["metadata", "namespace"]);
            }
            _ => {}
        }
        Ok(Some(object))
    }
}

/// How an object is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Created,
    Applied,
}

/// The last pass of each control plane.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Manifests {
    #[serde(default)]
    looked: BTreeMap<usize, (u64, u64, usize)>,
    /// The objects of the last pass, and the source they were made from: passes are frequent, and
    /// control planes mostly want the same.
    #[serde(skip)]
    made: Option<(String, Arc<Vec<Value>>)>,
}

/// What one control plane has to install in one pass.
#[derive(Clone, Debug)]
pub(super) struct Pass {
    pub(super) node: NodeIndex,
    objects: Arc<Vec<Value>>,
    /// Whether it keeps an inventory.
    inventory: bool,
}

impl Manifests {
    /// One pass for each control plane that has a reason for one.
    pub(super) fn passes(&mut self, world: &World) -> Vec<Pass> {
        let mut passes = Vec::new();
        for index in 0..world.len() {
            let node = NodeIndex(index);
            let Some(reason) = world.manifests_seen(node) else { continue };
            if self.looked.insert(index, reason) != Some(reason) {
                let objects = self.objects(world, node);
                passes.push(Pass { node, objects, inventory: world.keeps_inventory(node) });
            }
        }
        passes
    }

    fn objects(&mut self, world: &World, node: NodeIndex) -> Arc<Vec<Value>> {
        let from = world.bootstrap_source(node);
        match &self.made {
            Some((known, objects)) if *known == from => objects.clone(),
            _ => {
                let mut objects = world.bootstrap_objects(node);
                // Namespaces come first, then definitions.
                objects.sort_by_key(|object| match object::text(object, &["kind"]) {
                    "Namespace" => 0,
                    "CustomResourceDefinition" => 1,
                    _ => 2,
                });
                let objects = Arc::new(objects);
                self.made = Some((from, objects.clone()));
                objects
            }
        }
    }

    /// A pass failed: there will be another one.
    pub(super) fn failed(&mut self, node: NodeIndex) {
        self.looked.remove(&node.0);
    }
}

impl Pass {
    /// Installs what is missing.
    pub(super) fn at(self, api: &mut dyn Install) -> Result<(), Status> {
        if !self.inventory {
            for object in self.objects.iter() {
                let Some(object) = api.placed(object)? else { continue };
                if api.has(&object)? == Some(false) {
                    installed(api.install(object, How::Created))?;
                }
            }
            return Ok(());
        }
        let inventory = api.get(&CONFIG_MAPS, NAMESPACE, INVENTORY)?;
        if inventory.is_none() {
            api.install(self::inventory(), How::Created)?;
        }
        let mut contents =
            inventory.and_then(|it| it.get("data")?.as_object().cloned()).unwrap_or_default();
        let known = contents.len();
        for object in self.objects.iter() {
            let Some(mut object) = api.placed(object)? else { continue };
            let key = inventory_key(&object);
            let Some(there) = api.has(&object)? else { continue };
            if !contents.contains_key(&key) && !there {
                object::set(&mut object, &["metadata", "annotations", OWNER], json!(INVENTORY));
                if !installed(api.install(object, How::Applied))? {
                    continue;
                }
            }
            contents.insert(key, json!(""));
        }
        if contents.len() > known {
            let patch = json!({"data": contents});
            api.patch(&CONFIG_MAPS, NAMESPACE, INVENTORY, "", &patch)?;
        }
        Ok(())
    }
}

/// An object that the API server refuses is skipped, as nodes do.
fn installed(answer: Result<(), Status>) -> Result<bool, Status> {
    match answer {
        Ok(()) => Ok(true),
        Err(status) if matches!(status.code, 400 | 405 | 422) => Ok(false),
        Err(status) => Err(status),
    }
}

impl Install for Store {
    fn is_namespaced(&mut self, object: &Value) -> Result<Option<bool>, Status> {
        Ok(kind_of(self.types(), object).map(|kind| kind.namespaced))
    }

    fn has(&mut self, object: &Value) -> Result<Option<bool>, Status> {
        let kind = kind_of(self.types(), object).map(|kind| kind.name.clone());
        let (namespace, name) = (object::namespace(object), object::name(object));
        Ok(kind.map(|kind| Store::get(self, &kind, namespace, name).is_some()))
    }

    fn install(&mut self, object: Value, how: How) -> Result<(), Status> {
        let Some(kind) = kind_of(self.types(), &object).map(|kind| kind.name.clone()) else {
            return Err(Status::no_such_resource());
        };
        let write = Write::by(MANAGER);
        match how {
            How::Created => self.create(&write, &kind, object).map(drop),
            How::Applied => self.apply(&write, &kind, &object, "", false).map(drop),
        }
    }
}

/// The type of an object.
pub(super) fn kind_of<'a>(types: &'a Types, object: &Value) -> Option<&'a Arc<ResourceType>> {
    let (version, kind) = (object::text(object, &["apiVersion"]), object::text(object, &["kind"]));
    types.find_kind(version, kind)
}

fn inventory() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": INVENTORY, "namespace": NAMESPACE},
    })
}

/// The key of an object in an inventory: namespace, name, group and kind, where a colon in the name
/// is written as two underscores.
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
    fn inventory_keys_have_the_usual_form() {
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
