//! The kinds of resources that a simulated node has: those of the protocol
//! crate, which our client knows too, and a few that only talosctl asks for.

use prost::Message;
use talos_proto::{Kind, kind};

/// Read by `talosctl health`: is there a kubelet at all?
pub(super) const KUBELET_CONFIG: Kind = Kind {
    resource_type: "KubeletConfigs.kubernetes.talos.dev",
    display_type: "KubeletConfig",
    namespace: "k8s",
    id: Some("kubelet"),
    aliases: &["kubeletconfig", "kc", "kcs"],
    columns: &[],
    sensitive: true,
    since_minor: 0,
};

/// Read by `talosctl health`: which network does the cluster have?
pub(super) const BOOTSTRAP_MANIFESTS_CONFIG: Kind = Kind {
    resource_type: "BootstrapManifestsConfigs.kubernetes.talos.dev",
    display_type: "BootstrapManifestsConfig",
    namespace: "controlplane",
    id: Some("manifests"),
    aliases: &["bootstrapmanifestsconfig", "bmc", "bmcs"],
    columns: &[],
    sensitive: false,
    since_minor: 0,
};

const MORE: &[Kind] = &[KUBELET_CONFIG, BOOTSTRAP_MANIFESTS_CONFIG];

/// Every kind; its place in this order is how a store keeps it.
pub(super) fn all() -> impl Iterator<Item = &'static Kind> {
    kind::ALL.iter().chain(MORE)
}

/// The kind at a place.
pub(super) fn at(place: usize) -> &'static Kind {
    kind::ALL.get(place).unwrap_or_else(|| &MORE[place - kind::ALL.len()])
}

/// Payload of [`KUBELET_CONFIG`], as much of it as the simulator fills.
#[derive(Clone, PartialEq, Message)]
pub(super) struct KubeletConfigSpec {
    #[prost(string, tag = "1")]
    pub(super) image: String,
    #[prost(string, repeated, tag = "2")]
    pub(super) cluster_dns: Vec<String>,
    #[prost(string, tag = "3")]
    pub(super) cluster_domain: String,
    #[prost(bool, tag = "8")]
    pub(super) default_runtime_seccomp_enabled: bool,
    #[prost(bool, tag = "11")]
    pub(super) disable_manifests_directory: bool,
}

/// Payload of [`BOOTSTRAP_MANIFESTS_CONFIG`], as much of it as the simulator
/// fills.
#[derive(Clone, PartialEq, Message)]
pub(super) struct BootstrapManifestsConfigSpec {
    #[prost(string, tag = "2")]
    pub(super) cluster_domain: String,
    #[prost(string, repeated, tag = "3")]
    pub(super) pod_subnets: Vec<String>,
    #[prost(bool, tag = "4")]
    pub(super) proxy_enabled: bool,
    #[prost(string, tag = "5")]
    pub(super) proxy_image: String,
    #[prost(bool, tag = "7")]
    pub(super) core_dns_enabled: bool,
    #[prost(string, tag = "9")]
    pub(super) dns_service_ip: String,
    #[prost(bool, tag = "11")]
    pub(super) flannel_enabled: bool,
    #[prost(string, tag = "21")]
    pub(super) cni_name: String,
}
