//! From a request to a verb.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::ApiServer;
use super::path::Target;
use super::query::Query;
use super::watch::Watch;
use crate::api::{Caller, Method, Reply, Request};
use crate::object;
use crate::status::Status;
use crate::store::{DeleteOptions, Deleted, Write};
use crate::types::ResourceType;

/// How long a watch without `timeoutSeconds` stays open.
const WATCH_TIMEOUT: Duration = Duration::from_mins(30);

impl ApiServer {
    pub(super) fn dispatch(&mut self, _: &Caller, request: &Request) -> Result<Reply, Status> {
        let target = Target::parse(&request.path).ok_or_else(Status::no_such_resource)?;
        let kind = self
            .store
            .types()
            .find(&target.group, &target.version, &target.plural)
            .cloned()
            .ok_or_else(Status::no_such_resource)?;
        let query = Query::parse(&request.query);
        let write = Write { manager: "unknown".to_owned(), dry_run: query.get("dryRun") == "All" };
        let Target { namespace, name, subresource, .. } = &target;
        match (request.method, name.is_empty(), subresource.as_str()) {
            (Method::Get, true, "") if query.flag("watch") => {
                Ok(self.watch(&kind, &target, &query))
            }
            (Method::Get, true, "") => Ok(self.list(&kind, &target)),
            (Method::Get, false, "" | "status") => {
                Ok(answer(200, self.store.current(&kind.name, namespace, name)?))
            }
            (Method::Post, true, "") => {
                let object = body(&target, request)?;
                let made = self.store.create(&write, &kind.name, object)?;
                Ok(answer(201, &made))
            }
            (Method::Put, false, sub @ ("" | "status")) => {
                let object = body(&target, request)?;
                let changed = self.store.replace(&write, &kind.name, object, sub)?;
                Ok(answer(200, &changed))
            }
            (Method::Delete, false, "") => {
                let options = DeleteOptions::default();
                let (Deleted::Gone(object) | Deleted::Marked(object)) =
                    self.store.delete(&write, &kind.name, namespace, name, &options)?;
                Ok(answer(200, &object))
            }
            _ => Err(Status::method_not_allowed()),
        }
    }

    fn list(&self, kind: &Arc<ResourceType>, target: &Target) -> Reply {
        let namespace = Some(target.namespace.as_str()).filter(|name| !name.is_empty());
        let items: Vec<&Value> =
            self.store.list(&kind.name, namespace).map(AsRef::as_ref).collect();
        answer(
            200,
            &json!({
                "kind": kind.list_kind,
                "apiVersion": kind.api_version(),
                "metadata": {"resourceVersion": self.store.revision().to_string()},
                "items": items,
            }),
        )
    }

    fn watch(&mut self, kind: &Arc<ResourceType>, target: &Target, query: &Query) -> Reply {
        let from = query.get("resourceVersion").parse().unwrap_or(0);
        let seen = if from == 0 { self.store.revision() } else { from };
        let timeout =
            query.get("timeoutSeconds").parse().map_or(WATCH_TIMEOUT, Duration::from_secs);
        let stream = self.watches.open(Watch {
            resource: kind.name.clone(),
            namespace: target.namespace.clone(),
            seen,
            until: self.store.now().plus(timeout),
        });
        if from == 0 {
            let namespace = Some(target.namespace.as_str()).filter(|name| !name.is_empty());
            for object in self.store.list(&kind.name, namespace) {
                self.watches.send(stream, "ADDED", object);
            }
        }
        Reply::Watch { stream, content_type: "application/json" }
    }
}

fn body(target: &Target, request: &Request) -> Result<Value, Status> {
    let mut object: Value = serde_json::from_slice(&request.body)
        .map_err(|error| Status::bad_request(format!("the body is not JSON: {error}")))?;
    if !target.namespace.is_empty() {
        object::set(&mut object, &["metadata", "namespace"], target.namespace.clone());
    }
    Ok(object)
}

fn answer(status: u16, object: &Value) -> Reply {
    Reply::Response {
        status,
        content_type: "application/json",
        retry_after: None,
        warnings: Vec::new(),
        body: object.to_string().into(),
    }
}
