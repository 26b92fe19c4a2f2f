//! The kinds of resources that a simulated node has: those of the protocol crate, which our client
//! uses too, and a few that only talosctl reads.

use prost::Message;
use talos_proto::{Kind, kind};

/// `talosctl health` reads it to find out whether the node has a kubelet.
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

const MORE: &[Kind] = &[KUBELET_CONFIG];

/// Every kind; the index in this order is the key in a store.
pub(super) fn all() -> impl Iterator<Item = &'static Kind> {
    kind::ALL.iter().chain(MORE)
}

/// The kind at an index.
pub(super) fn at(place: usize) -> &'static Kind {
    kind::ALL.get(place).unwrap_or_else(|| &MORE[place - kind::ALL.len()])
}

/// The controller that owns a resource of this kind, named as on real nodes; empty for resources
/// without a controller.
pub(super) fn owner(kind: &Kind, id: &str) -> &'static str {
    let is_final = id.starts_with("final-");
    match *kind {
        kind::MACHINE_STATUS => "runtime.MachineStatusController",
        kind::EXTENSION_STATUS => "runtime.ExtensionStatusController",
        kind::IMAGE_FACTORY_SCHEMATIC => "runtime.ImageFactorySchematicController",
        kind::BOOT_ID => "runtime.BootIDController",
        kind::VERSION => "runtime.VersionController",
        kind::DIAGNOSTIC => "runtime.DiagnosticsController",
        kind::SECURITY_STATE => "runtime.SecurityStateController",
        kind::BOOTED_ENTRY => "runtime.BootedEntryController",
        kind::SERVICE => "v1alpha1.ServiceController",
        kind::MACHINE_TYPE => "config.MachineTypeController",
        kind::MEMBER => "cluster.MemberController",
        kind::CLUSTER_INFO => "cluster.InfoController",
        kind::ETCD_MEMBER => "etcd.MemberController",
        kind::HOSTNAME_STATUS => "network.HostnameSpecController",
        kind::NODE_ADDRESS => "network.NodeAddressController",
        kind::LINK_STATUS => "network.LinkStatusController",
        kind::VOLUME_STATUS => "block.VolumeManagerController",
        kind::NODENAME => "k8s.NodenameController",
        kind::NODE_STATUS => "k8s.NodeStatusController",
        kind::KUBELET_SPEC => "k8s.KubeletSpecController",
        kind::STATIC_POD => "k8s.ControlPlaneStaticPodController",
        kind::STATIC_POD_STATUS => "k8s.KubeletStaticPodController",
        kind::API_SERVER_CONFIG if is_final => "k8s.ControlPlaneAPIServerFinalController",
        kind::API_SERVER_CONFIG => "k8s.ControlPlaneAPIServerController",
        kind::CONTROLLER_MANAGER_CONFIG if is_final => {
            "k8s.ControlPlaneControllerManagerFinalController"
        }
        kind::CONTROLLER_MANAGER_CONFIG => "k8s.ControlPlaneControllerManagerController",
        kind::SCHEDULER_CONFIG if is_final => "k8s.ControlPlaneSchedulerFinalController",
        kind::SCHEDULER_CONFIG => "k8s.ControlPlaneSchedulerController",
        kind::MANIFEST => "k8s.ManifestController",
        kind::KUBERNETES_ACCESS_CONFIG => "kubeaccess.ConfigController",
        KUBELET_CONFIG => "k8s.KubeletConfigController",
        kind::BOOTSTRAP_MANIFESTS_CONFIG => "k8s.ControlPlaneBootstrapManifestsController",
        kind::EXTRA_MANIFESTS_CONFIG => "k8s.ControlPlaneExtraManifestsController",
        _ => "",
    }
}

/// Payload of [`KUBELET_CONFIG`], with the fields that the simulator fills.
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
