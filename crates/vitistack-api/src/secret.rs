//! The Secret of a cluster: `<prefix><clusterId>` beside the
//! `KubernetesCluster`. The operator reads three keys and writes none.

/// The talosconfig.
pub const TALOSCONFIG: &str = "talosconfig";
/// The kubeconfig.
pub const KUBECONFIG: &str = "kube.config";
/// The installer that the machines were made with, if the platform says.
pub const INSTALL_IMAGE: &str = "install_image";

/// The name of a cluster's Secret.
pub fn name(prefix: &str, cluster_id: &str) -> String {
    format!("{prefix}{cluster_id}")
}
