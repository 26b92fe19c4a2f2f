//! The two products that have versions, and a value for each of them.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

use crate::image::ImageRef;
use crate::snapshot::{Fact, Snapshot};
use crate::version::Version;

/// One of the two things that have versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "product names")]
pub enum Product {
    Talos,
    Kubernetes,
}

impl Product {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Talos, Self::Kubernetes];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Talos => "Talos",
            Self::Kubernetes => "Kubernetes",
        }
    }
}

impl Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A value for each product.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "product names")]
pub struct PerProduct<T> {
    pub talos: T,
    pub kubernetes: T,
}

impl<T> PerProduct<T> {
    /// The value of one product.
    pub const fn of(&self, product: Product) -> &T {
        match product {
            Product::Talos => &self.talos,
            Product::Kubernetes => &self.kubernetes,
        }
    }

    /// The same, to change it.
    pub const fn of_mut(&mut self, product: Product) -> &mut T {
        match product {
            Product::Talos => &mut self.talos,
            Product::Kubernetes => &mut self.kubernetes,
        }
    }
}

/// The oldest and the newest version that runs somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// A cluster is as old as its oldest part.
    pub lowest: Version,
    /// How far the first part went ahead.
    pub newest: Version,
}

impl VersionRange {
    /// Of these; `None` if there are none.
    pub fn of(versions: impl IntoIterator<Item = Version>) -> Option<Self> {
        versions.into_iter().fold(None, |range: Option<Self>, version| {
            Some(match range {
                None => Self { lowest: version.clone(), newest: version },
                Some(Self { lowest, newest }) => {
                    Self { lowest: lowest.min(version.clone()), newest: newest.max(version) }
                }
            })
        })
    }

    /// Whether every part runs the same.
    pub fn is_one(&self) -> bool {
        self.lowest == self.newest
    }
}

impl Snapshot {
    /// What runs of each product, as far as it is known. Kubernetes is static pods,
    /// kube-proxy and kubelets alike. Nothing is said of a product that was left out of
    /// the question; an answer that did not come leaves what the machines say.
    pub fn versions(&self) -> PerProduct<Option<VersionRange>> {
        let nodes = || self.nodes.values();
        let talos = nodes().filter_map(|node| Some(node.talos.known()?.version.clone()));
        let kubelets = nodes().filter_map(|node| Some(node.kubernetes.known()?.kubelet.clone()));
        let images = nodes().filter_map(|node| node.images.known());
        let images = images.flat_map(|images| images.values()).filter_map(ImageRef::version);
        let kubernetes = kubelets.chain(images).chain(self.kubernetes.known().cloned());
        let asked = self.kubernetes != Fact::Unasked;
        PerProduct {
            talos: VersionRange::of(talos),
            kubernetes: VersionRange::of(kubernetes).filter(|_| asked),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_spans_what_runs() {
        let version = |minor| Version::new(1, minor, 0);
        assert_eq!(VersionRange::of([]), None);
        let range = VersionRange::of([version(13), version(12), version(14)]).unwrap();
        assert_eq!((&range.lowest, &range.newest), (&version(12), &version(14)));
        assert!(!range.is_one());
        assert!(VersionRange::of([version(13), version(13)]).unwrap().is_one());
    }

    #[test]
    fn each_product_has_its_own_value() {
        let mut counts = PerProduct::<u32>::default();
        *counts.of_mut(Product::Kubernetes) += 1;
        assert_eq!(Product::ALL.map(|product| *counts.of(product)), [0, 1]);
    }
}
