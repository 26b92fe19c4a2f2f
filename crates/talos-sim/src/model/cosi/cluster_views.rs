//! Resources about the cluster that a node belongs to.

use talos_proto::resource::{cluster, enums, etcd};
use talos_proto::{Kind, common, kind};

use super::super::World;
use super::super::api::NodeIndex;
use super::super::resource_value::{ResourceValue, list, map};
use super::View;
use super::network_views::octets;

impl World {
    pub(super) fn cluster_views(&self, node: NodeIndex, kind: &Kind) -> Option<Vec<View>> {
        let views = match *kind {
            kind::MEMBER => self.members_of(node).into_iter().map(|it| self.member(it)).collect(),
            kind::CLUSTER_INFO => {
                let message = cluster::InfoSpec {
                    cluster_id: format!("{:016x}", self.etcd.cluster_id),
                    cluster_name: self.spec.name.clone(),
                };
                let yaml = map([
                    ("clusterId", message.cluster_id.clone().into()),
                    ("clusterName", message.cluster_name.clone().into()),
                ]);
                vec![View::new("current", &message, &yaml)]
            }
            kind::ETCD_MEMBER => {
                let here = &self.nodes[node.0];
                let member = self.etcd.member_of(node).filter(|_| here.service_runs("etcd"));
                let id = member.map(|member| format!("{:016x}", member.id));
                id.into_iter()
                    .map(|id| {
                        let message = etcd::MemberSpec { member_id: id.clone() };
                        View::new("local", &message, &map([("memberID", id.into())]))
                    })
                    .collect()
            }
            _ => return None,
        };
        Some(views)
    }

    /// A member as discovery shows it.
    fn member(&self, node: NodeIndex) -> View {
        let here = &self.nodes[node.0];
        let (number, name) = if here.is_control_plane() {
            (enums::MachineType::TypeControlPlane, "controlplane")
        } else {
            (enums::MachineType::TypeWorker, "worker")
        };
        let system = format!("Talos ({})", here.version().tag());
        let control_plane = here.is_control_plane();
        let addresses = self.member_addresses(node);
        let message = cluster::MemberSpec {
            node_id: here.identity.clone(),
            addresses: addresses
                .iter()
                .map(|address| common::NetIp { ip: octets(*address) })
                .collect(),
            hostname: here.hostname.clone(),
            machine_type: number.into(),
            operating_system: system.clone(),
            control_plane: control_plane.then_some(cluster::ControlPlane { api_server_port: 6443 }),
        };
        let mut yaml = map([
            ("nodeId", here.identity.clone().into()),
            ("addresses", list(addresses.iter().map(ToString::to_string))),
            ("hostname", here.hostname.clone().into()),
            ("machineType", name.into()),
            ("operatingSystem", system.into()),
        ]);
        if let (true, ResourceValue::Map(entries)) = (control_plane, &mut yaml) {
            entries.push(("controlPlane".into(), map([("port", 6443.into())])));
        }
        View::new(here.hostname.clone(), &message, &yaml)
    }
}
