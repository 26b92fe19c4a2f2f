//! Deletes one object or all selected ones.

use serde_json::{Value, json};

use super::ApiServer;
use super::body;
use super::dispatch::{Operation, answer};
use super::list::Selection;
use crate::api::Reply;
use crate::object;
use crate::status::Status;
use crate::store::{DeleteOptions, Deleted, Propagation, Write};

/// Kinds whose deletion returns the object instead of a status.
const SHOWN: [&str; 6] = [
    "pods",
    "services",
    "serviceaccounts",
    "persistentvolumes",
    "persistentvolumeclaims",
    "resourcequotas",
];

impl ApiServer {
    pub(super) fn delete(&mut self, operation: &Operation<'_>) -> Result<Reply, Status> {
        let (options, write) = options(operation)?;
        let storage = operation.view.storage();
        let target = &operation.target;
        let deleted =
            self.store.delete(&write, &storage, &target.namespace, &target.name, &options)?;
        Ok(match deleted {
            Deleted::Gone(object)
                if !(storage.group.is_empty() && SHOWN.contains(&storage.plural.as_ref())) =>
            {
                let uid = object::uid(&object);
                answer(200, &Status::success(&storage, &target.name, uid).to_value())
            }
            Deleted::Gone(object) | Deleted::Marked(object) => {
                self.show(200, &operation.view, &object)
            }
        })
    }

    pub(super) fn delete_collection(&mut self, operation: &Operation<'_>) -> Result<Reply, Status> {
        let (options, write) = options(operation)?;
        let selection = Selection::of(operation)?;
        let storage = operation.view.storage();
        let names: Vec<(String, String)> = self
            .store
            .list(&storage, operation.namespace())
            .filter(|object| selection.matches(object))
            .map(|object| (object::namespace(object).to_owned(), object::name(object).to_owned()))
            .collect();
        let mut gone = Vec::new();
        for (namespace, name) in names {
            if let Ok(Deleted::Gone(object) | Deleted::Marked(object)) =
                self.store.delete(&write, &storage, &namespace, &name, &options)
            {
                gone.push(object);
            }
        }
        let metadata = json!({"resourceVersion": self.store.revision().to_string()});
        let objects = gone.iter().map(AsRef::as_ref);
        Ok(answer(200, &operation.view.many(objects, &metadata, self.store.now())))
    }
}

/// `DeleteOptions` from the body or the query; both are optional.
fn options(operation: &Operation<'_>) -> Result<(DeleteOptions, Write), Status> {
    let request = operation.request;
    let mut given = json!({});
    if !request.body.is_empty() {
        let yaml = request.content_type.contains("yaml");
        given = body::parse(&request.body, yaml).map_err(|error| {
            let why = format!("couldn't get version/kind; json parse error: {error}");
            Status::bad_request(why)
        })?;
    }
    let query = &operation.query;
    if let Ok(seconds) = query.get("gracePeriodSeconds").parse::<i64>() {
        object::set(&mut given, &["gracePeriodSeconds"], seconds);
    }
    if query.has("propagationPolicy") {
        object::set(&mut given, &["propagationPolicy"], query.get("propagationPolicy"));
    }
    let write = Write {
        dry_run: operation.write.dry_run
            || object::list(&given, &["dryRun"]).iter().any(|mode| mode == "All"),
        ..operation.write.clone()
    };
    Ok((from_value(&given)?, write))
}

/// Parses `DeleteOptions`.
pub(super) fn from_value(given: &Value) -> Result<DeleteOptions, Status> {
    let text = |path: &[&str]| {
        Some(object::text(given, path)).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let propagation = match object::text(given, &["propagationPolicy"]) {
        "" if object::at(given, &["orphanDependents"]) == Some(&json!(true)) => {
            Some(Propagation::Orphan)
        }
        "" => None,
        "Background" => Some(Propagation::Background),
        "Foreground" => Some(Propagation::Foreground),
        "Orphan" => Some(Propagation::Orphan),
        other => {
            let cause = crate::status::Cause {
                reason: "FieldValueNotSupported",
                message: format!(
                    "Unsupported value: {other:?}: supported values: \"Foreground\", \
                     \"Background\", \"Orphan\", \"nil\""
                ),
                field: "propagationPolicy".to_owned(),
            };
            return Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", vec![cause]));
        }
    };
    Ok(DeleteOptions {
        grace_period_seconds: object::number(given, &["gracePeriodSeconds"]),
        propagation,
        uid: text(&["preconditions", "uid"]),
        resource_version: text(&["preconditions", "resourceVersion"]),
    })
}
