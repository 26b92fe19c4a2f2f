//! `OpenAPI` as far as clients use it: the schemas of kinds, and the parameters of writes.

mod binary;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::dispatch::answer;
use crate::api::{Reply, Request};
use crate::schema;
use crate::status::Status;
use crate::types::{ResourceType, Types};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Group and version of everything served.
fn versions(types: &Types) -> BTreeSet<(String, String)> {
    types
        .iter()
        .flat_map(|kind| {
            kind.served.iter().map(|version| (kind.name.group.to_string(), version.clone()))
        })
        .collect()
}

fn path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// The index of the documents. The hash changes with the document, so clients may cache it.
pub(super) fn index(types: &Types) -> Value {
    let mut paths = Map::new();
    for (group, version) in versions(types) {
        let path = path(&group, &version);
        let text = document(types, &group, &version).unwrap_or_default().to_string();
        let hash = hash(text.as_bytes());
        let url = format!("/openapi/v3/{path}?hash={hash:016X}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

/// FNV-1a: small and stable across platforms.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The document of one group and version; `None` if it is not served.
pub(super) fn document(types: &Types, group: &str, version: &str) -> Option<Value> {
    let kinds: Vec<&ResourceType> = types
        .iter()
        .map(AsRef::as_ref)
        .filter(|kind| kind.name.group == group && kind.served.iter().any(|known| known == version))
        .collect();
    if kinds.is_empty() {
        return None;
    }
    let prefix = "#/components/schemas/";
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for kind in kinds {
        add_paths(&mut paths, kind, version, prefix);
        add_schema(&mut schemas, kind, version, prefix);
    }
    Some(json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "simulated"},
        "paths": paths, "components": {"schemas": schemas},
    }))
}

/// `OpenAPI` v2, in one document.
pub(super) fn version_two(request: &Request, types: &Types) -> Reply {
    let accept = &request.accept;
    let wants_binary = binary::is_wanted(accept);
    let json_fits = accept.is_empty()
        || accept.split(',').any(|range| {
            let media = range.split(';').next().unwrap_or_default().trim();
            ["application/json", "application/*", "*/*"].contains(&media)
        });
    if !json_fits && !wants_binary {
        return super::respond(&Status::not_acceptable("application/json"));
    }
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for kind in types.iter() {
        for version in &kind.served {
            add_paths(&mut paths, kind, version, "#/definitions/");
            add_schema(&mut schemas, kind, version, "#/definitions/");
        }
    }
    let document = json!({
        "swagger": "2.0", "info": {"title": "Kubernetes", "version": "simulated"},
        "paths": paths, "definitions": schemas,
    });
    if !wants_binary {
        return answer(200, &document);
    }
    Reply::Response {
        status: 200,
        content_type: binary::MEDIA,
        retry_after: None,
        warnings: Vec::new(),
        body: binary::encode(&document).into(),
    }
}

/// The name of a kind's schema: the group reversed, like Java packages.
fn schema_name(kind: &ResourceType, version: &str) -> String {
    if kind.definition.is_none()
        && let Some(name) = schema::definition_name(&kind.name.group, version, &kind.kind)
    {
        return name.to_owned();
    }
    let mut parts: Vec<&str> = kind.name.group.split('.').rev().collect();
    parts.push(version);
    parts.push(&kind.kind);
    parts.join(".")
}

fn add_schema(schemas: &mut Map<String, Value>, kind: &ResourceType, version: &str, prefix: &str) {
    let name = schema_name(kind, version);
    let Some(definition) = &kind.definition else {
        add_definition(schemas, &name, prefix);
        return;
    };
    let mut shape =
        schema::custom(definition, version).cloned().unwrap_or_else(|| json!({"type": "object"}));
    let properties = crate::object::map(
        crate::object::map(&mut shape).entry("properties").or_insert(Value::Null),
    );
    properties.insert("apiVersion".to_owned(), json!({"type": "string"}));
    properties.insert("kind".to_owned(), json!({"type": "string"}));
    properties
        .insert("metadata".to_owned(), json!({"allOf": [{"$ref": format!("{prefix}{META}")}]}));
    shape["x-kubernetes-group-version-kind"] =
        json!([{"group": kind.name.group, "version": version, "kind": kind.kind}]);
    schemas.insert(name, shape);
    add_definition(schemas, META, prefix);
}

/// Adds a definition and everything that it references.
fn add_definition(schemas: &mut Map<String, Value>, name: &str, prefix: &str) {
    if schemas.contains_key(name) {
        return;
    }
    let Some(definition) = schema::definitions().get(name) else { return };
    let mut definition = definition.clone();
    let mut wanted = Vec::new();
    relink(&mut definition, prefix, &mut wanted);
    schemas.insert(name.to_owned(), definition);
    for name in wanted {
        add_definition(schemas, &name, prefix);
    }
}

fn relink(value: &mut Value, prefix: &str, wanted: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(name)) = map.get_mut("$ref") {
                wanted.push(name.clone());
                *name = format!("{prefix}{name}");
            }
            for inner in map.values_mut() {
                relink(inner, prefix, wanted);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| relink(item, prefix, wanted)),
        _ => {}
    }
}

fn add_paths(paths: &mut Map<String, Value>, kind: &ResourceType, version: &str, prefix: &str) {
    let root = path(&kind.name.group, version);
    let middle = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
    let list = format!("/{root}{middle}/{}", kind.name.plural);
    let of = json!({"group": kind.name.group, "version": version, "kind": kind.kind});
    let shape = json!({"$ref": format!("{prefix}{}", schema_name(kind, version))});
    let parameters: Vec<Value> = ["dryRun", "fieldManager", "fieldValidation", "pretty"]
        .iter()
        .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string"}}))
        .collect();
    let operation = |action: &str| {
        json!({
            "x-kubernetes-action": action, "x-kubernetes-group-version-kind": of,
            "parameters": parameters,
            "responses": {"200": {
                "description": "OK", "content": {"application/json": {"schema": shape}},
            }},
        })
    };
    if !kind.stored {
        paths.insert(list, json!({"post": operation("post")}));
        return;
    }
    let one = json!({
        "get": operation("get"), "put": operation("put"), "patch": operation("patch"),
        "delete": operation("delete"),
    });
    paths.insert(format!("{list}/{{name}}"), one);
    paths.insert(
        list,
        json!({
            "get": operation("list"), "post": operation("post"),
            "delete": operation("deletecollection"),
        }),
    );
}
