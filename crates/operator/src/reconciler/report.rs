//! Writes into the cluster's object what is to be told, and tells those who
//! listen.

use std::sync::Arc;

use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use vitistack_api::KubernetesCluster;
use vitistack_api::status::Status;

use super::Reconciler;
use super::context::trimmed;
use crate::api_call::with_timeout;
use crate::decide::StatusUpdate;
use crate::events::ClusterEvent;
use crate::{clock, keys, status};

impl Reconciler {
    /// Writes what is to be told; false if somebody else was faster. The status
    /// goes first: whoever waits for an annotation finds the phase in place.
    pub(super) async fn write_status(
        &mut self,
        object: &Arc<KubernetesCluster>,
        write: &StatusUpdate,
    ) -> Result<bool, String> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<KubernetesCluster> = Api::namespaced(self.shared.client.clone(), &namespace);
        let name = object.name_any();
        let params = PatchParams {
            field_manager: Some("talos-operator".to_owned()),
            ..PatchParams::default()
        };
        let mut now = Arc::clone(object);
        let shared = Arc::clone(&self.shared);
        let _turn = shared.writes.turn().await;
        if let Some(patch) = status::status_patch(&now, write, &clock::stamp()) {
            match patched(api.patch_status(&name, &params, &Patch::Merge(&patch))).await? {
                Some(written) => now = Arc::new(trimmed(written)),
                None => return Ok(false),
            }
            self.own = Some(Arc::clone(&now));
        }
        if let Some(patch) = status::annotation_patch(&now, write) {
            let before = Arc::clone(&now);
            match patched(api.patch(&name, &params, &Patch::Merge(&patch))).await? {
                Some(written) => now = Arc::new(trimmed(written)),
                None => return Ok(false),
            }
            self.publish_events(&before, write);
            self.own = Some(now);
        }
        Ok(true)
    }

    /// Tells those who listen what changed.
    fn publish_events(&self, before: &KubernetesCluster, write: &StatusUpdate) {
        for product in keys::PRODUCTS {
            let said = before.annotation(keys::status(product)).and_then(Status::parse);
            let words = write.of(product);
            if said != Some(words.status) {
                self.shared.metrics.transition(product, said, words.status);
            }
            if let Some(status) = status::transition(before, write, product) {
                let item = ClusterEvent::status(product, status, &words.message);
                self.shared.events.publish(before, item);
            }
        }
    }
}

/// What a patch led to; `None` if somebody else was faster.
async fn patched(
    sent: impl Future<Output = Result<KubernetesCluster, kube::Error>>,
) -> Result<Option<KubernetesCluster>, String> {
    let sent = async {
        match sent.await {
            Ok(written) => Ok(Some(written)),
            Err(kube::Error::Api(no)) if matches!(no.code, 404 | 409) => Ok(None),
            Err(error) => Err(error),
        }
    };
    let sent = with_timeout(sent).await;
    sent.map_err(|why| format!("the cluster's object cannot be written: {why}"))
}
