//! The served kinds: built-in ones and those of custom resource definitions.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use crate::names::ResourceName;

mod builtin;

/// The properties of a resource type.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct ResourceType {
    /// Its group and plural.
    pub name: ResourceName,
    /// The version that objects are stored in.
    pub version: String,
    /// The versions that are served; the preferred one first.
    pub served: Vec<String>,
    /// The kind of its objects.
    pub kind: String,
    /// The kind of a list of them.
    pub list_kind: String,
    /// The singular name, for clients.
    pub singular: String,
    /// Short names for the command line.
    pub short_names: Vec<String>,
    /// The categories it belongs to, such as `all`.
    pub categories: Vec<String>,
    /// Whether objects belong to a namespace.
    pub namespaced: bool,
    /// Whether `status` is a subresource, which a plain update does not change.
    pub status: bool,
    /// Whether `scale` is a subresource.
    pub scale: bool,
    /// Whether a change of the spec increments `metadata.generation`.
    pub generation: bool,
    /// Whether objects are stored; reviews are only answered.
    pub stored: bool,
    /// The definition of a custom resource.
    pub definition: Option<Arc<serde_json::Value>>,
}

impl ResourceType {
    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        self.api_version_of(&self.version)
    }

    /// The same for one of the served versions.
    pub fn api_version_of(&self, version: &str) -> String {
        if self.name.group.is_empty() {
            version.to_owned()
        } else {
            format!("{}/{version}", self.name.group)
        }
    }
}

/// All types. Clusters without custom resource definitions share one set.
#[derive(Clone, Debug)]
pub struct Types {
    types: Arc<BTreeMap<ResourceName, Arc<ResourceType>>>,
}

static BUILTIN: LazyLock<Types> = LazyLock::new(|| {
    let types = builtin::all().map(|kind| (kind.name.clone(), Arc::new(kind))).collect();
    Types { types: Arc::new(types) }
});

impl Default for Types {
    fn default() -> Self {
        BUILTIN.clone()
    }
}

impl Types {
    /// The type of a resource.
    pub fn get(&self, resource: &ResourceName) -> Option<&Arc<ResourceType>> {
        self.types.get(resource)
    }

    /// The type that a path names, if that version is served.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<ResourceType>> {
        self.types
            .get(&ResourceName::owned(group, plural))
            .filter(|kind| kind.served.iter().any(|served| served == version))
    }

    /// The type of a kind.
    pub fn find_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<ResourceType>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.types.values().find(|known| {
            known.kind == kind
                && known.name.group == group
                && known.served.iter().any(|served| served == version)
        })
    }

    /// All of them, by group and plural.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ResourceType>> {
        self.types.values()
    }

    pub(crate) fn add(&mut self, kind: ResourceType) {
        Arc::make_mut(&mut self.types).insert(kind.name.clone(), Arc::new(kind));
    }

    pub(crate) fn remove(&mut self, resource: &ResourceName) {
        Arc::make_mut(&mut self.types).remove(resource);
    }
}
