//! Patch requests of all four types.

use serde_json::{Value, json};

use super::ApiServer;
use super::body;
use super::dispatch::{Operation, warn};
use crate::api::Reply;
use crate::object;
use crate::patch::{go, json_patch, merge_patch, strategic_merge_patch};
use crate::schema::Schema;
use crate::status::Status;
use crate::store::unknown;

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

impl ApiServer {
    pub(super) fn patch(&mut self, operation: &Operation<'_>) -> Result<Reply, Status> {
        let request = operation.request;
        let media = request.content_type.split(';').next().unwrap_or_default().trim();
        let custom = operation.kind().definition.is_some();
        match media {
            APPLY => return self.apply(operation),
            JSON | MERGE => {}
            STRATEGIC if !custom => {}
            _ if custom => {
                return Err(Status::unsupported_media_type(&[JSON, MERGE, APPLY].join(", ")));
            }
            _ => return Err(Status::unsupported_patch()),
        }
        if operation.query.has("force") {
            let why = "may not be specified for non-apply patch";
            let cause = crate::status::Cause::forbidden("force", why);
            return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", vec![cause]));
        }
        let patch = body::parse(&request.body, false)
            .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
        if media == JSON && !patch.is_array() {
            return Err(Status::bad_request(format!(
                "error decoding patch: json: cannot unmarshal {} into Go value of type \
                 []handlers.jsonPatchOp",
                if patch.is_object() { "object" } else { "value" }
            )));
        }
        let storage = operation.view.storage();
        let target = &operation.target;
        let live = self.store.current(&storage, &target.namespace, &target.name)?;
        let mut object = operation.view.outgoing(live);
        match media {
            // A real API server does not report the detail either.
            JSON => json_patch(&mut object, &patch).map_err(|_| Status {
                code: 422,
                reason: "Invalid",
                message: "the server rejected our request due to an error in our request"
                    .to_owned(),
                details: Some(Box::default()),
            })?,
            MERGE => merge_patch(&mut object, &patch),
            _ => {
                let schema = Schema::of_version(operation.kind(), &operation.view.version);
                if misplaced(&patch, schema) {
                    return Err(Status::bad_patch(&go(&patch), "cannot restore slice from map"));
                }
                strategic_merge_patch(&mut object, &patch, schema).map_err(Status::failure)?;
            }
        }
        let shown = object.to_string();
        let (object, warnings) = body::check(operation, object).map_err(|status| {
            // An object that cannot be decoded was broken by the patch.
            match status.message.split_once(" cannot be handled as a ") {
                Some((_, why)) if status.code == 400 && !status.message.contains("strict") => {
                    Status::bad_patch(&shown, why.split_once(": ").map_or(why, |(_, why)| why))
                }
                _ => status,
            }
        })?;
        let sub = &target.subresource;
        let changed = self.store.replace(&operation.write, &storage, object, sub)?;
        Ok(warn(self.show(200, &operation.view, &changed), warnings))
    }

    fn apply(&mut self, operation: &Operation<'_>) -> Result<Reply, Status> {
        if operation.query.get("fieldManager").is_empty() {
            let why = "is required for apply patch";
            let cause = crate::status::Cause::required("fieldManager", why);
            return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", vec![cause]));
        }
        let config = body::parse(&operation.request.body, true)
            .map_err(|error| Status::bad_request(format!("error decoding YAML: {error}")))?;
        let managed = object::list(&config, &["metadata", "managedFields"]);
        if !managed.is_empty() {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        if object::text(&config, &["apiVersion"]).is_empty()
            || object::text(&config, &["kind"]).is_empty()
        {
            let (version, kind) =
                (object::text(&config, &["apiVersion"]), object::text(&config, &["kind"]));
            let version =
                if version.contains('/') { version.to_owned() } else { format!("/{version}") };
            let message = format!("invalid object type: {version}, Kind={kind}");
            return Err(Status::bad_request(message));
        }
        undeclared(operation, &config)?;
        let (mut config, warnings) = body::check(operation, config)?;
        object::set(&mut config, &["apiVersion"], json!(operation.kind().api_version()));
        let force = operation.query.flag("force");
        let storage = operation.view.storage();
        let sub = &operation.target.subresource;
        let (object, existed) =
            self.store.apply(&operation.write, &storage, &config, sub, force)?;
        let status = if existed { 200 } else { 201 };
        Ok(warn(self.show(status, &operation.view, &object), warnings))
    }
}

/// Rejects fields in an applied configuration that the kind does not have.
fn undeclared(operation: &Operation<'_>, config: &Value) -> Result<(), Status> {
    let kind = operation.kind();
    let schema = Schema::of_version(kind, &operation.view.version);
    let unknown = unknown::prune(&mut config.clone(), schema);
    if unknown.is_empty() || kind.definition.is_some() {
        return Ok(());
    }
    let mut words: Vec<String> =
        unknown.iter().map(|field| format!(".{field}: field not declared in schema")).collect();
    if words.len() > 1 {
        words.insert(0, "errors:".to_owned());
    }
    let (group, version) = (&kind.name.group, &operation.view.version);
    Err(Status::failure(format!(
        "failed to create typed patch object ({}/{}; {group}/{version}, Kind={}): {}",
        object::namespace(config),
        object::name(config),
        kind.kind,
        words.join("\n  ")
    )))
}

/// Whether a patch has a map where the schema has a list.
fn misplaced(patch: &Value, schema: Schema<'_>) -> bool {
    let Value::Object(map) = patch else { return false };
    map.iter().any(|(field, value)| {
        let inner = schema.field(field);
        value.is_object() && (inner.type_name() == "array" || misplaced(value, inner))
    })
}
