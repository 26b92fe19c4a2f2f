//! The secrets of a cluster as `talosctl gen secrets` writes them.

use crate::model::{ClusterSpec, Secrets};
use crate::talosconfig::encode_bytes;

/// Writes the bundle of a cluster whose secrets are complete. The authority of the aggregator and
/// the key of service accounts are not part of a simulated cluster and are left out: nothing that
/// manages Talos needs them.
pub fn write(spec: &ClusterSpec) -> String {
    let Secrets {
        machine_ca_crt,
        machine_ca_key,
        machine_token,
        cluster_ca_crt,
        cluster_ca_key,
        etcd_ca_crt,
        etcd_ca_key,
        cluster_token,
    } = &spec.secrets;
    let id = encode_bytes(format!("{}-cluster-id-simulated-32b", spec.name).as_bytes());
    let secret = encode_bytes(cluster_token.as_bytes());
    let pair = |name: &str, crt: &str, key: &str| {
        format!("    {name}:\n        crt: {crt}\n        key: {key}\n")
    };
    format!(
        "cluster:\n    id: {id}\n    secret: {secret}\n\
         secrets:\n    bootstraptoken: {cluster_token}\n    \
         secretboxencryptionsecret: {secret}\n\
         trustdinfo:\n    token: {machine_token}\n\
         certs:\n{}{}{}",
        pair("etcd", etcd_ca_crt, etcd_ca_key),
        pair("k8s", cluster_ca_crt, cluster_ca_key),
        pair("os", machine_ca_crt, machine_ca_key),
    )
}
