//! Resources about the network.

use talos_proto::resource::{enums, network};
use talos_proto::{Kind, common, kind};

use super::super::World;
use super::super::api::NodeIndex;
use super::super::resource_value::{list, map};
use super::View;

impl World {
    pub(super) fn network_views(&self, node: NodeIndex, kind: &Kind) -> Option<Vec<View>> {
        let here = &self.nodes[node.0];
        let views = match *kind {
            kind::LINK_STATUS => links(node),
            kind::HOSTNAME_STATUS => {
                let message = network::HostnameStatusSpec {
                    hostname: here.hostname.clone(),
                    domainname: String::new(),
                };
                let yaml =
                    map([("hostname", here.hostname.clone().into()), ("domainname", "".into())]);
                vec![View::new("hostname", &message, &yaml)]
            }
            kind::NODE_ADDRESS => ["current", "default"]
                .into_iter()
                .map(|id| {
                    let addresses = match id {
                        "default" => here.addresses.iter().take(1).copied().collect(),
                        _ => self.own_addresses(node),
                    };
                    let addresses = addresses.iter();
                    let message = network::NodeAddressSpec {
                        addresses: addresses
                            .clone()
                            .map(|address| common::NetIpPrefix {
                                ip: octets(*address),
                                prefix_length: 24,
                            })
                            .collect(),
                    };
                    let yaml = map([
                        ("addresses", list(addresses.map(|address| format!("{address}/24")))),
                        ("sortAlgorithm", "v1".into()),
                    ]);
                    View::new(id, &message, &yaml)
                })
                .collect(),
            _ => return None,
        };
        Some(views)
    }
}

pub(super) fn octets(address: std::net::IpAddr) -> Vec<u8> {
    match address {
        std::net::IpAddr::V4(address) => address.octets().to_vec(),
        std::net::IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn links(node: NodeIndex) -> Vec<View> {
    let number = u8::try_from(node.0 % 255).unwrap_or(0) + 1;
    let link = |index: u32, name: &'static str, loopback: bool| {
        let hardware = if loopback { vec![0; 6] } else { vec![2, 0, 0, 0, 0, number] };
        let mtu: u32 = if loopback { 65_536 } else { 1_500 };
        let message = network::LinkStatusSpec {
            index,
            r#type: if loopback {
                enums::NethelpersLinkType::LinkLoopbck
            } else {
                enums::NethelpersLinkType::LinkEther
            }
            .into(),
            hardware_addr: hardware.clone(),
            mtu,
            operational_state: if loopback {
                enums::NethelpersOperationalState::OperStateUnknown
            } else {
                enums::NethelpersOperationalState::OperStateUp
            }
            .into(),
            link_state: true,
            ..Default::default()
        };
        let text: Vec<String> = hardware.iter().map(|byte| format!("{byte:02x}")).collect();
        let yaml = map([
            ("index", i64::from(index).into()),
            ("type", if loopback { "loopback" } else { "ether" }.into()),
            ("linkIndex", 0.into()),
            ("flags", if loopback { "UP,LOOPBACK,RUNNING" } else { "UP,BROADCAST,RUNNING" }.into()),
            ("hardwareAddr", text.join(":").into()),
            ("mtu", i64::from(mtu).into()),
            ("queueDisc", if loopback { "noqueue" } else { "pfifo_fast" }.into()),
            ("operationalState", if loopback { "unknown" } else { "up" }.into()),
            ("kind", "".into()),
            ("slaveKind", "".into()),
            ("linkState", true.into()),
        ]);
        View::new(name, &message, &yaml)
    };
    vec![link(2, "eth0", false), link(1, "lo", true)]
}
