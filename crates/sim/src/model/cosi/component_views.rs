//! Resources that only talosctl's health check reads.

use talos_proto::Kind;

use super::super::World;
use super::super::api::NodeIndex;
use super::super::kubernetes::Component;
use super::super::tree::{list, map};
use super::kinds::{self, BootstrapManifestsConfigSpec, KubeletConfigSpec};
use super::{POD_SUBNET, View};

const DNS_ADDRESS: &str = "10.96.0.10";
const DOMAIN: &str = "cluster.local";

impl World {
    pub(super) fn component_views(&self, node: NodeIndex, kind: &Kind) -> Option<Vec<View>> {
        let here = &self.nodes[node.0];
        let components = &here.config.components;
        let views = match *kind {
            kinds::KUBELET_CONFIG => {
                let message = KubeletConfigSpec {
                    image: components.kubelet.clone(),
                    cluster_dns: vec![DNS_ADDRESS.to_owned()],
                    cluster_domain: DOMAIN.to_owned(),
                    default_runtime_seccomp_enabled: true,
                    disable_manifests_directory: true,
                };
                let yaml = map([
                    ("image", components.kubelet.clone().into()),
                    ("clusterDNS", list([DNS_ADDRESS])),
                    ("clusterDomain", DOMAIN.into()),
                    ("cloudProviderExternal", false.into()),
                    ("defaultRuntimeSeccompEnabled", true.into()),
                    ("skipNodeRegistration", false.into()),
                    ("staticPodListURL", "".into()),
                    ("disableManifestsDirectory", true.into()),
                    ("enableFSQuotaMonitoring", false.into()),
                ]);
                let view = View::new("kubelet", &message, &yaml);
                vec![view.version(here.config.version_of(Component::Kubelet))]
            }
            kinds::BOOTSTRAP_MANIFESTS_CONFIG if here.is_control_plane() => {
                let flannel = here.config.has_flannel();
                let cni = if flannel { "flannel" } else { "none" };
                let message = BootstrapManifestsConfigSpec {
                    cluster_domain: DOMAIN.to_owned(),
                    pod_subnets: vec![POD_SUBNET.to_owned()],
                    proxy_enabled: true,
                    proxy_image: components.proxy.clone(),
                    core_dns_enabled: true,
                    dns_service_ip: DNS_ADDRESS.to_owned(),
                    flannel_enabled: flannel,
                    cni_name: cni.to_owned(),
                };
                let yaml = map([
                    ("clusterDomain", DOMAIN.into()),
                    ("podCIDRs", list([POD_SUBNET])),
                    ("proxyEnabled", true.into()),
                    ("proxyImage", components.proxy.clone().into()),
                    ("coreDNSEnabled", true.into()),
                    ("dnsServiceIP", DNS_ADDRESS.into()),
                    ("flannelEnabled", flannel.into()),
                    ("cniName", cni.into()),
                ]);
                let view = View::new("manifests", &message, &yaml);
                vec![view.version(here.config.version_of(Component::Proxy))]
            }
            kinds::BOOTSTRAP_MANIFESTS_CONFIG => Vec::new(),
            _ => return None,
        };
        Some(views)
    }
}
