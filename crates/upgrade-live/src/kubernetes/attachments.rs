//! Volumes that are still attached to a node.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Api;
use kube::api::ListParams;
use upgrade_core::snapshot::NodeName;
use upgrade_engine::io::IoError;

use super::access::Access;
use super::read;

/// Those that go when the node's pods go. What the pod of a
/// `DaemonSet` holds stays with it.
pub(super) async fn attachments(access: &Access, node: &NodeName) -> Result<Vec<String>, IoError> {
    let what = format!("the volumes attached to {node} could not be listed");
    let listed = access.list(Api::<VolumeAttachment>::all, ListParams::default()).await;
    let listed = listed.map_err(|refused| refused.on_read(&what))?;
    let mut attached: Vec<String> = listed
        .into_iter()
        .filter(|attachment| attachment.spec.node_name == node.0)
        .filter_map(|attachment| {
            let source = attachment.spec.source.persistent_volume_name;
            source.or(attachment.metadata.name)
        })
        .collect();
    if attached.is_empty() {
        return Ok(attached);
    }
    let staying = staying(access, node).await?;
    attached.retain(|volume| !staying.contains(volume));
    attached.sort();
    Ok(attached)
}

/// The volumes of pods that are not drained.
async fn staying(access: &Access, node: &NodeName) -> Result<BTreeSet<String>, IoError> {
    let mut volumes = BTreeSet::new();
    let pods = read::pods(access, Some(node)).await?;
    for pod in pods.iter().filter(|pod| pod.is_daemon() && !pod.is_finished()) {
        for claim in &pod.claims {
            let namespace = &pod.name.namespace;
            let get = |client| async move {
                Api::<PersistentVolumeClaim>::namespaced(client, namespace).get(claim).await
            };
            match access.call(get).await {
                Ok(claim) => volumes.extend(claim.spec.and_then(|spec| spec.volume_name)),
                Err(refused) if refused.is_not_found() => {}
                Err(refused) => {
                    let what = format!("the volume claims of {} could not be read", pod.name);
                    return Err(refused.on_read(&what));
                }
            }
        }
    }
    Ok(volumes)
}
