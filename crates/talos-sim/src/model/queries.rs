//! A node's answers, for adapters in the same process that need no message for them. They are read
//! directly; the caller checks whether the node is reachable.

use super::World;
use super::api::NodeIndex;
use super::config::COMPONENTS;
use super::kubernetes::Component;
use kube_sim::random::Random;

impl World {
    /// Replaces the random seed: many worlds may start from one copy.
    pub fn reseed(&mut self, seed: u64) {
        self.random = Random::new(seed);
    }

    /// The stage in the machine status, with its number in the API, and the unmet conditions by
    /// name and reason. Both from one reading.
    pub fn machine_status_of(&self, node: NodeIndex) -> (i32, Vec<(&'static str, String)>) {
        let here = &self.nodes[node.0];
        (here.stage as i32, self.unmet_conditions(node))
    }

    /// The static pods that the machine renders, and whether a known status of each says that it is
    /// ready.
    pub fn static_pods_of(&self, node: NodeIndex) -> impl Iterator<Item = (Component, bool)> {
        let kubernetes = &self.nodes[node.0].kubernetes;
        kubernetes.pods.iter().map(move |pod| {
            let known = kubernetes.pods_asked_for && self.pod_is_ready(node, pod);
            (pod.component, known)
        })
    }

    /// The text of the active configuration. It holds keys (rule 14).
    pub fn config_of(&self, node: NodeIndex) -> &str {
        &self.nodes[node.0].config.active
    }

    /// The configuration on disk, if the node shows one. It holds keys (rule 14).
    pub fn config_on_disk_of(&self, node: NodeIndex) -> Option<&str> {
        self.nodes[node.0].config.on_disk()
    }

    /// The installer image in the active configuration.
    pub fn install_image_of(&self, node: NodeIndex) -> Option<&str> {
        self.nodes[node.0].config.install_image()
    }

    /// The component images that result from the configuration.
    pub fn config_images_of(&self, node: NodeIndex) -> impl Iterator<Item = (Component, &str)> {
        let here = &self.nodes[node.0];
        let own = |component: &Component| match component {
            Component::Kubelet => true,
            Component::Proxy => here.is_control_plane() && here.config.has_proxy(),
            _ => here.is_control_plane(),
        };
        COMPONENTS.into_iter().filter(own).map(|it| (it, here.config.components.image(it)))
    }
}
