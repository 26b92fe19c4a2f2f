//! What the kubelets are told of their machines.

use std::collections::BTreeMap;

use kube_sim::kubelet::{NodeFacts, NodeFaults, StaticPod};
use sha2::{Digest as _, Sha256};

use crate::model::{Component, KubernetesNode, KubernetesPod, NodeIndex, World};

/// The kernel and the runtime, as all nodes of the model have them.
const KERNEL: &str = "6.18.0-talos";
const RUNTIME: &str = "containerd://2.1.4";

/// Of all nodes, in their order.
pub(super) fn of_all(world: &World) -> Vec<NodeFacts> {
    (0..world.len()).filter_map(|index| world.kubernetes(NodeIndex(index))).map(of).collect()
}

fn of(node: KubernetesNode) -> NodeFacts {
    let address = node.addresses.first().map(ToString::to_string).unwrap_or_default();
    let kubelet = Component::Kubelet.name().to_owned();
    NodeFacts {
        addresses: node.addresses.iter().map(ToString::to_string).collect(),
        kubelet_up: node.kubelet_up,
        ready: node.kubelet_ready,
        kubelet_version: tag(&node.kubelet_image).to_owned(),
        boot_id: node.boot_id,
        os_image: format!("Talos ({})", node.talos.tag()),
        kernel: KERNEL.to_owned(),
        runtime: RUNTIME.to_owned(),
        images: BTreeMap::from([(kubelet, node.kubelet_image)]),
        static_pods: node.pods.iter().map(static_pod).collect(),
        faults: NodeFaults {
            // Every image begins so.
            unpullable: if node.pulls_fail { vec![String::new()] } else { Vec::new() },
            ..NodeFaults::default()
        },
        ..NodeFacts::new(&node.name, &address, node.control_plane)
    }
}

fn static_pod(pod: &KubernetesPod) -> StaticPod {
    let KubernetesPod { component, image, ready, config_version } = pod;
    let hash = Sha256::digest(format!("{image} {config_version}"));
    let hash = u64::from_be_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|index| hash[index]));
    StaticPod {
        component: component.name().to_owned(),
        image: image.clone(),
        ready: *ready,
        config_version: *config_version,
        config_hash: format!("{hash:016x}"),
    }
}

/// The tag of an image; nothing if it has none.
fn tag(image: &str) -> &str {
    let image = image.split('@').next().unwrap_or(image);
    image.rsplit('/').next().and_then(|last| last.split_once(':')).map_or("", |(_, tag)| tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClusterSpec, Time};
    use upgrade_core::version::Version;

    #[test]
    fn a_node_is_told_as_it_is() {
        let spec = ClusterSpec::new(1, 1, &Version::new(1, 13, 9), &Version::new(1, 34, 2));
        let world = World::new(&spec, 0, Time::from_secs(1_800_000_000));
        let facts = of_all(&world);
        assert_eq!(facts.len(), 2);
        assert!(facts[0].control_plane && facts[0].ready && facts[0].kubelet_up);
        assert_eq!(facts[0].kubelet_version, "v1.34.2");
        assert_eq!(facts[0].static_pods.len(), 3);
        assert_eq!(facts[1].os_image, "Talos (v1.13.9)");
        assert!(facts[1].static_pods.is_empty());
    }

    #[test]
    fn tags() {
        assert_eq!(tag("ghcr.io/siderolabs/kubelet:v1.34.2"), "v1.34.2");
        assert_eq!(tag("localhost:5000/kubelet:v1@sha256:00"), "v1");
        assert_eq!(tag("localhost:5000/kubelet"), "");
    }
}
