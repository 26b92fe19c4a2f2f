//! Deletion: immediate, or after finalizers and grace periods.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Store, Write};
use crate::names::{NAMESPACES, PODS, ResourceName};
use crate::object;
use crate::status::Status;
use crate::types::ResourceType;

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The dependents are deleted after it.
    Background,
    /// The dependents are deleted before it.
    Foreground,
    /// The dependents stay without an owner.
    Orphan,
}

/// How to delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// The grace period of a pod; `None` for the pod's own.
    pub grace_period_seconds: Option<i64>,
    /// What happens to its dependents.
    pub propagation: Option<Propagation>,
    /// A precondition: the object's UID.
    pub uid: Option<String>,
    /// A precondition: the object's version.
    pub resource_version: Option<String>,
}

impl DeleteOptions {
    /// Immediate deletion.
    pub fn now() -> Self {
        Self { grace_period_seconds: Some(0), ..Self::default() }
    }
}

/// The outcome of a deletion.
#[derive(Clone, Debug, PartialEq)]
pub enum Deleted {
    /// It is gone; this was its last state.
    Gone(Arc<Value>),
    /// It is marked, and goes when its finalizers and its kubelet are done.
    Marked(Arc<Value>),
}

impl Store {
    /// Deletes an object, or marks it to be deleted.
    pub fn delete(
        &mut self,
        write: &Write,
        resource: &ResourceName,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        let kind = self.kind(resource)?;
        let old = self.current(resource, namespace, name)?.clone();
        check(&kind, &old, options)?;
        let mut new = old.as_ref().clone();
        set_finalizers(&mut new, options);
        let grace = grace(&kind, &old, options);
        let waits = grace > 0
            || !object::list(&new, &["metadata", "finalizers"]).is_empty()
            || !object::list(&new, &["spec", "finalizers"]).is_empty();
        if !waits && kind.name == PODS {
            // Set the timestamp even for a grace period of zero, so that watches see it.
            object::set(&mut new, &["metadata", "deletionTimestamp"], self.now.to_text());
            object::set(&mut new, &["metadata", "deletionGracePeriodSeconds"], 0);
            count_up(&old, &mut new);
        }
        if !waits {
            return Ok(Deleted::Gone(self.take(write, &kind, &old, new)));
        }
        let earlier = object::number(&old, &["metadata", "deletionGracePeriodSeconds"]);
        if !object::is_deleting(&old) || earlier.is_some_and(|earlier| grace < earlier) {
            let seconds = u64::try_from(grace).unwrap_or(0);
            let at = self.now.plus(Duration::from_secs(seconds)).to_text();
            object::set(&mut new, &["metadata", "deletionTimestamp"], at);
            object::set(&mut new, &["metadata", "deletionGracePeriodSeconds"], grace);
            if kind.generation {
                count_up(&old, &mut new);
            }
        }
        if kind.name == NAMESPACES {
            object::set(&mut new, &["status", "phase"], "Terminating");
            object::remove(&mut new, &["metadata", "deletionGracePeriodSeconds"]);
        }
        if new == *old {
            return Ok(Deleted::Marked(old));
        }
        Ok(Deleted::Marked(self.put(write, &kind, Some(old), new)))
    }
}

/// A deletion timestamp increments the generation.
fn count_up(old: &Value, new: &mut Value) {
    let generation = object::number(old, &["metadata", "generation"]).unwrap_or(0);
    object::set(new, &["metadata", "generation"], generation + 1);
}

fn check(kind: &ResourceType, old: &Value, options: &DeleteOptions) -> Result<(), Status> {
    // This error names the kind, not the resource.
    let conflict = |what: &str, wanted: &str, found: &str, how: &str| {
        let why = format!(
            "the {what} in the precondition ({wanted}) does not match the {what} in record \
             ({found}). The object might have been {how}"
        );
        let resource = ResourceName::owned(&kind.name.group, &kind.kind);
        Err(Status::conflict(&resource, object::name(old), &why))
    };
    if let Some(wanted) = &options.uid
        && wanted != object::uid(old)
    {
        return conflict("UID", wanted, object::uid(old), "deleted and then recreated");
    }
    let found = object::text(old, &["metadata", "resourceVersion"]);
    if let Some(wanted) = &options.resource_version
        && wanted != found
    {
        return conflict("ResourceVersion", wanted, found, "modified");
    }
    Ok(())
}

/// The grace period; only a pod that runs on a node has one.
fn grace(kind: &ResourceType, old: &Value, options: &DeleteOptions) -> i64 {
    if kind.name != PODS
        || object::text(old, &["spec", "nodeName"]).is_empty()
        || ["Succeeded", "Failed"].contains(&object::text(old, &["status", "phase"]))
    {
        return 0;
    }
    let own = object::number(old, &["spec", "terminationGracePeriodSeconds"]).unwrap_or(30);
    let running = object::number(old, &["metadata", "deletionGracePeriodSeconds"]);
    let wanted = options.grace_period_seconds.unwrap_or(running.unwrap_or(own)).max(0);
    // A running grace period can only be shortened.
    running.map_or(wanted, |running| wanted.min(running))
}

/// Propagation policies are two finalizers that the garbage collector removes.
fn set_finalizers(new: &mut Value, options: &DeleteOptions) {
    let Some(propagation) = options.propagation else { return };
    let mut finalizers: Vec<Value> = object::list(new, &["metadata", "finalizers"]).to_vec();
    finalizers.retain(|name| name != "orphan" && name != "foregroundDeletion");
    match propagation {
        Propagation::Background => {}
        Propagation::Foreground => finalizers.push(json!("foregroundDeletion")),
        Propagation::Orphan => finalizers.push(json!("orphan")),
    }
    if finalizers.is_empty() {
        object::remove(new, &["metadata", "finalizers"]);
    } else {
        object::set(new, &["metadata", "finalizers"], finalizers);
    }
}
