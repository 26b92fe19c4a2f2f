//! The cluster as one node sees it.

use std::net::IpAddr;

use talos_proto::common::NetIp;
use talos_proto::resource::enums::MachineType;
use talos_proto::resource::{cluster, etcd};
use upgrade_core::snapshot::{MemberId, Role};
use upgrade_core::version::Version;

use super::view;

/// A node of the cluster, found by discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its identity in discovery.
    pub node_id: String,
    /// Its host name.
    pub hostname: String,
    /// Its addresses; the first is that of the Talos API.
    pub addresses: Vec<IpAddr>,
    /// Its role; `None` if it reports none.
    pub role: Option<Role>,
    /// Such as `Talos (v1.14.1)`.
    pub operating_system: String,
}

view!(Member of cluster::MemberSpec as MEMBER, |spec| {
    let role = match spec.machine_type() {
        MachineType::TypeUnknown => None,
        MachineType::TypeInit | MachineType::TypeControlPlane => Some(Role::ControlPlane),
        MachineType::TypeWorker => Some(Role::Worker),
    };
    Ok(Member {
        node_id: spec.node_id,
        hostname: spec.hostname,
        // An invalid address must hide neither the member nor the other addresses.
        addresses: spec.addresses.iter().filter_map(ip).collect(),
        role,
        operating_system: spec.operating_system,
    })
});

impl Member {
    /// The version in the operating system's name.
    pub fn version(&self) -> Option<Version> {
        let (_, rest) = self.operating_system.split_once('(')?;
        rest.split_once(')')?.0.parse().ok()
    }
}

/// An address of 4 or 16 bytes; a zone may follow.
fn ip(address: &NetIp) -> Option<IpAddr> {
    let bytes = address.ip.as_slice();
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16.. => <[u8; 16]>::try_from(&bytes[..16]).ok().map(IpAddr::from),
        _ => None,
    }
}

/// The identity of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterInfo {
    /// Its ID.
    pub id: String,
    /// Its name.
    pub name: String,
}

view!(ClusterInfo of cluster::InfoSpec as CLUSTER_INFO at "current", |spec| {
    Ok(ClusterInfo {
        id: spec.cluster_id,
        name: spec.cluster_name,
    })
});

/// The ID of the node's own etcd member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtcdMemberId(pub MemberId);

view!(EtcdMemberId of etcd::MemberSpec as ETCD_MEMBER at "local", |spec| {
    let id = u64::from_str_radix(&spec.member_id, 16).map_err(|error| error.to_string())?;
    Ok(EtcdMemberId(MemberId(id)))
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cosi::Spec as _;

    #[test]
    fn members() {
        let ip = |ip: &[u8]| NetIp { ip: ip.to_vec() };
        let mut spec = cluster::MemberSpec {
            hostname: "cp-1".to_owned(),
            addresses: vec![ip(&[10, 5, 0, 2]), ip(&[0xfd; 16]), ip(&[0xfd; 20])],
            machine_type: 2,
            operating_system: "Talos (v1.14.1)".to_owned(),
            ..cluster::MemberSpec::default()
        };
        let member = Member::view(spec.clone()).unwrap();
        assert_eq!(member.addresses[0], IpAddr::from([10, 5, 0, 2]));
        assert_eq!(member.addresses.len(), 3);
        assert_eq!(member.role, Some(Role::ControlPlane));
        assert_eq!(member.version(), Some(Version::new(1, 14, 1)));
        spec.addresses.push(ip(&[1, 2, 3]));
        assert_eq!(Member::view(spec).unwrap().addresses.len(), 3);
    }

    #[test]
    fn member_ids_are_hexadecimal() {
        let spec = |id: &str| etcd::MemberSpec { member_id: id.to_owned() };
        let EtcdMemberId(id) = EtcdMemberId::view(spec("8e9e05c52164694d")).unwrap();
        assert_eq!(id.to_string(), "8e9e05c52164694d");
        assert!(EtcdMemberId::view(spec("x")).is_err());
    }
}
