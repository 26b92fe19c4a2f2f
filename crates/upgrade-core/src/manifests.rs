//! What Talos's inventory names and no control plane renders any more.
//!
//! Talos keeps an inventory of every object that it has applied. An upgrade of
//! Kubernetes deletes the objects that are no longer in the manifests. That is only
//! safe if the manifests of every control plane are known completely, including
//! those that it downloads (rule 10).

use std::collections::BTreeSet;
use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

/// An object, whatever its version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectKey {
    /// Its API group; empty for the core.
    pub group: String,
    /// Its kind, such as `DaemonSet`.
    pub kind: String,
    /// Empty for what belongs to the whole cluster.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group: _, kind, namespace, name } = self;
        match namespace.as_str() {
            "" => write!(f, "{kind} {name}"),
            namespace => write!(f, "{kind} {namespace}/{name}"),
        }
    }
}

impl ObjectKey {
    /// Whether other objects or data go with it: with a definition all objects
    /// of its kind, with a namespace everything in it, with a volume its data.
    pub fn takes_others_along(&self) -> bool {
        match (self.group.as_str(), self.kind.as_str()) {
            ("apiextensions.k8s.io", "CustomResourceDefinition") => true,
            ("", kind) => {
                matches!(kind, "Namespace" | "PersistentVolume" | "PersistentVolumeClaim")
            }
            _ => false,
        }
    }
}

/// What was seen of the manifests and the inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifests {
    /// Objects of the inventory that no control plane renders.
    pub left: BTreeSet<ObjectKey>,
    /// Why the manifests are not known completely; empty if they are. Then, and
    /// only then, may something be deleted (rule 10).
    pub gaps: Vec<String>,
    /// Whether Talos runs CoreDNS.
    pub core_dns: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_others_along_is_known_by_its_group() {
        let key = |group: &str, kind: &str| ObjectKey {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: String::new(),
            name: "a".to_owned(),
        };
        assert!(key("apiextensions.k8s.io", "CustomResourceDefinition").takes_others_along());
        assert!(key("", "Namespace").takes_others_along());
        assert!(key("", "PersistentVolumeClaim").takes_others_along());
        assert!(!key("example.org", "Namespace").takes_others_along());
        assert!(!key("apps", "DaemonSet").takes_others_along());
        assert_eq!(key("apps", "DaemonSet").to_string(), "DaemonSet a");
    }
}
