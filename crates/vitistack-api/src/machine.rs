//! `Machine` (`vitistack.io/v1alpha1`): how nodes of a cluster are found.

use std::net::Ipv4Addr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::label;
use upgrade_api::resource;

/// A machine of the platform. Its name is that of its node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// The group and version of its kind.
    #[serde(default = "Machine::own_api_version")]
    pub api_version: String,
    /// Its kind.
    #[serde(default = "Machine::own_kind")]
    pub kind: String,
    /// Its name and labels.
    pub metadata: ObjectMeta,
    /// What is known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<MachineStatus>,
}

resource!(Machine, "vitistack.io", "v1alpha1", "machines");

impl Machine {
    /// The cluster it belongs to.
    pub fn cluster_id(&self) -> Option<&str> {
        self.label(label::CLUSTER_ID)
    }

    /// Whether it is a control plane; `None` if it does not say.
    pub fn is_control_plane(&self) -> Option<bool> {
        match self.label(label::NODE_ROLE)? {
            label::CONTROL_PLANE => Some(true),
            label::WORKER => Some(false),
            _ => None,
        }
    }

    /// The first IPv4 address, which is what its Talos is reached at.
    pub fn address(&self) -> Option<Ipv4Addr> {
        let addresses = &self.status.as_ref()?.public_ip_addresses;
        addresses.iter().find_map(|address| address.parse().ok())
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(name).map(String::as_str)
    }
}

/// What is known of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MachineStatus {
    /// What it is doing.
    pub phase: String,
    /// Its addresses, of both families.
    #[serde(rename = "publicIPAddresses")]
    pub public_ip_addresses: Vec<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_ipv4_address_counts() {
        let machine: Machine = serde_json::from_value(json!({
            "metadata": {"name": "c1-ctp0", "labels": {
                "vitistack.io/clusterid": "c1", "vitistack.io/node-role": "control-plane"}},
            "spec": {"provider": "kubevirt"},
            "status": {"publicIPAddresses": ["fe80::1", "10.0.0.1", "10.0.0.2"]},
        }))
        .expect("readable");
        assert_eq!(machine.address(), Some(Ipv4Addr::new(10, 0, 0, 1)));
        assert_eq!(machine.cluster_id(), Some("c1"));
        assert_eq!(machine.is_control_plane(), Some(true));
    }
}
