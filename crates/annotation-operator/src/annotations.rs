//! The annotations of users as types. How an upgrade is done is read by
//! [`Steering`], like on every front end.

use std::collections::{BTreeMap, BTreeSet};

use upgrade_controller::steering::{self, AnnotationError, Steering};
use upgrade_core::policy::Policy;
use upgrade_core::product::Product;
use upgrade_core::snapshot::NodeName;
use upgrade_core::version::Version;
use vitistack_api::annotation;

use crate::keys;

/// What a user asks for in the annotations of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpgradeRequest {
    /// The Talos target as it was written.
    pub talos: Option<String>,
    /// The Kubernetes target as it was written.
    pub kubernetes: Option<String>,
    /// Bookkeeping and targets are to be wiped, once.
    pub reset: bool,
    /// The operator leaves this object alone.
    pub do_not_reconcile: bool,
    /// How it is to be done.
    pub steering: Steering,
}

impl UpgradeRequest {
    /// Reads the annotations.
    pub fn from_annotations(annotations: &BTreeMap<String, String>) -> Self {
        // An empty target is one that was removed.
        let target = |product| steering::value(annotations, keys::target(product));
        Self {
            talos: target(Product::Talos),
            kubernetes: target(Product::Kubernetes),
            reset: steering::is_set(annotations, annotation::RESET),
            // As the platform's own operator reads it: any value counts.
            do_not_reconcile: annotation::do_not_reconcile(annotations),
            steering: Steering::from_annotations(annotations),
        }
    }

    /// The target of a product, as it was written.
    pub fn target(&self, product: Product) -> Option<&str> {
        match product {
            Product::Talos => self.talos.as_deref(),
            Product::Kubernetes => self.kubernetes.as_deref(),
        }
    }

    /// Whether anything is wanted.
    pub fn has_target(&self) -> bool {
        self.talos.is_some() || self.kubernetes.is_some()
    }

    /// Whether a target means this version.
    pub fn targets(&self, product: Product, version: &Version) -> bool {
        self.target(product).and_then(|text| text.parse::<Version>().ok()).as_ref() == Some(version)
    }

    /// Nodes that are no machines of the cluster, those of the operator's own policy
    /// included.
    pub fn foreign(&self, base: &Policy) -> BTreeSet<NodeName> {
        self.steering.foreign(base)
    }

    /// The policy, or which annotation is not valid.
    pub fn policy(&self, base: &Policy) -> Result<Policy, AnnotationError> {
        self.steering.policy(base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(pairs: &[(&str, &str)]) -> UpgradeRequest {
        let annotations =
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        UpgradeRequest::from_annotations(&annotations)
    }

    #[test]
    fn annotations_are_read() {
        let read = request(&[
            ("upgrade.vitistack.io/talos-target", " v1.12.0 "),
            ("upgrade.vitistack.io/kubernetes-target", ""),
            ("upgrade.vitistack.io/pause", "anna, until Monday"),
            ("upgrade.vitistack.io/rollback", "true"),
            ("upgrade.vitistack.io/foreign-nodes", "edge-1, edge-2,"),
            ("upgrade.vitistack.io/talos-reset-upgrade-state", "false"),
        ]);
        assert_eq!(read.talos.as_deref(), Some("v1.12.0"));
        assert!(read.targets(Product::Talos, &Version::new(1, 12, 0)));
        assert_eq!(read.kubernetes, None, "an empty target is none");
        assert_eq!(read.steering.pause.as_deref(), Some("anna, until Monday"));
        assert!(read.steering.rollback && !read.reset && !read.do_not_reconcile);
        assert_eq!(read.foreign(&Policy::default()).len(), 2);
    }
}
