//! Garbage collection: deletes objects whose owners are gone, and carries out the propagation
//! policies.

use serde_json::Value;

use super::index::reference;
use super::{Controllers, Kind, manager};
use crate::names::ResourceName;
use crate::object;
use crate::store::{Change, ChangeKind, DeleteOptions, Propagation, Store};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

fn has(object: &Value, finalizer: &str) -> bool {
    object::list(object, &["metadata", "finalizers"]).iter().any(|name| name == finalizer)
}

fn owners(object: &Value) -> &[Value] {
    object::list(object, &["metadata", "ownerReferences"])
}

/// The resource and the object that an owner reference names: `None` if the kind is unknown, no
/// object if it is gone.
fn owner_of<'a>(
    store: &'a Store,
    namespace: &str,
    owner: &Value,
) -> Option<(ResourceName, Option<&'a Value>)> {
    let (version, kind) = (object::text(owner, &["apiVersion"]), object::text(owner, &["kind"]));
    let kind = store.types().find_kind(version, kind)?;
    let namespace = if kind.namespaced { namespace } else { "" };
    let found = store
        .get(&kind.name, namespace, object::text(owner, &["name"]))
        .filter(|found| object::uid(found) == object::text(owner, &["uid"]));
    Some((kind.name.clone(), found.map(AsRef::as_ref)))
}

impl Controllers {
    pub(super) fn mark_for_collection(&mut self, store: &Store, change: &Change) {
        let Change { resource, object, previous, .. } = change;
        let (namespace, name) = (object::namespace(object), object::name(object));
        if change.kind == ChangeKind::Deleted {
            let left = self.index.dependents.get(object::uid(object)).cloned().unwrap_or_default();
            for (resource, namespace, name) in left {
                self.enqueue(Kind::Collect(resource), &namespace, &name);
            }
            for owner in owners(object) {
                if let Some((resource, Some(found))) = owner_of(store, namespace, owner)
                    && has(found, FOREGROUND)
                {
                    let namespace = object::namespace(found).to_owned();
                    let name = object::name(found).to_owned();
                    self.enqueue(Kind::Collect(resource), &namespace, &name);
                }
            }
            return;
        }
        let before = previous.as_ref().map_or(&[][..], |previous| owners(previous));
        let new_owners = !owners(object).is_empty() && before != owners(object);
        let propagates =
            object::is_deleting(object) && (has(object, FOREGROUND) || has(object, ORPHAN));
        if new_owners || propagates {
            self.enqueue(Kind::Collect(resource.clone()), namespace, name);
        }
    }

    pub(super) fn collect(
        &mut self,
        store: &mut Store,
        resource: &ResourceName,
        namespace: &str,
        name: &str,
    ) {
        let Some(object) = store.get(resource, namespace, name).cloned() else { return };
        if object::is_deleting(&object) && has(&object, ORPHAN) {
            self.release(store, object::uid(&object));
            return drop_finalizer(store, resource, &object, ORPHAN);
        }
        if object::is_deleting(&object) && has(&object, FOREGROUND) {
            return self.delete_dependents(store, resource, &object);
        }
        if object::is_deleting(&object) || owners(&object).is_empty() {
            return;
        }
        let mut kept = Vec::new();
        for owner in owners(&object) {
            match owner_of(store, namespace, owner) {
                Some((_, None)) => {}
                _ => kept.push(owner.clone()),
            }
        }
        if kept.is_empty() {
            let options = DeleteOptions {
                uid: Some(object::uid(&object).to_owned()),
                propagation: Some(Propagation::Background),
                ..DeleteOptions::default()
            };
            let _ = store.delete(&manager(), resource, namespace, name, &options);
        } else if kept.len() != owners(&object).len() {
            let _ = store.modify(&manager(), resource, namespace, name, |object| {
                object::set(object, &["metadata", "ownerReferences"], kept);
            });
        }
    }

    /// Removes the owner reference from the dependents of an owner (`Orphan`).
    fn release(&self, store: &mut Store, uid: &str) {
        let dependents = self.index.dependents.get(uid).cloned().unwrap_or_default();
        for (resource, namespace, name) in dependents {
            let _ = store.modify(&manager(), &resource, &namespace, &name, |object| {
                let mut kept = owners(object).to_vec();
                kept.retain(|owner| object::text(owner, &["uid"]) != uid);
                object::set(object, &["metadata", "ownerReferences"], kept);
            });
        }
    }

    /// Deletes the dependents first; the owner goes when no blocking dependent is left.
    fn delete_dependents(&self, store: &mut Store, resource: &ResourceName, owner: &Value) {
        let uid = object::uid(owner);
        let own = reference(resource, owner);
        let mut blocked = false;
        for (resource, namespace, name) in
            self.index.dependents.get(uid).cloned().unwrap_or_default()
        {
            let Some(object) = store.get(&resource, &namespace, &name).cloned() else { continue };
            if (resource.clone(), namespace.clone(), name.clone()) == own {
                continue;
            }
            if !object::is_deleting(&object) {
                let options = DeleteOptions {
                    uid: Some(object::uid(&object).to_owned()),
                    propagation: Some(Propagation::Foreground),
                    ..DeleteOptions::default()
                };
                let _ = store.delete(&manager(), &resource, &namespace, &name, &options);
            }
            let blocks = owners(&object).iter().any(|owner| {
                object::text(owner, &["uid"]) == uid && object::flag(owner, &["blockOwnerDeletion"])
            });
            blocked |= blocks && store.get(&resource, &namespace, &name).is_some();
        }
        if !blocked {
            drop_finalizer(store, resource, owner, FOREGROUND);
        }
    }
}

fn drop_finalizer(store: &mut Store, resource: &ResourceName, object: &Value, finalizer: &str) {
    let (namespace, name) = (object::namespace(object), object::name(object));
    let _ = store.modify(&manager(), resource, namespace, name, |object| {
        let mut kept = object::list(object, &["metadata", "finalizers"]).to_vec();
        kept.retain(|name| name != finalizer);
        object::set(object, &["metadata", "finalizers"], kept);
    });
}
