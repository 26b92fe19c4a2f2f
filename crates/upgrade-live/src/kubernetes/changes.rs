//! Telling when nodes, pods, attachments or workloads may have changed.
//!
//! The watches ask for metadata alone: that something changed is all they tell.
//! They outlive the API server that they talk to.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams, WatchParams};
use kube::core::WatchEvent;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use upgrade_engine::io::Changes;
use upgrade_engine::io::kubernetes_error::RequestError;

use super::access::Access;
use super::call::{refused, status};

/// What is watched.
fn watched() -> [ApiResource; 6] {
    [
        ApiResource::erase::<Node>(&()),
        ApiResource::erase::<Pod>(&()),
        ApiResource::erase::<VolumeAttachment>(&()),
        ApiResource::erase::<Deployment>(&()),
        ApiResource::erase::<DaemonSet>(&()),
        ApiResource::erase::<StatefulSet>(&()),
    ]
}

/// How long the API server lets a watch stand, in seconds.
const STANDS: u32 = 240;

/// The longest silence: API servers send a bookmark about every minute, and one
/// that is gone sends nothing for ever.
const SILENCE: Duration = Duration::from_secs(90);

/// The pauses while it is away.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The watches. They start with the first subscriber and end with this value.
#[derive(Default)]
pub(super) struct Watches(Mutex<Option<(Changes, JoinSet<()>)>>);

impl Watches {
    /// The number that grows.
    pub(super) fn begin(&self, access: &Access) -> Changes {
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (changes, _) = begun.get_or_insert_with(|| {
            let (sender, changes) = watch::channel(0);
            let sender = Arc::new(sender);
            let mut tasks = JoinSet::new();
            for kind in watched() {
                tasks.spawn(follow(access.clone(), kind, Arc::clone(&sender)));
            }
            (changes, tasks)
        });
        changes.clone()
    }
}

/// Follows one kind for ever.
async fn follow(access: Access, kind: ApiResource, sender: Arc<watch::Sender<u64>>) {
    let changed = || sender.send_modify(|number| *number += 1);
    let mut pause = FIRST_PAUSE;
    // The version that everything before is known to have been told of.
    let mut from: Option<String> = None;
    loop {
        let (next, trouble) = match from {
            Some(version) => watch_from(&access, &kind, version, changed, &mut pause).await,
            None => match start(&access, &kind).await {
                Ok(version) => {
                    // Whatever happened before this version is not told.
                    changed();
                    (Some(version), None)
                }
                Err(trouble) => (None, Some(trouble)),
            },
        };
        from = next;
        if let Some(trouble) = trouble {
            tracing::debug!(kind = %kind.kind, ?trouble, "a watch broke");
            changed();
            pause = (pause * 2).min(LONGEST_PAUSE);
            sleep(pause).await;
        }
    }
}

/// The newest version of a list, for the price of one object.
async fn start(access: &Access, kind: &ApiResource) -> Result<String, RequestError> {
    let one = &ListParams::default().limit(1);
    let list = |client| async move { objects(client, kind).list_metadata(one).await };
    let list = access.call(list).await?;
    Ok(list.metadata.resource_version.unwrap_or_default())
}

fn objects(client: kube::Client, kind: &ApiResource) -> Api<DynamicObject> {
    Api::all_with(client, kind)
}

/// Watches until the watch ends. Returns the version to continue from, or none if
/// it is too old, and the error that ended the watch, if there was one.
async fn watch_from(
    access: &Access,
    kind: &ApiResource,
    mut version: String,
    changed: impl Fn(),
    pause: &mut Duration,
) -> (Option<String>, Option<RequestError>) {
    let client = match access.client().await {
        Ok(client) => client,
        Err(trouble) => return (Some(version), Some(RequestError::NoAnswer(trouble))),
    };
    let objects = objects(client, kind);
    let how = WatchParams::default().timeout(STANDS);
    let opened = timeout(SILENCE, objects.watch_metadata(&how, &version)).await;
    let stream = match opened {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            let refused = refused(&error);
            if refused.is_unauthorized() {
                access.forget().await;
            }
            return after(version, refused);
        }
        // Silence: the other end is gone, or has nothing to say.
        Err(_) => return (Some(version), None),
    };
    let mut stream = Box::pin(stream);
    loop {
        match timeout(SILENCE, stream.next()).await {
            Ok(Some(Ok(event))) => {
                *pause = FIRST_PAUSE;
                match event {
                    WatchEvent::Added(seen)
                    | WatchEvent::Modified(seen)
                    | WatchEvent::Deleted(seen) => {
                        version = seen.metadata.resource_version.unwrap_or(version);
                        changed();
                    }
                    WatchEvent::Bookmark(bookmark) => version = bookmark.metadata.resource_version,
                    WatchEvent::Error(error) => return after(version, status(&error).into()),
                }
            }
            Ok(Some(Err(error))) => return after(version, refused(&error)),
            Ok(None) | Err(_) => {
                // A server that is going away ends every watch at once.
                sleep(FIRST_PAUSE).await;
                return (Some(version), None);
            }
        }
    }
}

/// Where to continue after an error: an answer means that the version is too old or
/// otherwise invalid; a broken connection says nothing about the version.
fn after(version: String, refused: RequestError) -> (Option<String>, Option<RequestError>) {
    match refused {
        RequestError::Status(status) => (None, Some(RequestError::Status(status))),
        away @ RequestError::NoAnswer(_) => (Some(version), Some(away)),
    }
}
