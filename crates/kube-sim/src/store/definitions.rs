//! Custom resource definitions: the types they define, and their status.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Store, Write};
use crate::names::{CUSTOM_RESOURCE_DEFINITIONS, ResourceName};
use crate::object;
use crate::types::ResourceType;

impl Store {
    /// Serves the defined types, and updates the status of the definitions.
    pub(super) fn definitions_changed(&mut self) {
        let definitions: Vec<Arc<Value>> =
            self.list(&CUSTOM_RESOURCE_DEFINITIONS, None).cloned().collect();
        let gone: Vec<ResourceName> = self
            .types
            .iter()
            .filter(|kind| kind.definition.is_some())
            .map(|kind| kind.name.clone())
            .filter(|name| !definitions.iter().any(|definition| name_of(definition) == *name))
            .collect();
        for name in gone {
            // Delete the objects with their kind, so that watches see it.
            if let Ok(kind) = self.kind(&name) {
                let orphans: Vec<Arc<Value>> = self.list(&name, None).cloned().collect();
                for object in orphans {
                    self.take(&Write::by("kube-apiserver"), &kind, &object, (*object).clone());
                }
            }
            self.types.remove(&name);
        }
        for definition in &definitions {
            self.types.add(type_of(definition));
        }
        for definition in definitions {
            if object::at(&definition, &["status", "acceptedNames"])
                == Some(&definition["spec"]["names"])
            {
                continue;
            }
            let now = self.now.to_text();
            let write = Write::by("kube-apiserver");
            let accept = |definition: &mut Value| accept(definition, &now);
            let name = object::name(&definition);
            let _ = self.modify_status(&write, &CUSTOM_RESOURCE_DEFINITIONS, "", name, accept);
        }
    }
}

fn name_of(definition: &Value) -> ResourceName {
    let group = object::text(definition, &["spec", "group"]);
    ResourceName::owned(group, object::text(definition, &["spec", "names", "plural"]))
}

fn type_of(definition: &Arc<Value>) -> ResourceType {
    let names = &definition["spec"]["names"];
    let texts = |field: &str| -> Vec<String> {
        object::list(names, &[field]).iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let versions = object::list(definition, &["spec", "versions"]);
    let version_name = |version: &Value| object::text(version, &["name"]).to_owned();
    let storage = versions.iter().find(|version| object::flag(version, &["storage"]));
    let mut served: Vec<String> = versions
        .iter()
        .filter(|version| object::flag(version, &["served"]))
        .map(version_name)
        .collect();
    served.sort_by_key(|version| std::cmp::Reverse(priority(version)));
    let has = |subresource: &str| {
        versions.iter().any(|version| object::at(version, &["subresources", subresource]).is_some())
    };
    ResourceType {
        name: name_of(definition),
        version: storage.map(version_name).unwrap_or_default(),
        served,
        kind: object::text(names, &["kind"]).to_owned(),
        list_kind: object::text(names, &["listKind"]).to_owned(),
        singular: object::text(names, &["singular"]).to_owned(),
        short_names: texts("shortNames"),
        categories: texts("categories"),
        namespaced: object::text(definition, &["spec", "scope"]) == "Namespaced",
        status: has("status"),
        scale: has("scale"),
        generation: true,
        stored: true,
        definition: Some(definition.clone()),
    }
}

/// The order of versions: stable before beta before alpha, then the higher number.
fn priority(version: &str) -> (u8, u64, u64) {
    let digits = |text: &str| text.parse::<u64>().ok();
    let Some(rest) = version.strip_prefix('v') else { return (0, 0, 0) };
    for (word, rank) in [("alpha", 1), ("beta", 2)] {
        if let Some((major, minor)) = rest.split_once(word)
            && let (Some(major), Some(minor)) = (digits(major), digits(minor))
        {
            return (rank, major, minor);
        }
    }
    digits(rest).map_or((0, 0, 0), |major| (3, major, 0))
}

fn accept(definition: &mut Value, now: &str) {
    let names = definition["spec"]["names"].clone();
    let storage: Vec<Value> = object::list(definition, &["spec", "versions"])
        .iter()
        .filter(|version| object::flag(version, &["storage"]))
        .map(|version| version["name"].clone())
        .collect();
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": "True", "lastTransitionTime": now,
            "reason": reason, "message": message,
        })
    };
    let conditions = [
        condition("NamesAccepted", "NoConflicts", "no conflicts found"),
        condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ];
    if object::list(definition, &["status", "conditions"]).is_empty() {
        object::set(definition, &["status", "conditions"], conditions.to_vec());
    }
    object::set(definition, &["status", "acceptedNames"], names);
    object::set(definition, &["status", "storedVersions"], storage);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_by_priority() {
        let mut versions = vec!["v1", "v10", "v2beta1", "v1alpha3", "foo", "v2"];
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v2beta1", "v1alpha3", "foo"]);
    }
}
