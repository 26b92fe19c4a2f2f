//! What a look at a cluster comes down to for its annotations.

use std::collections::BTreeSet;

use upgrade_core::advice::Advice;
use upgrade_core::product::{Product, VersionRange};
use upgrade_core::snapshot::{NodeName, Snapshot};

use crate::advice;

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
    /// Takes it from a snapshot; says what could not be seen (rule 10). A node without a
    /// known machine runs nobody knows what, unless the user lists it as foreign.
    pub fn of(snapshot: &Snapshot, foreign: &BTreeSet<NodeName>) -> Result<Self, String> {
        if let Some((name, why)) = snapshot.unknown_nodes(foreign).next() {
            return Err(no_machine(name, why));
        }
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

/// What is told of a node that no machine is known for.
pub(crate) fn no_machine(node: &NodeName, why: &str) -> String {
    // No target is needed for it: the product does not matter.
    let advice = advice::brief(&Advice::no_machine(node), Product::Talos);
    format!("no machine is known for node {node}: {why} ({advice})")
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use upgrade_core::jiff::Timestamp;
    use upgrade_core::snapshot::{Fact, KubernetesFacts, Node, Role, Stage, StaticPod, TalosFacts};
    use upgrade_core::version::Version;

    use super::*;
    use crate::names;

    pub(crate) fn cluster() -> Snapshot {
        let talos = TalosFacts {
            version: Version::new(1, 13, 9),
            boot_id: "b".to_owned(),
            stage: Stage::Running,
            ready: true,
            static_pods: Vec::<StaticPod>::new(),
            schematic: None,
            extensions: Vec::new(),
            installer: None,
            platform: "metal".to_owned(),
            secure_boot: false,
            unmet: Vec::new(),
            uki: true,
            container: false,
            factory: None,
        };
        let kubelet = Version::new(1, 34, 2);
        let kubernetes =
            KubernetesFacts { kubelet, ready: true, unschedulable: false, addresses: vec![] };
        let node = Node {
            address: "10.0.0.1".to_owned(),
            role: Role::ControlPlane,
            pool: None,
            talos: Fact::Known(talos),
            kubernetes: Fact::Known(kubernetes),
            images: Fact::Known(BTreeMap::new()),
            api_server: Fact::Known(()),
        };
        Snapshot {
            cluster: "prod".to_owned(),
            taken_at: Timestamp::UNIX_EPOCH,
            nodes: BTreeMap::from([("cp-1".into(), node)]),
            etcd: Fact::Unasked,
            kubernetes: Fact::Known(Version::new(1, 34, 2)),
            unmatched: BTreeMap::new(),
        }
    }

    #[test]
    fn a_node_without_a_machine_is_not_left_out_of_what_runs() {
        // Rule 10: `1.13.9 runs on all nodes` would be a guess.
        let mut snapshot = cluster();
        let nobody = BTreeSet::new();
        assert_eq!(Seen::of(&snapshot, &nobody).unwrap().nodes, 1);
        snapshot.unmatched.insert("edge-1".into(), "discovery does not show it".to_owned());
        let why = Seen::of(&snapshot, &nobody).unwrap_err();
        assert!(why.contains("node edge-1: discovery does not show it"), "{why}");
        assert!(why.contains(names::FOREIGN_NODES), "{why}");
        let foreign = BTreeSet::from([NodeName::from("edge-1")]);
        assert_eq!(Seen::of(&snapshot, &foreign).unwrap().nodes, 1);
    }
}
