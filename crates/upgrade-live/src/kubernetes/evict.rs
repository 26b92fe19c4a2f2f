//! Asking for a pod to go, by the eviction API only (rule 6).

use serde_json::{Value, json};
use upgrade_core::workload::PodName;
use upgrade_engine::io::Trouble;
use upgrade_engine::io::kubernetes::Evicted;

use super::access::Access;
use super::send::{Call, segment};

/// Asks for this very pod: another that came to have its name is left alone.
pub(super) async fn evict(access: &Access, pod: &PodName, uid: &str) -> Result<Evicted, Trouble> {
    let PodName { namespace, name } = pod;
    let (in_namespace, of_pod) = (segment(namespace), segment(name));
    let call = Call::post(
        format!("/api/v1/namespaces/{in_namespace}/pods/{of_pod}/eviction"),
        &json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }),
    );
    match access.send::<Value>(&call).await {
        Ok(_) => Ok(Evicted::Accepted),
        Err(refused) => refused.evicted(pod),
    }
}
