//! Lists: selected, in pages, at the current or an earlier version.

use std::sync::Arc;

use base64::Engine as _;
use serde_json::{Value, json};

use super::ApiServer;
use super::dispatch::{Operation, answer, body};
use crate::api::Reply;
use crate::object;
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::{Cause, Status};
use crate::store::{Key, Stored};

const TOKEN: base64::engine::GeneralPurpose = base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The objects that a list, a watch or a delete collection selects.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    pub(super) labels: LabelSelector,
    pub(super) fields: FieldSelector,
    /// The name, if a path names a single object.
    pub(super) name: String,
}

impl Selection {
    pub(super) fn of(operation: &Operation<'_>) -> Result<Self, Status> {
        let query = &operation.query;
        let kind = operation.kind();
        let custom: Vec<String> = kind
            .definition
            .iter()
            .flat_map(|definition| object::list(definition, &["spec", "versions"]))
            .flat_map(|version| object::list(version, &["selectableFields"]))
            .map(|field| object::text(field, &["jsonPath"]).trim_start_matches('.').to_owned())
            .collect();
        let resource = operation.view.storage();
        Ok(Self {
            labels: LabelSelector::parse(query.get("labelSelector"))?,
            fields: FieldSelector::parse(query.get("fieldSelector"), &resource, &custom)?,
            name: operation.target.name.clone(),
        })
    }

    /// The same without decoding the object if no selector needs it.
    pub(super) fn matches_stored(&self, stored: &Stored) -> bool {
        self.is_everything() || self.matches(stored.value())
    }

    fn is_everything(&self) -> bool {
        self.name.is_empty() && self.labels.is_everything() && self.fields.is_everything()
    }

    pub(super) fn matches(&self, object: &Value) -> bool {
        (self.name.is_empty() || self.name == object::name(object))
            && self.labels.matches(object)
            && self.fields.matches(object)
    }
}

fn key(object: &Value) -> Key {
    (object::namespace(object).to_owned(), object::name(object).to_owned())
}

impl ApiServer {
    pub(super) fn list(&self, operation: &Operation<'_>) -> Result<Reply, Status> {
        let query = &operation.query;
        let selection = Selection::of(operation)?;
        let storage = operation.view.storage();
        let namespace = operation.namespace();
        let current = self.store.revision();
        let (revision, after) = self.start(operation)?;
        let objects: Vec<Arc<Stored>> = if revision == current {
            let all = self.store.list_stored(&storage, namespace);
            let rest = all.skip_while(|(key, _)| after.as_ref().is_some_and(|after| *key <= after));
            rest.map(|(_, stored)| stored.clone()).collect()
        } else {
            let then = self.store.list_at(&storage, namespace, revision).ok_or_else(|| {
                Status::expired(
                    "The provided continue parameter is too old to display a consistent list \
                     result. You can start a new list without the continue parameter, or use the \
                     continue token in this response to retrieve the remainder of the results. \
                     Continuing with the provided token results in an inconsistent list - objects \
                     that were created, modified, or deleted between the time the first chunk was \
                     returned and now may show up in the list.",
                )
            })?;
            then.into_iter()
                .filter(|object| after.as_ref().is_none_or(|after| key(object) > *after))
                .map(|object| Arc::new(Stored::from_value(object)))
                .collect()
        };
        // Without a limit, no continue token is needed.
        let limited = !query.get("limit").is_empty();
        let last_key = objects.last().filter(|_| limited).map(|stored| key(stored.value()));
        let mut found = objects;
        found.retain(|stored| selection.matches_stored(stored));
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        let limit = match query.get("limit") {
            "" => 0,
            text => text.parse().map_err(|_| {
                let why = format!("strconv.ParseInt: parsing {text:?}: invalid syntax");
                Status::bad_request(why)
            })?,
        };
        // With a selector, the list continues while any object is left.
        let ends = found.last().is_none_or(|last| last_key.as_ref() == Some(&key(last.value())));
        if limit > 0 && (found.len() > limit || found.len() == limit && !ends) {
            let remaining = found.len() - limit;
            found.truncate(limit);
            if let Some(last) = found.last() {
                let (namespace, name) = key(last.value());
                let token = json!({"rv": revision, "namespace": namespace, "name": name});
                metadata["continue"] = json!(TOKEN.encode(token.to_string()));
            }
            // With a selector, the remaining count is unknown.
            if query.get("labelSelector").is_empty() && query.get("fieldSelector").is_empty() {
                metadata["remainingItemCount"] = json!(remaining);
            }
        }
        if operation.view.is_plain() {
            let texts = found.iter().map(|stored| &**stored.text());
            return Ok(body(200, operation.view.plain_list(texts, &metadata)));
        }
        let objects = found.iter().map(|stored| stored.value().as_ref());
        Ok(answer(200, &operation.view.many(objects, &metadata, self.store.now())))
    }

    /// The revision to list at, and the last object of the previous page.
    fn start(&self, operation: &Operation<'_>) -> Result<(u64, Option<(String, String)>), Status> {
        let query = &operation.query;
        let current = self.store.revision();
        let token = query.get("continue");
        if !token.is_empty() {
            let bad = || Status::bad_request("invalid continue token: continue key is not valid");
            let bytes = TOKEN.decode(token).map_err(|_| bad())?;
            let token: Value = serde_json::from_slice(&bytes).map_err(|_| bad())?;
            let revision = token["rv"].as_u64().ok_or_else(bad)?;
            let text = |field: &str| object::text(&token, &[field]).to_owned();
            return Ok((revision, Some((text("namespace"), text("name")))));
        }
        let text = query.get("resourceVersion");
        let invalid = |field: &str, why: &str| {
            let cause = Cause::forbidden(field, why);
            Status::invalid("meta.k8s.io", "ListOptions", "", vec![cause])
        };
        let wanted: u64 = match text {
            "" => 0,
            text => text.parse().map_err(|_| {
                Status::bad_request(format!(
                    "invalid resource version: resourceVersion: Invalid value: {text:?}: \
                     strconv.ParseUint: parsing {text:?}: invalid syntax"
                ))
            })?,
        };
        let matching = query.get("resourceVersionMatch");
        if !["", "Exact", "NotOlderThan"].contains(&matching) {
            let known = ["Exact", "NotOlderThan", ""];
            let cause = Cause::unsupported("resourceVersionMatch", matching, &known);
            return Err(Status::invalid("meta.k8s.io", "ListOptions", "", vec![cause]));
        }
        if wanted > current {
            return Err(Status::too_large_version(wanted, current));
        }
        match matching {
            _ if text.is_empty() && query.has("resourceVersionMatch") => Err(invalid(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            )),
            "Exact" if wanted == 0 => Err(invalid(
                "resourceVersionMatch",
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            )),
            "Exact" => {
                if wanted < self.store.compacted() {
                    return Err(Status::expired(format!(
                        "The resourceVersion for the provided list is too old: {wanted}"
                    )));
                }
                Ok((wanted, None))
            }
            _ => Ok((current, None)),
        }
    }
}
