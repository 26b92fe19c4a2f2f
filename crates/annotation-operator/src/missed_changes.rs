//! Changes of a cluster's object before this process watched it.
//!
//! A failed run is retried once its target was removed and set again. A replica that watches
//! sees that; one that started later cannot tell from the object, which looks the same. The
//! API server can: it replays all changes since a resourceVersion, as long as it remembers
//! them (etcd compacts after five minutes, the server's watch cache reaches further back on
//! a quiet hub). What it has forgotten counts as not having happened: no run is retried
//! without the user's word (rule 5).

use futures_util::{StreamExt as _, pin_mut};
use kube::api::{Api, WatchEvent, WatchParams};
use kube::{Client, ResourceExt as _};
use upgrade_api::UpgradeRun;
use upgrade_controller::api_call::{CALL, CallError};
use upgrade_controller::front_end::RunView as AnyRun;
use vitistack_api::KubernetesCluster;

use crate::annotations::UpgradeRequest;
use crate::decide::RunView;

/// Whether the target of a run was removed or changed, if only for a moment, since the run
/// was written last. Versions of all objects come from one counter, and a run that has ended
/// is not written again.
pub async fn target_was_removed(
    client: Client,
    object: &KubernetesCluster,
    run: &UpgradeRun,
) -> Result<bool, CallError> {
    let (Some(since), Some(now)) =
        (version(run.resource_version()), version(object.resource_version()))
    else {
        return Ok(false);
    };
    let Some(RunView { product, to, .. }) = RunView::of(&AnyRun::of(run)) else {
        return Ok(false);
    };
    if now <= since {
        return Ok(false);
    }
    let namespace = object.namespace().unwrap_or_default();
    let api: Api<KubernetesCluster> = Api::namespaced(client, &namespace);
    let only = format!("metadata.name={}", object.name_any());
    let limit = u32::try_from(CALL.as_secs()).unwrap_or(u32::MAX);
    let params = WatchParams::default().fields(&only).timeout(limit).disable_bookmarks();
    let replayed = async {
        let changes = match api.watch(&params, &since.to_string()).await {
            Ok(changes) => changes,
            Err(error) => return forgotten(error),
        };
        pin_mut!(changes);
        while let Some(change) = changes.next().await {
            let object = match change {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => object,
                Ok(WatchEvent::Error(status)) => return forgotten(kube::Error::Api(status)),
                Ok(WatchEvent::Deleted(_) | WatchEvent::Bookmark(_)) => continue,
                Err(error) => return forgotten(error),
            };
            if !UpgradeRequest::from_annotations(object.annotations()).targets(product, &to) {
                return Ok(true);
            }
            if version(object.resource_version()).is_none_or(|seen| seen >= now) {
                break;
            }
        }
        Ok(false)
    };
    match tokio::time::timeout(CALL * 2, replayed).await {
        Ok(answer) => answer,
        Err(_) => Err(CallError::TimedOut),
    }
}

/// What the server has forgotten did not happen; any other error is retried.
fn forgotten(error: kube::Error) -> Result<bool, CallError> {
    match error {
        kube::Error::Api(status) if status.code == 410 => Ok(false),
        error => Err(error.into()),
    }
}

fn version(text: Option<String>) -> Option<u64> {
    text.and_then(|text| text.parse().ok())
}
