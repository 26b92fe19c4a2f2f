//! Resources about the configuration.

use talos_proto::resource::{config, kubeaccess};
use talos_proto::{Kind, kind};

use super::super::World;
use super::super::api::NodeIndex;
use super::super::resource_value::{ResourceValue, map};
use super::View;

impl World {
    pub(super) fn config_views(&self, node: NodeIndex, kind: &Kind) -> Option<Vec<View>> {
        let here = &self.nodes[node.0];
        let views = match *kind {
            kind::MACHINE_CONFIG => {
                let message = config::MachineConfigSpec {
                    yaml_marshalled: here.config.active.clone().into(),
                };
                let mut view = View::new("v1alpha1", &message, &ResourceValue::Bool(true));
                // Clients read the text of this one unchanged.
                view.yaml.clone_from(&here.config.active);
                let mut views = vec![view.version(here.config.version)];
                // Talos 1.10 and later show the configuration on disk, once one was written.
                let on_disk = here.config.on_disk().filter(|_| here.minor() >= 10);
                if let Some(on_disk) = on_disk {
                    let yaml_marshalled = on_disk.as_bytes().to_vec();
                    let message = config::MachineConfigSpec { yaml_marshalled };
                    let mut view = View::new("persistent", &message, &ResourceValue::Bool(true));
                    on_disk.clone_into(&mut view.yaml);
                    views.push(view);
                }
                views
            }
            kind::MACHINE_TYPE => {
                let (number, name) = if here.is_control_plane() {
                    (config::MachineType::ControlPlane, "controlplane")
                } else {
                    (config::MachineType::Worker, "worker")
                };
                let message = config::MachineTypeSpec { machine_type: number.into() };
                vec![View::new("machine-type", &message, &name.into())]
            }
            // Only control planes let pods reach the Talos API.
            kind::KUBERNETES_ACCESS_CONFIG if !here.is_control_plane() => Vec::new(),
            kind::KUBERNETES_ACCESS_CONFIG => {
                let message = kubeaccess::ConfigSpec::default();
                let yaml = map([
                    ("enabled", false.into()),
                    ("allowedAPIRoles", ResourceValue::List(Vec::new())),
                    ("allowedKubernetesNamespaces", ResourceValue::List(Vec::new())),
                ]);
                vec![View::new("config", &message, &yaml)]
            }
            _ => return None,
        };
        Some(views)
    }
}
