//! Settings that the kubelet and the manifests are rendered from.

use talos_proto::resource::k8s;
use talos_proto::{Kind, kind};

use super::super::World;
use super::super::api::NodeIndex;
use super::super::kubernetes::Component;
use super::super::resource_value::{ResourceValue, list, map};
use super::kinds::{self, KubeletConfigSpec};
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
            kind::BOOTSTRAP_MANIFESTS_CONFIG if here.is_control_plane() => {
                let flannel = here.config.has_flannel();
                let (proxy, dns) = (here.config.has_proxy(), here.config.has_dns());
                let cni = if flannel { "flannel" } else { "none" };
                let message = k8s::BootstrapManifestsConfigSpec {
                    cluster_domain: DOMAIN.to_owned(),
                    pod_cid_rs: vec![POD_SUBNET.to_owned()],
                    proxy_enabled: proxy,
                    proxy_image: components.proxy.clone(),
                    core_dns_enabled: dns,
                    dns_service_ip: DNS_ADDRESS.to_owned(),
                    flannel_enabled: flannel,
                    talos_api_service_enabled: false,
                    cni_name: cni.to_owned(),
                };
                let yaml = map([
                    ("clusterDomain", DOMAIN.into()),
                    ("podCIDRs", list([POD_SUBNET])),
                    ("proxyEnabled", proxy.into()),
                    ("proxyImage", components.proxy.clone().into()),
                    ("coreDNSEnabled", dns.into()),
                    ("dnsServiceIP", DNS_ADDRESS.into()),
                    ("flannelEnabled", flannel.into()),
                    ("talosAPIServiceEnabled", false.into()),
                    ("cniName", cni.into()),
                ]);
                let view = View::new("manifests", &message, &yaml);
                vec![view.version(here.config.version_of(Component::Proxy))]
            }
            kind::EXTRA_MANIFESTS_CONFIG if here.is_control_plane() => {
                let extras = here.config.extra_manifests();
                let items = extras.iter().map(|extra| k8s::ExtraManifest {
                    name: extra.name.clone(),
                    url: extra.url.clone().unwrap_or_default(),
                    priority: extra.priority.clone(),
                    inline_manifest: extra.text.clone(),
                });
                let message = k8s::ExtraManifestsConfigSpec { extra_manifests: items.collect() };
                let items = extras.iter().map(|extra| {
                    map([
                        ("name", extra.name.clone().into()),
                        ("url", extra.url.clone().unwrap_or_default().into()),
                        ("priority", extra.priority.clone().into()),
                        ("extraHeaders", ResourceValue::Map(Vec::new())),
                        ("inlineManifest", extra.text.clone().into()),
                    ])
                });
                let yaml = map([("extraManifests", ResourceValue::List(items.collect()))]);
                vec![View::new("extra-manifests", &message, &yaml)]
            }
            kind::BOOTSTRAP_MANIFESTS_CONFIG | kind::EXTRA_MANIFESTS_CONFIG => Vec::new(),
            _ => return None,
        };
        Some(views)
    }
}
