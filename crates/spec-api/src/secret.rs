//! Where the secrets of a control plane are: the keys of its Secrets, and the fields of its
//! status in which another operator stored them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use crate::TalosControlPlane;
use crate::hidden::Hidden;
use crate::view::view_of;

/// In the state Secret: the secrets of the cluster, as `talosctl gen secrets` writes them.
pub const SECRET_BUNDLE: &str = "secretBundle";
/// In the state Secret: what configurations were generated from, as JSON. Never changed.
pub const BUNDLE_CONFIG: &str = "bundleConfig";
/// In the state Secret: `status.state`.
pub const STATE: &str = "state";
/// In the state Secret: the machine configuration of a control plane. Never changed.
pub const CONFIG: &str = "config";
/// In the state Secret: `status.observedKubeVersion`.
pub const OBSERVED_KUBE_VERSION: &str = "observedKubeVersion";

/// In the kubeconfig Secret: the kubeconfig of an administrator.
pub const KUBECONFIG: &str = "kubeconfig";

/// In the talosconfig Secret: the key with the talosconfig. Its context has no endpoints if
/// another operator wrote it; the machines of the spec are the endpoints then.
pub fn talosconfig_key(control_plane: &str) -> String {
    format!("{control_plane}.talosconfig")
}

/// A `TalosControlPlane` with the fields of its status that hold secrets. Read by name when
/// credentials are needed and no Secret has them, or to make a missing state Secret; never
/// watched, and never written back.
#[derive(Clone, Debug, Deserialize)]
pub struct ControlPlaneSecrets {
    /// Its name and UID.
    pub metadata: ObjectMeta,
    /// What is stored in its status.
    #[serde(default)]
    pub status: StoredSecrets,
}

view_of!(ControlPlaneSecrets, TalosControlPlane);

/// What another operator stored in the status of a control plane; empty where it did not.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StoredSecrets {
    /// For [`SECRET_BUNDLE`].
    pub secret_bundle: Hidden<String>,
    /// For [`BUNDLE_CONFIG`].
    pub bundle_config: Hidden<String>,
    /// For [`CONFIG`].
    pub config: Hidden<String>,
}

#[cfg(test)]
mod tests {
    use kube::Resource as _;
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_read_and_not_shown() {
        let read: ControlPlaneSecrets = serde_json::from_value(json!({
            "apiVersion": "talos.alperen.cloud/v1alpha1", "kind": "TalosControlPlane",
            "metadata": {"name": "a"},
            "status": {"secretBundle": "cluster:\n  secret: hunter2\n", "state": "Ready"},
        }))
        .expect("readable");
        assert!(read.status.secret_bundle.expose().contains("hunter2"));
        assert!(read.status.config.expose().is_empty());
        let shown = format!("{read:?} {read:#?}");
        assert!(
            shown.contains("secret_bundle: [redacted]") && !shown.contains("hunter2"),
            "{shown}"
        );
        assert_eq!(ControlPlaneSecrets::plural(&()), TalosControlPlane::plural(&()));
        assert_eq!(ControlPlaneSecrets::api_version(&()), TalosControlPlane::api_version(&()));
    }
}
