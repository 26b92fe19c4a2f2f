//! The API server operations that a kubelet needs, so that the same kubelets work with the embedded
//! API server and with a real one.

use std::sync::Arc;

use serde_json::Value;

use crate::names::{EVENTS, ResourceName};
use crate::object;
use crate::status::Status;
use crate::store::{DeleteOptions, Store, Write};
use crate::time::Time;

/// The requests of a kubelet. Patches are JSON merge patches (RFC 7386).
pub trait Api {
    /// Gets an object, if it exists.
    fn get(
        &mut self,
        resource: &ResourceName,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<Value>>, Status>;

    /// Lists all objects of a resource.
    fn list(&mut self, resource: &ResourceName) -> Result<Vec<Arc<Value>>, Status>;

    /// Creates an object in its own namespace.
    fn create(&mut self, resource: &ResourceName, object: Value) -> Result<Arc<Value>, Status>;

    /// Merges a patch into an object, or into its subresource unless that is empty.
    fn patch(
        &mut self,
        resource: &ResourceName,
        namespace: &str,
        name: &str,
        subresource: &str,
        patch: &Value,
    ) -> Result<Arc<Value>, Status>;

    /// Deletes the object with this UID immediately.
    fn delete(
        &mut self,
        resource: &ResourceName,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<(), Status>;

    /// Whether events are recorded.
    fn keeps_events(&self) -> bool {
        true
    }

    /// Whether it takes over the renewals of a node's lease, last written at `written`. Real API
    /// servers do not.
    fn take_over_lease(&mut self, _node: &str, _written: Time) -> bool {
        false
    }

    /// Ends renewals taken over before.
    fn end_lease(&mut self, _node: &str) {}
}

impl Api for Store {
    fn get(
        &mut self,
        resource: &ResourceName,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<Value>>, Status> {
        Ok(Store::get(self, resource, namespace, name).cloned())
    }

    fn list(&mut self, resource: &ResourceName) -> Result<Vec<Arc<Value>>, Status> {
        Ok(Store::list(self, resource, None).cloned().collect())
    }

    fn create(&mut self, resource: &ResourceName, object: Value) -> Result<Arc<Value>, Status> {
        Store::create(self, &write(resource), resource, object)
    }

    fn patch(
        &mut self,
        resource: &ResourceName,
        namespace: &str,
        name: &str,
        subresource: &str,
        patch: &Value,
    ) -> Result<Arc<Value>, Status> {
        let write = write(resource);
        if subresource == "status" {
            self.modify_status(&write, resource, namespace, name, |object| merge(object, patch))
        } else {
            self.modify(&write, resource, namespace, name, |object| merge(object, patch))
        }
    }

    fn delete(
        &mut self,
        resource: &ResourceName,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<(), Status> {
        let options = DeleteOptions { uid: Some(uid.to_owned()), ..DeleteOptions::now() };
        Store::delete(self, &Write::by("kubelet"), resource, namespace, name, &options).map(drop)
    }

    fn keeps_events(&self) -> bool {
        !self.is_quiet()
    }

    fn take_over_lease(&mut self, node: &str, written: Time) -> bool {
        Store::take_over_lease(self, node, written)
    }

    fn end_lease(&mut self, node: &str) {
        Store::end_lease(self, node);
    }
}

/// Events are frequent, and field ownership of them is never read.
fn write(resource: &ResourceName) -> Write {
    Write { applied: *resource == EVENTS, ..Write::by("kubelet") }
}

/// Merges as RFC 7386 says.
pub(super) fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    let object = object::map(object);
    for (field, value) in patch {
        if value.is_null() {
            object.remove(field);
        } else {
            merge(object.entry(field).or_insert(Value::Null), value);
        }
    }
}
