//! Maps requests to verbs.

use std::sync::Arc;

use serde_json::Value;

use super::ApiServer;
use super::authorize::{self, RequestAttributes};
use super::negotiate::{self, Format};
use super::path::Target;
use super::present::View;
use super::query::Query;
use crate::api::{Caller, Method, Reply, Request};
use crate::names::PODS;
use crate::status::{Cause, Status};
use crate::store::Write;
use crate::types::ResourceType;

/// A parsed request for a resource.
pub(super) struct Operation<'a> {
    pub(super) caller: &'a Caller,
    pub(super) request: &'a Request,
    pub(super) target: Target,
    pub(super) query: Query,
    pub(super) view: View,
    pub(super) write: Write,
}

impl Operation<'_> {
    pub(super) fn kind(&self) -> &Arc<ResourceType> {
        &self.view.kind
    }

    pub(super) fn namespace(&self) -> Option<&str> {
        Some(self.target.namespace.as_str()).filter(|name| !name.is_empty())
    }
}

impl ApiServer {
    pub(super) fn dispatch(&mut self, caller: &Caller, request: &Request) -> Result<Reply, Status> {
        let query = Query::parse(&request.query);
        authorize::check(&self.store, caller, &RequestAttributes::of(request, &query))?;
        if let Some(reply) = self.discover(request, &query) {
            return reply;
        }
        let types = self.store.types();
        let Some(target) = Target::parse(&request.path) else {
            let known = match request.path.trim_matches('/').split('/').collect::<Vec<_>>()[..] {
                ["api", ..] => true,
                ["apis", group, ..] => types.iter().any(|kind| kind.name.group == group),
                _ => false,
            };
            return if known { Err(Status::no_such_resource()) } else { Ok(page_not_found()) };
        };
        let known = types
            .iter()
            .any(|kind| kind.name.group == target.group && kind.served.contains(&target.version));
        let group_known = types.iter().any(|kind| kind.name.group == target.group);
        if !known && group_known {
            return Err(Status::no_such_resource());
        }
        if !known {
            return Ok(page_not_found());
        }
        let kind = types
            .find(&target.group, &target.version, &target.plural)
            .cloned()
            .ok_or_else(Status::no_such_resource)?;
        if !kind.namespaced && !target.namespace.is_empty() {
            return Err(Status::no_such_resource());
        }
        let format = negotiate::negotiate(&request.accept, &query)?;
        let format = if format == Format::Aggregated { Format::Object } else { format };
        check_options(request, &query)?;
        let write = Write {
            manager: manager(request, &query),
            dry_run: query.get("dryRun") == "All",
            ..Write::default()
        };
        let view = View { version: target.version.clone(), kind, format };
        let operation = Operation { caller, request, target, query, view, write };
        self.verb(&operation)
    }

    fn verb(&mut self, operation: &Operation<'_>) -> Result<Reply, Status> {
        let Operation { request, target, query, view, .. } = operation;
        let kind = &view.kind;
        let named = !target.name.is_empty();
        if !kind.stored {
            return match (request.method, named) {
                (Method::Post, false) => self.review(operation),
                _ => Err(Status::method_not_allowed()),
            };
        }
        match target.subresource.as_str() {
            "" => {}
            "status" if kind.status => {}
            "scale" if kind.scale => return self.scale(operation),
            "finalize" if kind.name.plural == "namespaces" => {}
            "eviction" if kind.name == PODS && request.method == Method::Post => {
                return self.evict(operation);
            }
            "binding" if kind.name == PODS && request.method == Method::Post => {
                return self.bind(operation);
            }
            "log" if kind.name == PODS && request.method == Method::Get => {
                self.store.current(&PODS, &target.namespace, &target.name)?;
                return Ok(text(200, String::new()));
            }
            "eviction" | "binding" | "log" if kind.name == PODS => {
                return Err(Status::method_not_allowed());
            }
            "token" if kind.name.plural == "serviceaccounts" && request.method == Method::Post => {
                return self.token(operation);
            }
            _ => return Err(Status::no_such_resource()),
        }
        match (request.method, named) {
            (Method::Get, false) if query.flag("watch") => self.watch(operation),
            (Method::Get, false) => self.list(operation),
            (Method::Get, true) => {
                let storage = view.storage();
                let (namespace, name) = (&target.namespace, &target.name);
                let stored = self.store.stored(&storage, namespace, name);
                let stored = stored.ok_or_else(|| Status::not_found(&storage, name))?;
                if view.is_plain() {
                    return Ok(body(200, stored.text().to_string()));
                }
                Ok(self.show(200, view, stored.value()))
            }
            (Method::Post, false) => self.create(operation),
            (Method::Put, true) => self.put(operation),
            (Method::Patch, true) => self.patch(operation),
            (Method::Delete, true) if target.subresource.is_empty() => self.delete(operation),
            (Method::Delete, false) => self.delete_collection(operation),
            _ => Err(Status::method_not_allowed()),
        }
    }

    /// An object as a reply.
    pub(super) fn show(&self, status: u16, view: &View, object: &Value) -> Reply {
        if view.is_plain() {
            return answer(status, object);
        }
        answer(status, &view.one(object, self.store.now()))
    }

    fn create(&mut self, operation: &Operation<'_>) -> Result<Reply, Status> {
        if operation.kind().namespaced && operation.target.namespace.is_empty() {
            return Err(Status::method_not_allowed());
        }
        let (object, warnings) = super::body::decode(operation)?;
        let storage = operation.view.storage();
        let made = self.store.create(&operation.write, &storage, object)?;
        Ok(warn(self.show(201, &operation.view, &made), warnings))
    }

    fn put(&mut self, operation: &Operation<'_>) -> Result<Reply, Status> {
        let (object, warnings) = super::body::decode(operation)?;
        let storage = operation.view.storage();
        let sub = &operation.target.subresource;
        let changed = self.store.replace(&operation.write, &storage, object, sub)?;
        Ok(warn(self.show(200, &operation.view, &changed), warnings))
    }
}

/// The field manager that the caller names, or the first word of its user agent.
fn manager(request: &Request, query: &Query) -> String {
    let named = query.get("fieldManager");
    if !named.is_empty() {
        return named.to_owned();
    }
    let agent = request.user_agent.split('/').next().unwrap_or_default();
    if agent.is_empty() { "unknown".to_owned() } else { agent.to_owned() }
}

/// Validates the options of a write.
fn check_options(request: &Request, query: &Query) -> Result<(), Status> {
    let kind = match request.method {
        Method::Post => "CreateOptions",
        Method::Put => "UpdateOptions",
        Method::Patch => "PatchOptions",
        Method::Delete => "DeleteOptions",
        _ => return Ok(()),
    };
    let mut causes = Vec::new();
    if query.get("fieldManager").len() > 128 {
        causes.push(Cause {
            reason: "FieldValueTooLong",
            message: "Too long: may not be more than 128 bytes".to_owned(),
            field: "fieldManager".to_owned(),
        });
    }
    let dry_run = query.get("dryRun");
    if !["", "All"].contains(&dry_run) {
        causes.push(Cause {
            reason: "FieldValueNotSupported",
            message: format!("Unsupported value: [{dry_run:?}]: supported values: \"All\""),
            field: "dryRun".to_owned(),
        });
    }
    let known = ["", "Ignore", "Strict", "Warn"];
    let validation = query.get("fieldValidation");
    if !known.contains(&validation) {
        causes.push(Cause::unsupported("fieldValidation", validation, &known));
    }
    if causes.is_empty() { Ok(()) } else { Err(Status::invalid("meta.k8s.io", kind, "", causes)) }
}

pub(super) fn answer(status: u16, object: &Value) -> Reply {
    body(status, object.to_string())
}

/// JSON text as a reply.
pub(super) fn body(status: u16, json: String) -> Reply {
    Reply::Response {
        status,
        content_type: "application/json",
        retry_after: None,
        warnings: Vec::new(),
        body: json.into(),
    }
}

pub(super) fn text(status: u16, body: String) -> Reply {
    Reply::Response {
        status,
        content_type: "text/plain; charset=utf-8",
        retry_after: None,
        warnings: Vec::new(),
        body: body.into(),
    }
}

/// The reply to an unknown path.
fn page_not_found() -> Reply {
    text(404, "404 page not found\n".to_owned())
}

pub(super) fn warn(reply: Reply, more: Vec<String>) -> Reply {
    match reply {
        Reply::Response { status, content_type, retry_after, mut warnings, body } => {
            warnings.extend(more);
            Reply::Response { status, content_type, retry_after, warnings, body }
        }
        watch @ Reply::Watch { .. } => watch,
    }
}
