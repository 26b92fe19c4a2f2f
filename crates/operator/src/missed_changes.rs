//! What happened to a cluster's object while nobody here watched.
//!
//! A failed run is tried again once its target was taken away and set again. A
//! replica that watches sees that; one that was not there yet cannot tell from
//! the object, which looks the same. But the API server can: it tells all changes
//! since a resourceVersion, as long as it remembers them (etcd forgets after five
//! minutes, the server's own memory reaches further back on a quiet hub). What it
//! has forgotten counts as not having happened: nobody retries behind a person's
//! back (rule 5).

use futures_util::{StreamExt as _, pin_mut};
use kube::api::{Api, WatchEvent, WatchParams};
use kube::{Client, ResourceExt as _};
use upgrade_api::UpgradeRun;
use vitistack_api::KubernetesCluster;

use crate::annotations::UpgradeRequest;
use crate::api_call::{CALL, describe};
use crate::run::target;

/// Whether the target of a run was gone or another one, if only for a moment,
/// since the run was written last. Versions of all objects come from one counter,
/// and nobody writes a run that has ended.
pub async fn target_was_removed(
    client: Client,
    object: &KubernetesCluster,
    run: &UpgradeRun,
) -> Result<bool, String> {
    let (Some(since), Some(now)) =
        (version(run.resource_version()), version(object.resource_version()))
    else {
        return Ok(false);
    };
    let Some((product, to)) = target(run) else { return Ok(false) };
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
        Err(_) => Err("what happened meanwhile cannot be read: no answer".to_owned()),
    }
}

/// What is not known any more did not happen; anything else is asked again.
fn forgotten(error: kube::Error) -> Result<bool, String> {
    match error {
        kube::Error::Api(status) if status.code == 410 => Ok(false),
        error => Err(format!("what happened meanwhile cannot be read: {}", describe(&error))),
    }
}

fn version(text: Option<String>) -> Option<u64> {
    text.and_then(|text| text.parse().ok())
}
