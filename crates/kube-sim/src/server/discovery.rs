//! Discovery: versions, groups and resources, and the health endpoints.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::ApiServer;
use super::dispatch::{answer, text};
use super::negotiate::{self, Format};
use super::openapi;
use super::query::Query;
use crate::api::{Method, Reply, Request};
use crate::status::Status;
use crate::types::ResourceType;

const VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The same verbs in the order of custom resources.
const CUSTOM_VERBS: [&str; 8] =
    ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// A subresource: its name, the group, version and kind of its objects, and its verbs.
type Subresource = (&'static str, [&'static str; 3], &'static [&'static str]);

fn subresources(kind: &ResourceType) -> Vec<Subresource> {
    let mut found: Vec<Subresource> = Vec::new();
    let core = kind.name.group.is_empty();
    match kind.name.plural.as_ref() {
        "pods" if core => {
            found.push(("binding", ["", "v1", "Binding"], &["create"]));
            found.push(("eviction", ["policy", "v1", "Eviction"], &["create"]));
            found.push(("log", ["", "v1", "Pod"], &["get"]));
        }
        "namespaces" if core => found.push(("finalize", ["", "v1", "Namespace"], &["update"])),
        "serviceaccounts" if core => {
            found.push(("token", ["authentication.k8s.io", "v1", "TokenRequest"], &["create"]));
        }
        _ => {}
    }
    if kind.scale {
        found.push(("scale", ["autoscaling", "v1", "Scale"], &["get", "patch", "update"]));
    }
    if kind.status {
        found.push(("status", ["", "", ""], &["get", "patch", "update"]));
    }
    if kind.definition.is_some() {
        found.reverse();
    }
    found
}

fn verbs(kind: &ResourceType) -> &'static [&'static str] {
    if !kind.stored {
        &["create"]
    } else if kind.definition.is_some() {
        &CUSTOM_VERBS
    } else {
        &VERBS
    }
}

/// The types of one group and version.
type Groups<'a> = BTreeMap<String, BTreeMap<String, Vec<&'a Arc<ResourceType>>>>;

impl ApiServer {
    /// The reply to a path that is not for objects; `None` for all others.
    pub(super) fn discover(
        &self,
        request: &Request,
        query: &Query,
    ) -> Option<Result<Reply, Status>> {
        let path = request.path.trim_end_matches('/');
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let aggregated = || negotiate::negotiate(&request.accept, query) == Ok(Format::Aggregated);
        let reply = match parts.as_slice() {
            ["version"] => answer(200, &self.version.to_value()),
            ["healthz" | "livez" | "readyz", ..] => text(200, "ok".to_owned()),
            [""] => answer(200, &json!({"paths": self.paths()})),
            ["api"] if aggregated() => aggregate(&self.aggregated(true)),
            ["apis"] if aggregated() => aggregate(&self.aggregated(false)),
            ["api"] => answer(
                200,
                &json!({
                    "kind": "APIVersions", "versions": ["v1"],
                    "serverAddressByClientCIDRs":
                        [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}],
                }),
            ),
            ["apis"] => {
                let groups = self.groups();
                let groups: Vec<Value> =
                    groups.iter().filter(|(name, _)| !name.is_empty()).map(group).collect();
                answer(200, &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
            }
            ["apis", name] => {
                let groups = self.groups();
                let mut found = group(groups.get_key_value(*name)?);
                found["kind"] = json!("APIGroup");
                found["apiVersion"] = json!("v1");
                answer(200, &found)
            }
            ["api", version] => answer(200, &self.resources("", version)?),
            ["apis", group, version] => answer(200, &self.resources(group, version)?),
            ["openapi", "v2"] => openapi::version_two(request, self.store.types()),
            ["openapi", "v3"] => answer(200, &openapi::index(self.store.types())),
            ["openapi", "v3", "api", version] => {
                answer(200, &openapi::document(self.store.types(), "", version)?)
            }
            ["openapi", "v3", "apis", group, version] => {
                answer(200, &openapi::document(self.store.types(), group, version)?)
            }
            _ => return None,
        };
        let allowed = request.method == Method::Get;
        Some(if allowed { Ok(reply) } else { Err(Status::method_not_allowed()) })
    }

    /// Types by group and version.
    fn groups(&self) -> Groups<'_> {
        let mut groups = Groups::new();
        for kind in self.store.types().iter() {
            for version in &kind.served {
                let group = groups.entry(kind.name.group.to_string()).or_default();
                group.entry(version.clone()).or_default().push(kind);
            }
        }
        groups
    }

    fn paths(&self) -> Vec<String> {
        let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
        for (group, versions) in self.groups().iter().filter(|(group, _)| !group.is_empty()) {
            paths.push(format!("/apis/{group}"));
            paths.extend(versions.keys().map(|version| format!("/apis/{group}/{version}")));
        }
        for path in ["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"] {
            paths.push(path.to_owned());
        }
        paths
    }

    /// The resources of one group and version.
    fn resources(&self, group: &str, version: &str) -> Option<Value> {
        let groups = self.groups();
        let kinds = groups.get(group)?.get(version)?;
        let mut resources = Vec::new();
        for kind in kinds {
            let mut resource = json!({
                "name": kind.name.plural, "singularName": kind.singular,
                "namespaced": kind.namespaced, "kind": kind.kind, "verbs": verbs(kind),
            });
            if !kind.short_names.is_empty() {
                resource["shortNames"] = json!(kind.short_names);
            }
            if !kind.categories.is_empty() {
                resource["categories"] = json!(kind.categories);
            }
            resources.push(resource);
            for (name, [group, version, of], verbs) in subresources(kind) {
                let mut resource = json!({
                    "name": format!("{}/{name}", kind.name.plural), "singularName": "",
                    "namespaced": kind.namespaced,
                    "kind": if of.is_empty() { &kind.kind } else { of }, "verbs": verbs,
                });
                if !group.is_empty() {
                    resource["group"] = json!(group);
                    resource["version"] = json!(version);
                }
                resources.push(resource);
            }
        }
        let name = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        Some(json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name,
            "resources": resources,
        }))
    }

    /// Aggregated discovery: the core group, or all others.
    fn aggregated(&self, core: bool) -> Value {
        let groups = self.groups();
        let items: Vec<Value> = groups
            .iter()
            .filter(|(name, _)| name.is_empty() == core)
            .map(|(name, versions)| {
                let mut metadata = json!({"creationTimestamp": null});
                if !core {
                    metadata["name"] = json!(name);
                }
                let versions: Vec<Value> = ordered(versions)
                    .into_iter()
                    .map(|(version, kinds)| {
                        let resources: Vec<Value> =
                            kinds.iter().map(|kind| aggregated_resource(kind, version)).collect();
                        json!({"version": version, "resources": resources, "freshness": "Current"})
                    })
                    .collect();
                json!({"metadata": metadata, "versions": versions})
            })
            .collect();
        json!({
            "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {}, "items": items,
        })
    }
}

/// Versions, the preferred one first.
fn ordered<'a, 'b>(
    versions: &'b BTreeMap<String, Vec<&'a Arc<ResourceType>>>,
) -> Vec<(&'b String, &'b Vec<&'a Arc<ResourceType>>)> {
    let mut found: Vec<_> = versions.iter().collect();
    found.sort_by_key(|(version, kinds)| {
        kinds.first().and_then(|kind| kind.served.iter().position(|known| known == *version))
    });
    found
}

fn group((name, versions): (&String, &BTreeMap<String, Vec<&Arc<ResourceType>>>)) -> Value {
    let versions: Vec<Value> = ordered(versions)
        .into_iter()
        .map(
            |(version, _)| json!({"groupVersion": format!("{name}/{version}"), "version": version}),
        )
        .collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions.first()})
}

fn aggregated_resource(kind: &ResourceType, version: &str) -> Value {
    let response = |[group, version, kind]: [&str; 3]| json!({"group": group, "version": version, "kind": kind});
    // Built-in kinds omit the group and version of their list.
    let own = match kind.definition {
        Some(_) => [kind.name.group.as_ref(), version, kind.kind.as_str()],
        None => ["", "", kind.kind.as_str()],
    };
    let mut resource = json!({
        "resource": kind.name.plural, "responseKind": response(own),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular, "verbs": verbs(kind),
    });
    if !kind.short_names.is_empty() {
        resource["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        resource["categories"] = json!(kind.categories);
    }
    let subresources: Vec<Value> = subresources(kind)
        .into_iter()
        .map(|(name, of, verbs)| {
            let of = if of[2].is_empty() { own } else { of };
            json!({"subresource": name, "responseKind": response(of), "verbs": verbs})
        })
        .collect();
    if !subresources.is_empty() {
        resource["subresources"] = json!(subresources);
    }
    resource
}

fn aggregate(object: &Value) -> Reply {
    Reply::Response {
        status: 200,
        content_type: "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        retry_after: None,
        warnings: Vec::new(),
        body: object.to_string().into(),
    }
}
