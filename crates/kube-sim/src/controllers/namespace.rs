//! Namespaces: creates their default objects, and deletes their content.

use serde_json::{Value, json};

use super::{Controllers, manager};
use crate::names::{CONFIG_MAPS, NAMESPACES, ResourceName, SERVICE_ACCOUNTS};
use crate::object;
use crate::store::{DeleteOptions, Store};

/// A config map that is recreated in every namespace.
pub(super) const ROOT_CA: &str = "kube-root-ca.crt";

impl Controllers {
    #[expect(clippy::unused_self, reason = "as all controllers are called")]
    pub(super) fn namespace(&mut self, store: &mut Store, name: &str) {
        let Some(namespace) = store.get(&NAMESPACES, "", name).cloned() else { return };
        if !object::is_deleting(&namespace) {
            let account = json!({"metadata": {"name": "default", "namespace": name}});
            ensure(store, &SERVICE_ACCOUNTS, account);
            let certificate = json!({
                "metadata": {"name": ROOT_CA, "namespace": name},
                "data": {"ca.crt": ""},
            });
            ensure(store, &CONFIG_MAPS, certificate);
            return;
        }
        let kinds: Vec<ResourceName> = store
            .types()
            .iter()
            .filter(|kind| kind.namespaced && kind.stored)
            .map(|kind| kind.name.clone())
            .collect();
        let mut left = false;
        for resource in kinds {
            let objects: Vec<_> = store.list(&resource, Some(name)).cloned().collect();
            for object in objects {
                if !object::is_deleting(&object) {
                    let options = DeleteOptions::default();
                    let own = object::name(&object);
                    let _ = store.delete(&manager(), &resource, name, own, &options);
                }
                left |= store.get(&resource, name, object::name(&object)).is_some();
            }
        }
        if !left {
            let _ = store.modify(&manager(), &NAMESPACES, "", name, |namespace| {
                object::set(namespace, &["spec", "finalizers"], json!([]));
            });
        }
    }
}

fn ensure(store: &mut Store, resource: &ResourceName, object: Value) {
    if store.get(resource, object::namespace(&object), object::name(&object)).is_none() {
        let _ = store.create(&manager(), resource, object);
    }
}
