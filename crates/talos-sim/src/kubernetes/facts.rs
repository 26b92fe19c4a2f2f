//! The facts that kubelets receive about their machines.

use std::collections::BTreeMap;

use kube_sim::kubelet::{NodeFacts, NodeFaults, StaticPod};
use sha2::{Digest as _, Sha256};

use crate::model::{Component, KubernetesNode, KubernetesPod, NodeIndex, World};

/// The kernel, the same on all nodes of the model.
const KERNEL: &str = "6.18.0-talos";
const RUNTIME: &str = "containerd://2.1.4";

/// The facts of all nodes, in their order.
pub(super) fn of_all(world: &World) -> Vec<NodeFacts> {
    (0..world.len()).filter_map(|index| world.kubernetes(NodeIndex(index))).map(of).collect()
}

/// The facts last sent to the kubelets, so that only changes are sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Sent {
    nodes: Vec<Option<KubernetesNode>>,
}

impl Sent {
    /// What has changed since the last call, and the names of the nodes that have left; `None` on
    /// the first call.
    pub(super) fn news(&mut self, world: &World) -> Option<(Vec<NodeFacts>, Vec<String>)> {
        let first = self.nodes.is_empty();
        let (mut changed, mut gone) = (Vec::new(), Vec::new());
        self.nodes.resize(world.len(), None);
        for (index, known) in self.nodes.iter_mut().enumerate() {
            let node = NodeIndex(index);
            if known.as_ref().is_some_and(|known| world.kubernetes_is(node, known)) {
                continue;
            }
            let current = world.kubernetes(node);
            match (&current, known.take()) {
                (Some(current), _) => changed.push(of(current.clone())),
                (None, Some(before)) => gone.push(before.name),
                (None, None) => {}
            }
            *known = current;
        }
        // If another node took the name of one that left, the name is not gone.
        gone.retain(|name| !changed.iter().any(|facts| facts.name == *name));
        (!first).then_some((changed, gone))
    }
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
            unpullable: node.unpullable,
            budgets_stuck: node.budgets_stuck,
            volumes_stay: node.volumes_stuck,
        },
        ..NodeFacts::new(&node.name, &address, node.control_plane)
    }
}

fn static_pod(pod: &KubernetesPod) -> StaticPod {
    let KubernetesPod { component, image, ready, config_version, config_files } = pod;
    let files = config_files.map(|files| files.to_string());
    let hash =
        Sha256::digest(format!("{image} {config_version} {}", files.as_deref().unwrap_or("")));
    let hash = u64::from_be_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|index| hash[index]));
    StaticPod {
        component: component.name().to_owned(),
        image: image.clone(),
        ready: *ready,
        config_version: *config_version,
        config_file_version: files,
        config_hash: format!("{hash:016x}"),
    }
}

/// The tag of an image; empty if it has none.
fn tag(image: &str) -> &str {
    let image = image.split('@').next().unwrap_or(image);
    image.rsplit('/').next().and_then(|last| last.split_once(':')).map_or("", |(_, tag)| tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClusterSpec, Fault, NodeSpec, Time};
    use upgrade_core::version::Version;

    #[test]
    fn facts_match_the_node() {
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
    fn only_changes_are_sent() {
        let spec = ClusterSpec::new(1, 2, &Version::new(1, 13, 9), &Version::new(1, 34, 2));
        let mut world = World::new(&spec, 0, Time::from_secs(1_800_000_000));
        let now = world.now();
        let mut sent = Sent::default();
        assert!(sent.news(&world).is_none());
        assert_eq!(sent.news(&world), Some((Vec::new(), Vec::new())));
        for fault in [
            Fault::Partition,
            Fault::Silent,
            Fault::NotReady,
            Fault::StuckBudgets,
            Fault::StuckVolumes,
            Fault::FailingPull,
        ] {
            for on in [true, false] {
                if on {
                    world.inject(now, Some(NodeIndex(1)), &fault);
                } else {
                    world.clear(now, Some(NodeIndex(1)), fault.kind());
                }
                let (changed, gone) = sent.news(&world).unwrap();
                assert_eq!(changed, [of_all(&world)[1].clone()], "{fault:?} {on}");
                assert!(gone.is_empty() && sent.news(&world).unwrap().0.is_empty());
            }
        }
        assert!(world.leave(now, NodeIndex(2)));
        assert_eq!(sent.news(&world), Some((Vec::new(), vec!["worker-2".to_owned()])));
        let again = NodeSpec { addresses: Vec::new(), ..spec.nodes[2].clone() };
        assert_eq!(world.join(now, again), Some(NodeIndex(3)));
        assert_eq!(sent.news(&world).unwrap().0[0].name, "worker-2");
    }

    #[test]
    fn tags() {
        assert_eq!(tag("ghcr.io/siderolabs/kubelet:v1.34.2"), "v1.34.2");
        assert_eq!(tag("localhost:5000/kubelet:v1@sha256:00"), "v1");
        assert_eq!(tag("localhost:5000/kubelet"), "");
    }
}
