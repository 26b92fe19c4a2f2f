//! What a node would answer, for doors that are in the same process and need no
//! message for it. It is read as it is; whether the node can be reached is for
//! the caller to ask.

use super::World;
use super::api::NodeIndex;
use super::config::COMPONENTS;
use super::kubernetes::Component;
use kube_sim::random::Random;

impl World {
    /// Other chances from here on: many worlds may begin as one.
    pub fn reseed(&mut self, seed: u64) {
        self.random = Random::new(seed);
    }

    /// The stage that the machine status names, with the number of the API, and
    /// the conditions that keep it from calling the machine ready, by name and reason. Both
    /// from one reading.
    pub fn machine_status_of(&self, node: NodeIndex) -> (i32, Vec<(&'static str, String)>) {
        let here = &self.nodes[node.0];
        (here.stage as i32, self.unmet_conditions(node))
    }

    /// The static pods that the machine renders, and whether a status of each says that
    /// it is ready.
    pub fn static_pods_of(&self, node: NodeIndex) -> impl Iterator<Item = (Component, bool)> {
        let kubernetes = &self.nodes[node.0].kubernetes;
        kubernetes.pods.iter().map(move |pod| {
            let known = kubernetes.pods_asked_for && self.pod_is_ready(node, pod);
            (pod.component, known)
        })
    }

    /// The text of the configuration in force. It holds keys (rule 14).
    pub fn config_of(&self, node: NodeIndex) -> &str {
        &self.nodes[node.0].config.active
    }

    /// The configuration on disk, if the node shows one; it holds keys (rule 14).
    pub fn config_on_disk_of(&self, node: NodeIndex) -> Option<&str> {
        self.nodes[node.0].config.on_disk()
    }

    /// The image of the installer that the configuration in force names.
    pub fn install_image_of(&self, node: NodeIndex) -> Option<&str> {
        self.nodes[node.0].config.install_image()
    }

    /// The images that the configuration comes to.
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
