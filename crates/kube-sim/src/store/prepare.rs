//! The steps before an object is stored.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::metadata::{check_metadata, check_metadata_update};
use super::{Store, Write, defaults, kinds, structural};
use crate::fields;
use crate::names::{NAMESPACES, NODES, PODS};
use crate::object;
use crate::status::{Cause, Status};
use crate::types::ResourceType;

/// The longest prefix of a generated name; a longer one is cut to leave room for the suffix.
const GENERATED_PREFIX: usize = 58;

impl Store {
    /// A new object as stored, without its revision.
    pub(super) fn prepare_create(
        &mut self,
        write: &Write,
        kind: &Arc<ResourceType>,
        mut new: Value,
    ) -> Result<Value, Status> {
        object::set(&mut new, &["apiVersion"], kind.api_version());
        object::set(&mut new, &["kind"], kind.kind.clone());
        let uid = self.random.uuid();
        let created = self.now.to_text();
        let metadata = object::metadata(&mut new);
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"] {
            metadata.remove(field);
        }
        if !object::is_blank(metadata.remove("resourceVersion").as_ref()) {
            let message = "resourceVersion should not be set on objects to be created".to_owned();
            return Err(Status { code: 500, reason: "", message, details: None });
        }
        metadata.insert("uid".to_owned(), json!(uid));
        metadata.insert("creationTimestamp".to_owned(), json!(created));
        if kind.generation {
            metadata.insert("generation".to_owned(), json!(1));
        }
        if object::is_blank(metadata.get("name"))
            && let Some(prefix) = metadata.get("generateName").and_then(Value::as_str)
        {
            let cut: String = prefix.chars().take(GENERATED_PREFIX).collect();
            let name = format!("{cut}{}", self.random.suffix(5));
            metadata.insert("name".to_owned(), json!(name));
        }
        if !kind.namespaced {
            metadata.remove("namespace");
        }
        self.check_namespace(kind, &new)?;
        if kind.status && kind.name != NODES {
            object::map(&mut new).remove("status");
        }
        let mut causes = complete(kind, &mut new);
        check_metadata(kind, &new, &mut causes);
        if !causes.is_empty() {
            return Err(Status::invalid(&kind.name.group, &kind.kind, object::name(&new), causes));
        }
        if self.tracks(write) {
            let time = self.now.to_text();
            fields::track(kind, None, &mut new, &write.manager, "", &time);
        }
        defaults::born(kind, &mut new);
        kinds::admit(kind, &mut new);
        Ok(new)
    }

    /// Rejects new objects in a namespace that is missing or terminating.
    fn check_namespace(&self, kind: &ResourceType, new: &Value) -> Result<(), Status> {
        if !kind.namespaced {
            return Ok(());
        }
        let name = object::namespace(new);
        let namespace = self.current(&NAMESPACES, "", name)?;
        if object::is_deleting(namespace) {
            let why = format!(
                "unable to create new content in namespace {name} because it is being terminated"
            );
            let mut status = Status::forbidden(&kind.name, object::name(new), &why);
            status.details.get_or_insert_default().causes.push(Cause {
                reason: "NamespaceTerminating",
                message: format!("namespace {name} is being terminated"),
                field: "metadata.namespace".to_owned(),
            });
            return Err(status);
        }
        Ok(())
    }

    /// An updated object as stored, without its revision.
    pub(super) fn prepare_update(
        &mut self,
        write: &Write,
        kind: &Arc<ResourceType>,
        old: &Arc<Value>,
        mut new: Value,
        subresource: &str,
    ) -> Result<Value, Status> {
        let name = object::name(old).to_owned();
        let given = object::text(&new, &["metadata", "resourceVersion"]);
        if !given.is_empty() && given != object::text(old, &["metadata", "resourceVersion"]) {
            return Err(Status::modified(&kind.name, &name));
        }
        let uid = object::uid(&new);
        if !uid.is_empty() && uid != object::uid(old) {
            let place = [object::namespace(old), &name].join("/");
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: /registry/{}/{}, ResourceVersion: 0, \
                 AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object \
                 meta: {}",
                kind.name.plural,
                place.trim_start_matches('/'),
                object::uid(old)
            );
            return Err(Status::conflict(&kind.name, &name, &why));
        }
        object::set(&mut new, &["apiVersion"], kind.api_version());
        object::set(&mut new, &["kind"], kind.kind.clone());
        if subresource == "status" {
            with_status(kind, old, &mut new);
        } else if kind.status {
            keep(old, object::map(&mut new), "status");
        }
        keep_metadata(kind, old, &mut new);
        // Everything but the status and a few labels is unchanged, and so already complete.
        let complete_already =
            subresource == "status" && kind.definition.is_none() && kind.name != NAMESPACES;
        let mut causes = if complete_already { Vec::new() } else { complete(kind, &mut new) };
        defaults::born(kind, &mut new);
        if !complete_already {
            kinds::admit_update(kind, &mut new);
        }
        check_metadata(kind, &new, &mut causes);
        check_metadata_update(old, &new, &mut causes);
        kinds::check_update(kind, old, &new, &mut causes);
        if !causes.is_empty() {
            return Err(Status::invalid(&kind.name.group, &kind.kind, &name, causes));
        }
        if kind.generation && subresource != "status" && differs(old, &new) {
            let generation = object::number(old, &["metadata", "generation"]).unwrap_or(0) + 1;
            object::set(&mut new, &["metadata", "generation"], generation);
        }
        if self.tracks(write) {
            let time = self.now.to_text();
            fields::track(kind, Some(old), &mut new, &write.manager, subresource, &time);
        }
        Ok(new)
    }
}

/// Whether nothing blocks the removal of an object that is being deleted.
pub(super) fn is_finished(object: &Value) -> bool {
    object::is_deleting(object)
        && object::list(object, &["metadata", "finalizers"]).is_empty()
        && object::list(object, &["spec", "finalizers"]).is_empty()
        && object::number(object, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0) == 0
}

/// Keeps only the status of the new object and restores everything else. For nodes, pods and
/// namespaces the labels and annotations are kept too, as kubelets expect.
fn with_status(kind: &ResourceType, old: &Value, new: &mut Value) {
    let own: &[&str] = if [&NODES, &PODS, &NAMESPACES].contains(&&kind.name) {
        &["managedFields", "labels", "annotations", "finalizers"]
    } else {
        &["managedFields"]
    };
    let managed = object::at(new, &["metadata", "managedFields"]).is_some();
    if let (Some(Value::Object(before)), new) = (old.get("metadata"), object::metadata(new)) {
        keep_all(before, new, own);
        if !managed {
            keep_in(before, new, "managedFields");
        }
    }
    if let Value::Object(before) = old {
        keep_all(before, object::map(new), &["metadata", "status"]);
    }
}

/// Restores all fields except some.
fn keep_all(before: &Map<String, Value>, new: &mut Map<String, Value>, except: &[&str]) {
    new.retain(|field, _| except.contains(&field.as_str()) || before.contains_key(field));
    for field in before.keys().filter(|field| !except.contains(&field.as_str())) {
        keep_in(before, new, field);
    }
}

fn keep(old: &Value, new: &mut Map<String, Value>, field: &str) {
    if let Value::Object(before) = old {
        keep_in(before, new, field);
    }
}

/// Restores a field. Most are unchanged, and comparing is cheaper than copying.
fn keep_in(before: &Map<String, Value>, new: &mut Map<String, Value>, field: &str) {
    match before.get(field) {
        same if same == new.get(field) => {}
        Some(value) => drop(new.insert(field.to_owned(), value.clone())),
        None => drop(new.remove(field)),
    }
}

/// Restores the metadata that no caller can change.
fn keep_metadata(kind: &ResourceType, old: &Value, new: &mut Value) {
    const KEPT: [&str; 8] = [
        "name",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "generateName",
        "resourceVersion",
    ];
    let metadata = object::metadata(new);
    if let Some(Value::Object(before)) = old.get("metadata") {
        for field in KEPT {
            keep_in(before, metadata, field);
        }
    }
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        if metadata.get(field).is_some_and(|value| object::is_blank(Some(value))) {
            metadata.remove(field);
        }
    }
    if kind.namespaced {
        metadata.insert("namespace".to_owned(), json!(object::namespace(old)));
    } else {
        metadata.remove("namespace");
    }
}

/// Whether anything but metadata and status differs.
fn differs(old: &Value, new: &Value) -> bool {
    let rest = |object: &'_ Value| {
        let fields = object.as_object().into_iter().flatten();
        fields.filter(|(field, _)| !["metadata", "status"].contains(&field.as_str())).count()
    };
    let same = |(field, value): (&String, &Value)| {
        ["metadata", "status"].contains(&field.as_str()) || new.get(field) == Some(value)
    };
    rest(old) != rest(new) || !old.as_object().into_iter().flatten().all(same)
}

/// Defaults and validation, those of the kind or those of its schema.
fn complete(kind: &ResourceType, new: &mut Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if kind.definition.is_some() {
        structural::complete(kind, new, &mut causes);
    } else {
        defaults::fill(kind, new);
        kinds::check(kind, new, &mut causes);
    }
    causes
}
