//! The `scale` subresource.

use serde_json::{Value, json};

use super::ApiServer;
use super::body;
use super::dispatch::{Operation, answer};
use crate::api::{Method, Reply};
use crate::object;
use crate::patch::{json_patch, merge_patch};
use crate::selector::LabelSelector;
use crate::status::Status;
use crate::types::ResourceType;

/// The JSON paths of a kind's replica counts.
struct Paths {
    spec: Vec<String>,
    status: Vec<String>,
    selector: Option<Vec<String>>,
}

fn paths(kind: &ResourceType, version: &str) -> Paths {
    let steps = |path: &str| -> Vec<String> {
        path.trim_start_matches('.').split('.').map(str::to_owned).collect()
    };
    let custom = kind.definition.as_ref().and_then(|definition| {
        object::list(definition, &["spec", "versions"])
            .iter()
            .find(|known| object::text(known, &["name"]) == version)
            .and_then(|known| object::at(known, &["subresources", "scale"]))
    });
    match custom {
        Some(scale) => Paths {
            spec: steps(object::text(scale, &["specReplicasPath"])),
            status: steps(object::text(scale, &["statusReplicasPath"])),
            selector: Some(object::text(scale, &["labelSelectorPath"]))
                .filter(|path| !path.is_empty())
                .map(steps),
        },
        None => {
            Paths { spec: steps("spec.replicas"), status: steps("status.replicas"), selector: None }
        }
    }
}

fn borrowed(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}

/// A selector as text, by key, as API servers write it.
fn selector_text(selector: Option<&Value>) -> String {
    let Some(selector) = selector else { return String::new() };
    debug_assert!(LabelSelector::of(Some(selector)).is_some(), "stored selectors are readable");
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let label = |(key, value): (&String, &Value)| {
        (key.clone(), format!("{key}={}", value.as_str().unwrap_or_default()))
    };
    let expressions = object::list(selector, &["matchExpressions"]).iter().map(expression_text);
    let mut parts: Vec<_> = labels.into_iter().flatten().map(label).chain(expressions).collect();
    parts.sort_by(|(one, _), (other, _)| one.cmp(other));
    parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}

/// An expression of a selector as text, with its key.
fn expression_text(expression: &Value) -> (String, String) {
    let key = object::text(expression, &["key"]);
    let values = object::list(expression, &["values"]).iter();
    let mut values: Vec<&str> = values.filter_map(Value::as_str).collect();
    values.sort_unstable();
    let values = values.join(",");
    let text = match object::text(expression, &["operator"]) {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} notin ({values})"),
        "Exists" => key.to_owned(),
        _ => format!("!{key}"),
    };
    (key.to_owned(), text)
}

impl ApiServer {
    pub(super) fn scale(&mut self, operation: &Operation<'_>) -> Result<Reply, Status> {
        let target = &operation.target;
        let storage = operation.view.storage();
        let paths = paths(operation.kind(), &operation.view.version);
        let live = self.store.current(&storage, &target.namespace, &target.name)?.clone();
        let mut scale = scale_of(operation.kind(), &paths, &live);
        let request = operation.request;
        let parse = || {
            body::parse(&request.body, false).map_err(|error| Status::bad_request(error.clone()))
        };
        match request.method {
            Method::Get => return Ok(answer(200, &scale)),
            Method::Put => scale = parse()?,
            Method::Patch if request.content_type.starts_with("application/json-patch") => {
                json_patch(&mut scale, &parse()?).map_err(Status::bad_request)?;
            }
            Method::Patch => merge_patch(&mut scale, &parse()?),
            _ => return Err(Status::method_not_allowed()),
        }
        let replicas = object::number(&scale, &["spec", "replicas"]).unwrap_or(0);
        if replicas < 0 {
            let why = "must be greater than or equal to 0";
            let cause = crate::status::Cause::invalid("spec.replicas", &json!(replicas), why);
            return Err(Status::invalid("autoscaling", "Scale", &target.name, vec![cause]));
        }
        let version = object::text(&scale, &["metadata", "resourceVersion"]).to_owned();
        let mut object = live.as_ref().clone();
        object::set(&mut object, &borrowed(&paths.spec), replicas);
        object::set(&mut object, &["metadata", "resourceVersion"], version);
        let changed = self.store.replace(&operation.write, &storage, object, "scale")?;
        Ok(answer(200, &scale_of(operation.kind(), &paths, &changed)))
    }
}

fn scale_of(kind: &ResourceType, paths: &Paths, object: &Value) -> Value {
    let metadata = &object["metadata"];
    let selector = match &paths.selector {
        Some(path) => object::text(object, &borrowed(path)).to_owned(),
        None if kind.definition.is_some() => String::new(),
        None => selector_text(object::at(object, &["spec", "selector"])),
    };
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {},
        "status": {"replicas": object::number(object, &borrowed(&paths.status)).unwrap_or(0)},
    });
    // Go omits zero counts.
    if let Some(count) = object::number(object, &borrowed(&paths.spec)).filter(|count| *count != 0)
    {
        scale["spec"]["replicas"] = json!(count);
    }
    if !selector.is_empty() {
        scale["status"]["selector"] = json!(selector);
    }
    scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_written_as_text_with_its_expressions() {
        let selector = json!({
            "matchLabels": {"tier": "web"},
            "matchExpressions": [
                {"key": "app", "operator": "In", "values": ["b", "a"]},
                {"key": "zone", "operator": "NotIn", "values": ["x"]},
                {"key": "old", "operator": "DoesNotExist"},
                {"key": "new", "operator": "Exists"},
            ],
        });
        let expected = "app in (a,b),new,!old,tier=web,zone notin (x)";
        assert_eq!(selector_text(Some(&selector)), expected);
        assert_eq!(selector_text(None), "");
    }
}
