//! Asking for a pod to go, by the eviction API only (rule 6).

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde::de::IgnoredAny;
use serde_json::json;
use upgrade_core::workload::PodName;
use upgrade_engine::io::IoError;
use upgrade_engine::io::kubernetes::Evicted;

use super::access::Access;

/// Asks for this very pod: another that came to have its name is left alone.
pub(super) async fn evict(access: &Access, pod: &PodName, uid: &str) -> Result<Evicted, IoError> {
    let PodName { namespace, name } = pod;
    // `Api::evict` of kube 5.0.0 writes `delete_options`, which API servers ignore: the
    // precondition would be lost.
    let eviction = &json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": namespace, "name": name},
        "deleteOptions": {"preconditions": {"uid": uid}},
    });
    let how = &PostParams::default();
    let evict = |client| async move {
        let pods = Api::<Pod>::namespaced(client, namespace);
        pods.create_subresource::<_, IgnoredAny>("eviction", name, how, eviction).await
    };
    match access.call(evict).await {
        Ok(_) => Ok(Evicted::Accepted),
        Err(refused) => refused.evicted(pod),
    }
}
