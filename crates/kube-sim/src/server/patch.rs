//! Patching, in four languages.

use serde_json::json;

use super::ApiServer;
use super::body;
use super::dispatch::{Operation, warn};
use crate::api::Reply;
use crate::object;
use crate::patch::{json_patch, merge_patch, strategic_merge_patch};
use crate::schema::Schema;
use crate::status::Status;

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
            _ => {
                let mut known = vec![JSON, MERGE];
                if !custom {
                    known.push(STRATEGIC);
                }
                known.push(APPLY);
                known.push("application/apply-patch+cbor");
                return Err(Status::unsupported_media_type(&known.join(", ")));
            }
        }
        if operation.query.has("force") {
            let why = "may not be specified for non-apply patch";
            let cause = crate::status::Cause::forbidden("force", why);
            return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", vec![cause]));
        }
        let patch = body::parse(&request.body, false)
            .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
        let storage = operation.view.storage();
        let target = &operation.target;
        let live = self.store.current(&storage, &target.namespace, &target.name)?;
        let mut object = operation.view.outgoing(live);
        match media {
            // What exactly was wrong is not told.
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
                strategic_merge_patch(&mut object, &patch, schema).map_err(Status::bad_request)?;
            }
        }
        let (object, warnings) = body::check(operation, object)?;
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
            return Err(Status::bad_request(
                "invalid object type: apiVersion and kind are required",
            ));
        }
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
