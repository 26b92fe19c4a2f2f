//! Workloads from a user's YAML file.

use serde_json::Value;

use crate::object;
use crate::store::{Store, Write};

/// Parses a file with several YAML documents. Lists are expanded; empty documents are skipped.
pub fn load_workloads(yaml: &str) -> Result<Vec<Value>, String> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(yaml).map_err(|error| error.to_string())?;
    let mut objects = Vec::new();
    for document in documents {
        match document {
            Value::Null => {}
            list if object::text(&list, &["kind"]).ends_with("List")
                && list.get("items").is_some() =>
            {
                objects.extend(object::list(&list, &["items"]).iter().cloned());
            }
            object if object.is_object() => objects.push(object),
            other => return Err(format!("not an object: {other}")),
        }
    }
    for object in &objects {
        for field in ["apiVersion", "kind"] {
            if object::text(object, &[field]).is_empty() {
                return Err(format!("an object without {field}: {:?}", object::name(object)));
            }
        }
    }
    Ok(objects)
}

/// Creates objects in order, as this field manager. Existing objects stay unchanged.
pub fn apply(store: &mut Store, manager: &str, objects: Vec<Value>) -> Result<(), String> {
    for mut object in objects {
        let (version, kind) =
            (object::text(&object, &["apiVersion"]), object::text(&object, &["kind"]));
        let Some(kind) = store.types().find_kind(version, kind).cloned() else {
            return Err(format!("no such kind: {kind} of {version}"));
        };
        if kind.namespaced && object::namespace(&object).is_empty() {
            object::set(&mut object, &["metadata", "namespace"], "default");
        }
        let name = object::name(&object).to_owned();
        match store.create(&Write::by(manager), &kind.name, object) {
            Err(status) if status.reason != "AlreadyExists" => {
                return Err(format!("{} {name:?}: {}", kind.kind, status.message));
            }
            _ => {}
        }
    }
    Ok(())
}
