//! The versions that run on a cluster, as they were observed.

use std::collections::BTreeSet;

use thiserror::Error;
use upgrade_core::product::{Product, VersionRange};
use upgrade_core::snapshot::{NodeName, Snapshot};

/// The versions that run on a cluster, as observed and never as written in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedVersions {
    /// Talos.
    pub talos: VersionRange,
    /// Kubernetes: static pods, kube-proxy and kubelets alike.
    pub kubernetes: VersionRange,
    /// How many nodes there are.
    pub nodes: usize,
}

/// Why the versions of a cluster are not known (rule 10).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum VersionsError {
    /// A node of Kubernetes without a known machine. The front end says how it is marked as
    /// foreign.
    #[error("no machine is known for node {node}: {why}")]
    NoMachine {
        /// Its name.
        node: NodeName,
        /// Why there is none.
        why: String,
    },
    /// A node did not answer.
    #[error("node {node} cannot be observed: {why}")]
    Node {
        /// Its name.
        node: NodeName,
        /// What went wrong.
        why: String,
    },
    /// There is no node at all.
    #[error("no node was found")]
    NoNode,
    /// Kubernetes did not answer, or a component runs an image without a version.
    #[error("the Kubernetes version cannot be observed: {0}")]
    Kubernetes(String),
    /// There is no component of Kubernetes.
    #[error("no Kubernetes component was found")]
    NoComponent,
}

impl ObservedVersions {
    /// Takes it from a snapshot. A node without a known machine is an error, since its
    /// version is unknown, unless the user lists it as foreign (rule 10).
    pub fn of(snapshot: &Snapshot, foreign: &BTreeSet<NodeName>) -> Result<Self, VersionsError> {
        if let Some((node, why)) = snapshot.unknown_nodes(foreign).next() {
            return Err(VersionsError::NoMachine { node: node.clone(), why: why.to_owned() });
        }
        for (name, node) in &snapshot.nodes {
            if let Some(why) = node.talos.why_unknown() {
                return Err(VersionsError::Node { node: name.clone(), why: why.to_string() });
            }
        }
        let versions = snapshot.versions();
        let talos = versions.talos.ok_or(VersionsError::NoNode)?;
        if let Some(why) = snapshot.kubernetes.why_unknown() {
            return Err(VersionsError::Kubernetes(why.to_string()));
        }
        let kubernetes = versions.kubernetes.ok_or(VersionsError::NoComponent)?;
        Ok(Self { talos, kubernetes, nodes: snapshot.nodes.len() })
    }

    /// The versions of a product.
    pub const fn of_product(&self, product: Product) -> &VersionRange {
        match product {
            Product::Talos => &self.talos,
            Product::Kubernetes => &self.kubernetes,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use upgrade_core::jiff::Timestamp;
    use upgrade_core::snapshot::{
        Fact, KubernetesFacts, Node, Role, Stage, StaticPod, TalosFacts, Unmatched,
    };
    use upgrade_core::version::Version;

    use super::*;

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
        let kubernetes = KubernetesFacts {
            kubelet,
            ready: true,
            unschedulable: false,
            marked: false,
            addresses: vec![],
        };
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
        let none = BTreeSet::new();
        assert_eq!(ObservedVersions::of(&snapshot, &none).unwrap().nodes, 1);
        snapshot
            .unmatched
            .insert("edge-1".into(), Unmatched::because("discovery does not show it"));
        let why = ObservedVersions::of(&snapshot, &none).unwrap_err();
        let expected = VersionsError::NoMachine {
            node: "edge-1".into(),
            why: "discovery does not show it".to_owned(),
        };
        assert_eq!(why, expected);
        let foreign = BTreeSet::from([NodeName::from("edge-1")]);
        assert_eq!(ObservedVersions::of(&snapshot, &foreign).unwrap().nodes, 1);
    }
}
