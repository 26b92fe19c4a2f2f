//! References from one object to another. Which fields count depends on who refers; absent
//! ones are empty.

use serde::{Deserialize, Serialize};

/// An object of the same namespace, by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NameReference {
    /// Empty if the reference is there without a name, which stands for none.
    pub name: String,
}

/// A key of a `ConfigMap` or a Secret of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeyReference {
    /// Of the object.
    pub name: String,
    /// In its data.
    pub key: String,
    /// Whether it is no mistake if object or key are missing.
    #[serde(skip_serializing_if = "is_false")]
    pub optional: bool,
}

/// Any object. The fields that only Kubernetes itself sets are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectReference {
    /// Group and version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// The kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Empty for cluster-scoped objects, and for the namespace of the one that refers.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Where in the object a value is: a `JSONPath` without braces, a leading dot or not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field_path: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) const fn is_false(value: &bool) -> bool {
    !*value
}
