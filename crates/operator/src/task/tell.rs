//! Writes into the cluster's object what is to be told, and tells those who
//! listen.

use std::sync::Arc;

use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use vitistack_api::KubernetesCluster;
use vitistack_api::status::Status;

use super::Task;
use super::shared::trimmed;
use crate::decide::Write;
use crate::hub::answer;
use crate::news::Item;
use crate::{clock, names, write};

impl Task {
    /// Writes what is to be told; false if somebody else was faster. The status
    /// goes first: whoever waits for an annotation finds the phase in place.
    pub(super) async fn tell(
        &mut self,
        object: &Arc<KubernetesCluster>,
        write: &Write,
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
        if let Some(patch) = write::status(&now, write, &clock::stamp()) {
            match patched(api.patch_status(&name, &params, &Patch::Merge(&patch))).await? {
                Some(written) => now = Arc::new(trimmed(written)),
                None => return Ok(false),
            }
            self.own = Some(Arc::clone(&now));
        }
        if let Some(patch) = write::annotations(&now, write) {
            let before = Arc::clone(&now);
            match patched(api.patch(&name, &params, &Patch::Merge(&patch))).await? {
                Some(written) => now = Arc::new(trimmed(written)),
                None => return Ok(false),
            }
            self.announce(&before, write);
            self.own = Some(now);
        }
        Ok(true)
    }

    /// Tells those who listen what changed.
    fn announce(&self, before: &KubernetesCluster, write: &Write) {
        for product in names::PRODUCTS {
            let said = before.annotation(names::status(product)).and_then(Status::parse);
            let words = write.of(product);
            if said != Some(words.status) {
                self.shared.metrics.transition(product, said, words.status);
            }
            if let Some(status) = write::transition(before, write, product) {
                let item = Item::status(product, status, &words.message);
                self.shared.news.tell(before, item);
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
    let sent = answer(sent).await;
    sent.map_err(|why| format!("the cluster's object cannot be written: {why}"))
}
