//! What a look at a cluster comes down to for its annotations.

use upgrade_core::image::ImageRef;
use upgrade_core::snapshot::Snapshot;
use upgrade_core::version::Version;
use vitistack_api::run::Product;

/// The oldest and the newest of something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// The oldest that runs somewhere; a cluster is as old as its oldest part.
    pub lowest: Version,
    /// The newest that runs somewhere.
    pub newest: Version,
}

impl Spread {
    pub(crate) fn of(versions: impl Iterator<Item = Version>) -> Option<Self> {
        versions.fold(None, |spread: Option<Self>, version| {
            Some(match spread {
                None => Self { lowest: version.clone(), newest: version },
                Some(Self { lowest, newest }) => {
                    Self { lowest: lowest.min(version.clone()), newest: newest.max(version) }
                }
            })
        })
    }
}

/// What runs on a cluster, observed (never what somebody wrote down).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Talos.
    pub talos: Spread,
    /// Kubernetes: static pods, kube-proxy and kubelets alike.
    pub kubernetes: Spread,
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
        let nodes = || snapshot.nodes.values();
        let talos = nodes().filter_map(|node| Some(node.talos.known()?.version.clone()));
        let talos = Spread::of(talos).ok_or("no node was found")?;
        if let Some(why) = snapshot.kubernetes.trouble() {
            return Err(format!("the Kubernetes version cannot be seen: {why}"));
        }
        let kubelets = nodes().filter_map(|node| Some(node.kubernetes.known()?.kubelet.clone()));
        let images = nodes().filter_map(|node| node.images.known());
        let images = images.flat_map(|images| images.values()).filter_map(ImageRef::version);
        let parts = kubelets.chain(images).chain(snapshot.kubernetes.known().cloned());
        let kubernetes = Spread::of(parts).ok_or("no Kubernetes component was found")?;
        Ok(Self { talos, kubernetes, nodes: snapshot.nodes.len() })
    }

    /// What runs of a product.
    pub const fn of_product(&self, product: Product) -> &Spread {
        match product {
            Product::Talos => &self.talos,
            Product::Kubernetes => &self.kubernetes,
        }
    }
}
