//! What a look at a cluster comes down to for its annotations.

use upgrade_core::product::Product;
use upgrade_core::product::VersionRange;
use upgrade_core::snapshot::Snapshot;

/// What runs on a cluster, observed (never what somebody wrote down).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Talos.
    pub talos: VersionRange,
    /// Kubernetes: static pods, kube-proxy and kubelets alike.
    pub kubernetes: VersionRange,
    /// How many nodes there are.
    pub nodes: usize,
}

impl Seen {
    /// Takes it from a snapshot; says what could not be seen (rule 10).
    pub fn of(snapshot: &Snapshot) -> Result<Self, String> {
        for (name, node) in &snapshot.nodes {
            if let Some(why) = node.talos.trouble() {
                return Err(format!("node {name} cannot be seen: {why}"));
            }
        }
        let versions = snapshot.versions();
        let talos = versions.talos.ok_or("no node was found")?;
        if let Some(why) = snapshot.kubernetes.trouble() {
            return Err(format!("the Kubernetes version cannot be seen: {why}"));
        }
        let kubernetes = versions.kubernetes.ok_or("no Kubernetes component was found")?;
        Ok(Self { talos, kubernetes, nodes: snapshot.nodes.len() })
    }

    /// What runs of a product.
    pub const fn of_product(&self, product: Product) -> &VersionRange {
        match product {
            Product::Talos => &self.talos,
            Product::Kubernetes => &self.kubernetes,
        }
    }
}
