//! Schemas of objects: which fields exist, their types, and how lists and maps merge.
//!
//! A schema is a JSON schema with the `x-kubernetes-` extensions: `data/schema.json` for built-in
//! kinds, the definition's own for custom resources.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::types::ResourceType;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// All definitions, by name.
static DEFINITIONS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../data/schema.json"))
        .expect("the bundled schemas are valid JSON")
});

static METADATA: LazyLock<Value> = LazyLock::new(|| json!({"$ref": META}));

/// The schema of a value; `None` inside if nothing is known about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schema<'a> {
    node: Option<&'a Value>,
    /// The root of a custom resource: its metadata has the common schema.
    root: bool,
}

/// How a list merges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListType {
    Atomic,
    Set,
    Map(Vec<String>),
}

/// All definitions, by name.
pub(crate) fn definitions() -> &'static Map<String, Value> {
    &DEFINITIONS
}

/// Group, version and kind with the definition, for definitions of kinds.
static KINDS: LazyLock<BTreeMap<(&'static str, &'static str, &'static str), &'static str>> =
    LazyLock::new(|| {
        let text = |kind: &'static Value, field: &str| kind[field].as_str().unwrap_or_default();
        DEFINITIONS
            .iter()
            .flat_map(|(name, definition)| {
                let kinds = definition.get("x-kubernetes-group-version-kind");
                let kinds = kinds.and_then(Value::as_array).into_iter().flatten();
                kinds.map(move |kind| {
                    let key = (text(kind, "group"), text(kind, "version"), text(kind, "kind"));
                    (key, name.as_str())
                })
            })
            .collect()
    });

/// The name of the definition of a kind.
pub(crate) fn definition_name(group: &str, version: &str, kind: &str) -> Option<&'static str> {
    KINDS.get(&(group, version, kind)).copied()
}

/// The schema of a custom resource in one version.
pub(crate) fn custom<'a>(definition: &'a Value, version: &str) -> Option<&'a Value> {
    crate::object::list(definition, &["spec", "versions"])
        .iter()
        .find(|known| crate::object::text(known, &["name"]) == version)
        .and_then(|known| crate::object::at(known, &["schema", "openAPIV3Schema"]))
}

impl<'a> Schema<'a> {
    /// The schema of a kind's objects as they are stored.
    pub(crate) fn of(kind: &'a ResourceType) -> Self {
        Self::of_version(kind, &kind.version)
    }

    pub(crate) fn of_version(kind: &'a ResourceType, version: &str) -> Self {
        if let Some(definition) = &kind.definition {
            return Self { node: custom(definition, version), root: true };
        }
        let name = definition_name(&kind.name.group, version, &kind.kind);
        Self { node: name.and_then(|name| DEFINITIONS.get(name)), root: false }
    }

    /// The schema with this name.
    pub(crate) fn named(name: &str) -> Self {
        Self::plain(DEFINITIONS.get(name))
    }

    /// The name of the schema that this one references.
    pub(crate) fn reference(self) -> Option<&'a str> {
        self.node?.get("$ref")?.as_str()
    }

    fn plain(node: Option<&'a Value>) -> Self {
        Self { node, root: false }
    }

    pub(crate) fn is_known(self) -> bool {
        self.node.is_some()
    }

    /// The value of a keyword, here or in the referenced schema.
    pub(crate) fn keyword(self, keyword: &str) -> Option<&'a Value> {
        let node = self.node?;
        node.get(keyword).or_else(|| {
            let name = node.get("$ref")?.as_str()?;
            DEFINITIONS.get(name)?.get(keyword)
        })
    }

    fn text(self, keyword: &str) -> &'a str {
        self.keyword(keyword).and_then(Value::as_str).unwrap_or_default()
    }

    fn flag(self, keyword: &str) -> bool {
        self.keyword(keyword).and_then(Value::as_bool).unwrap_or_default()
    }

    /// `object`, `array`, `string`; empty if any type is allowed.
    pub(crate) fn type_name(self) -> &'a str {
        if self.flag("x-kubernetes-int-or-string") || self.text("format") == "int-or-string" {
            return "";
        }
        // Quantities and raw values accept more than their declared type.
        let name = self.node.and_then(|node| node.get("$ref")).and_then(Value::as_str);
        match name {
            Some(name)
                if ["Quantity", "JSON"].contains(&name.rsplit('.').next().unwrap_or_default())
                    || name.contains("JSONSchemaPropsOr") =>
            {
                ""
            }
            _ => self.text("type"),
        }
    }

    /// The schema of a field.
    pub(crate) fn field(self, field: &str) -> Self {
        if self.root && field == "metadata" {
            return Self::plain(Some(&METADATA));
        }
        let named = self.keyword("properties").and_then(|properties| properties.get(field));
        Self::plain(
            named.or_else(|| self.keyword("additionalProperties").filter(|rest| rest.is_object())),
        )
    }

    /// The named fields; `None` if this is not a struct.
    pub(crate) fn fields(self) -> Option<&'a Map<String, Value>> {
        self.keyword("properties").and_then(Value::as_object)
    }

    /// Whether the schema allows a field.
    pub(crate) fn allows(self, field: &str) -> bool {
        if self.root && ["apiVersion", "kind", "metadata"].contains(&field) {
            return true;
        }
        if !self.is_known() || self.flag("x-kubernetes-preserve-unknown-fields") {
            return true;
        }
        match (self.fields(), self.keyword("additionalProperties")) {
            (_, Some(rest)) if rest.as_bool() != Some(false) => true,
            (Some(fields), _) => {
                fields.contains_key(field)
                    || self.flag("x-kubernetes-embedded-resource")
                        && ["apiVersion", "kind", "metadata"].contains(&field)
            }
            // A built-in object without declared fields accepts any.
            (None, _) => self.root_of_builtin(),
        }
    }

    fn root_of_builtin(self) -> bool {
        self.node.is_some_and(|node| node.get("$ref").is_some()) || self.type_name().is_empty()
    }

    /// The schema of a list item.
    pub(crate) fn items(self) -> Self {
        Self::plain(self.keyword("items"))
    }

    /// How server-side apply merges a list.
    pub(crate) fn list_type(self) -> ListType {
        match self.text("x-kubernetes-list-type") {
            "set" => ListType::Set,
            "map" => {
                let keys = self.keyword("x-kubernetes-list-map-keys").and_then(Value::as_array);
                let keys = keys.into_iter().flatten().filter_map(Value::as_str);
                ListType::Map(keys.map(str::to_owned).collect())
            }
            _ => ListType::Atomic,
        }
    }

    /// Whether server-side apply replaces a map as a whole.
    pub(crate) fn is_atomic(self) -> bool {
        self.text("x-kubernetes-map-type") == "atomic"
    }

    pub(crate) fn is_required(self, field: &str) -> bool {
        let required = self.keyword("required").and_then(Value::as_array);
        required.is_some_and(|required| required.iter().any(|name| name == field))
    }

    /// The key by which a strategic merge patch merges a list.
    pub(crate) fn merge_key(self) -> Option<&'a str> {
        self.merges().then(|| self.keyword("x-kubernetes-patch-merge-key")?.as_str())?
    }

    /// Whether a strategic merge patch merges a list.
    pub(crate) fn merges(self) -> bool {
        self.text("x-kubernetes-patch-strategy").split(',').any(|strategy| strategy == "merge")
    }

    /// Whether a strategic merge patch replaces a map.
    pub(crate) fn replaces(self) -> bool {
        self.text("x-kubernetes-patch-strategy").split(',').any(|strategy| strategy == "replace")
    }

    /// The default value of a field.
    pub(crate) fn default(self) -> Option<&'a Value> {
        self.keyword("default")
    }
}
