//! RBAC authorization. The group `system:masters` may do everything.

use serde_json::{Value, json};

use super::path::Target;
use super::query::Query;
use crate::api::{Caller, Method, Request};
use crate::names::ResourceName;
use crate::object;
use crate::status::Status;
use crate::store::Store;

const MASTERS: &str = "system:masters";
const GROUP: &str = "rbac.authorization.k8s.io";

/// The attributes of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestAttributes {
    pub(super) verb: String,
    pub(super) group: String,
    pub(super) resource: String,
    pub(super) subresource: String,
    pub(super) namespace: String,
    pub(super) name: String,
    /// The path of a request that is not for a resource.
    pub(super) path: String,
}

impl RequestAttributes {
    /// The attributes of a request.
    pub(super) fn of(request: &Request, query: &Query) -> Self {
        let path = request.path.trim_end_matches('/').to_owned();
        let Some(target) = Target::parse(&request.path) else {
            let verb = match request.method {
                Method::Get => "get",
                Method::Post => "post",
                Method::Put => "put",
                Method::Patch => "patch",
                Method::Delete => "delete",
                Method::Other => "other",
            };
            return Self { verb: verb.to_owned(), path, ..Self::default() };
        };
        let verb = match (request.method, target.name.is_empty()) {
            (Method::Get, _) if query.flag("watch") => "watch",
            (Method::Get, true) => "list",
            (Method::Get, false) => "get",
            (Method::Post, _) => "create",
            (Method::Put, _) => "update",
            (Method::Patch, _) => "patch",
            (Method::Delete, true) => "deletecollection",
            (Method::Delete, false) => "delete",
            (Method::Other, _) => "other",
        };
        let Target { group, namespace, plural, name, subresource, .. } = target;
        // The namespace of a Namespace request is its name.
        let inside = group.is_empty() && plural == "namespaces";
        let namespace = if inside { name.clone() } else { namespace };
        let verb = verb.to_owned();
        Self { verb, group, resource: plural, subresource, namespace, name, path: String::new() }
    }

    fn full_resource(&self) -> String {
        match self.subresource.as_str() {
            "" => self.resource.clone(),
            subresource => format!("{}/{subresource}", self.resource),
        }
    }
}

/// Rejects a request that the caller may not make.
pub(super) fn check(
    store: &Store,
    caller: &Caller,
    attributes: &RequestAttributes,
) -> Result<(), Status> {
    let missing = match decide(store, caller, attributes) {
        Ok(()) => return Ok(()),
        Err(missing) => missing,
    };
    let RequestAttributes { verb, group, namespace, name, resource, path, .. } = attributes;
    let user = &caller.user;
    let mut why = if resource.is_empty() {
        format!("User {user:?} cannot {verb} path {path:?}")
    } else {
        let full = attributes.full_resource();
        let place = if namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {namespace:?}")
        };
        format!("User {user:?} cannot {verb} resource {full:?} in API group {group:?} {place}")
    };
    if !missing.is_empty() {
        why = format!("{why}: {missing}");
    }
    let resource = ResourceName::owned(group, resource);
    let mut status = Status::forbidden(&resource, name, &why);
    if resource.plural.is_empty() {
        status.message = format!("forbidden: {why}");
    } else if name.is_empty() {
        status.message = format!("{resource} is forbidden: {why}");
    }
    Err(status)
}

/// Whether a caller may do this; if not, the missing roles that might have allowed it.
pub(super) fn decide(
    store: &Store,
    caller: &Caller,
    attributes: &RequestAttributes,
) -> Result<(), String> {
    if caller.groups.iter().any(|group| group == MASTERS) {
        return Ok(());
    }
    let mut missing = Vec::new();
    let rules = rules_of(store, caller, &attributes.namespace, &mut missing);
    if rules.iter().any(|rule| allows(rule, attributes)) {
        return Ok(());
    }
    missing.dedup();
    Err(if missing.is_empty() { String::new() } else { format!("RBAC: {}", missing.join(", ")) })
}

/// All rules of a caller in a namespace, or cluster-wide if it is empty.
pub(super) fn rules_of(
    store: &Store,
    caller: &Caller,
    namespace: &str,
    missing: &mut Vec<String>,
) -> Vec<Value> {
    if caller.groups.iter().any(|group| group == MASTERS) {
        return everything();
    }
    // Anonymous callers may read the server's health; the HTTPS server rejects everything else.
    let mut rules = vec![json!({
        "verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version"],
    })];
    if caller.groups.iter().any(|group| group == "system:authenticated") {
        rules.extend(everybody());
    }
    let everywhere = ResourceName::new(GROUP, "clusterrolebindings");
    let here = ResourceName::new(GROUP, "rolebindings");
    let inside = store.list(&here, Some(namespace)).filter(|_| !namespace.is_empty());
    for binding in store.list(&everywhere, None).chain(inside) {
        let subjects = object::list(binding, &["subjects"]);
        if !subjects.iter().any(|subject| is(caller, subject, object::namespace(binding))) {
            continue;
        }
        let role = &binding["roleRef"];
        let name = object::text(role, &["name"]);
        let cluster = object::text(role, &["kind"]) == "ClusterRole";
        let plural = if cluster { "clusterroles" } else { "roles" };
        let home = if cluster { "" } else { object::namespace(binding) };
        match store.get(&ResourceName::new(GROUP, plural), home, name) {
            Some(role) => rules.extend(object::list(role, &["rules"]).iter().cloned()),
            None if cluster && name == "cluster-admin" => rules.extend(everything()),
            None if cluster && name == "view" => rules.extend(reading()),
            None => {
                let kind = if cluster { "clusterrole" } else { "role" };
                missing.push(format!("{kind}.{GROUP} {name:?} not found"));
            }
        }
    }
    rules
}

fn everything() -> Vec<Value> {
    vec![
        json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
        json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
    ]
}

/// The role `view`, reduced to the groups used here.
fn reading() -> Vec<Value> {
    let core = [
        "configmaps",
        "endpoints",
        "events",
        "namespaces",
        "persistentvolumeclaims",
        "pods",
        "pods/log",
        "pods/status",
        "serviceaccounts",
        "services",
    ];
    let verbs = ["get", "list", "watch"];
    vec![
        json!({"verbs": verbs, "apiGroups": [""], "resources": core}),
        json!({"verbs": verbs, "apiGroups": ["apps", "batch", "policy"], "resources": ["*"]}),
    ]
}

/// The rules of all authenticated callers: discovery, and reviews about themselves.
fn everybody() -> Vec<Value> {
    let paths = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"];
    let access = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"];
    vec![
        json!({"verbs": ["get"], "nonResourceURLs": paths}),
        json!({"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": access}),
        json!({
            "verbs": ["create"], "apiGroups": ["authentication.k8s.io"],
            "resources": ["selfsubjectreviews"],
        }),
    ]
}

/// Whether a subject of a binding is the caller.
fn is(caller: &Caller, subject: &Value, home: &str) -> bool {
    let name = object::text(subject, &["name"]);
    match object::text(subject, &["kind"]) {
        "User" => caller.user == name,
        "Group" => caller.groups.iter().any(|group| group == name),
        "ServiceAccount" => {
            let given = object::text(subject, &["namespace"]);
            let namespace = if given.is_empty() { home } else { given };
            caller.user == format!("system:serviceaccount:{namespace}:{name}")
        }
        _ => false,
    }
}

fn allows(rule: &Value, attributes: &RequestAttributes) -> bool {
    let has = |field: &str, wanted: &str| {
        let listed = object::list(rule, &[field]);
        listed.iter().any(|known| known == "*" || known == wanted)
    };
    if !has("verbs", &attributes.verb) {
        return false;
    }
    if attributes.resource.is_empty() {
        return object::list(rule, &["nonResourceURLs"]).iter().filter_map(Value::as_str).any(
            |url| {
                url.strip_suffix('*')
                    .map_or(url == attributes.path, |start| attributes.path.starts_with(start))
            },
        );
    }
    let any_sub = format!("*/{}", attributes.subresource);
    let resource = has("resources", &attributes.full_resource())
        || !attributes.subresource.is_empty() && has("resources", &any_sub);
    let names = object::list(rule, &["resourceNames"]);
    let fits = names.is_empty() || names.iter().any(|known| *known == *attributes.name);
    has("apiGroups", &attributes.group) && resource && fits
}
