//! The node's configuration.

use talos_proto::resource::{config, kubeaccess};
use upgrade_core::snapshot::Role;

use super::view;
use crate::Hidden;

/// The whole configuration of the machine, as YAML. Needs `os:admin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineConfig(pub Hidden<String>);

view!(MachineConfig of config::MachineConfigSpec as MACHINE_CONFIG at "v1alpha1", |spec| {
    String::from_utf8(spec.yaml_marshalled)
        .map(|yaml| MachineConfig(Hidden::new(yaml)))
        .map_err(|_| "it is not text".to_owned())
});

/// The role of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineKind(pub Role);

view!(MachineKind of config::MachineTypeSpec as MACHINE_TYPE at "machine-type", |spec| {
    match spec.machine_type() {
        config::MachineType::Unknown => Err("the machine's type is unknown".to_owned()),
        config::MachineType::Init | config::MachineType::ControlPlane => {
            Ok(MachineKind(Role::ControlPlane))
        }
        config::MachineType::Worker => Ok(MachineKind(Role::Worker)),
    }
});

/// The access of Kubernetes pods to the Talos API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubernetesAccess {
    /// Whether access is enabled.
    pub enabled: bool,
    /// The allowed roles.
    pub roles: Vec<String>,
    /// The allowed namespaces.
    pub namespaces: Vec<String>,
}

view!(KubernetesAccess of kubeaccess::ConfigSpec as KUBERNETES_ACCESS_CONFIG at "config", |spec| {
    Ok(KubernetesAccess {
        enabled: spec.enabled,
        roles: spec.allowed_api_roles,
        namespaces: spec.allowed_kubernetes_namespaces,
    })
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cosi::Spec as _;

    #[test]
    fn a_config_is_never_shown() {
        // Rule 14.
        let spec =
            config::MachineConfigSpec { yaml_marshalled: b"machine: {token: hunter2}".to_vec() };
        let config = MachineConfig::view(spec).unwrap();
        assert!(config.0.expose().contains("hunter2"));
        assert!(!format!("{config:?}").contains("hunter2"));
    }

    #[test]
    fn machine_types_map_to_roles() {
        let of = |machine_type| MachineKind::view(config::MachineTypeSpec { machine_type });
        assert_eq!(of(1).unwrap().0, Role::ControlPlane);
        assert_eq!(of(2).unwrap().0, Role::ControlPlane);
        assert_eq!(of(3).unwrap().0, Role::Worker);
        assert!(of(0).is_err());
    }
}
