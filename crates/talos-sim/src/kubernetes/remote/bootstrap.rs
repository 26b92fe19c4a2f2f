//! Objects that the API server needs from the start: the simulator's storage, and the user's
//! workloads. Existing objects stay unchanged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use kube_sim::object;
use serde_json::{Value, json};

use super::client::{Answer, Client, Failure};
use super::{DRIVER, Endpoint, RemoteError, path};

/// How often to look for a kind that an earlier definition may bring: an API server takes about a
/// second to serve it.
const DEFINITION_TRIES: u32 = 100;
const DEFINITION_PAUSE: Duration = Duration::from_millis(200);

/// Why an object could not be created.
#[derive(Debug)]
pub(crate) enum BootstrapError {
    /// Because of the API server.
    Remote(RemoteError),
    /// Because of the object.
    Object(String),
}

/// The class of the volumes that are made here, for claims that name none.
pub(crate) fn storage() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {
            "name": DRIVER,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": DRIVER,
        "volumeBindingMode": "Immediate",
    })
}

/// Creates objects, in their order.
pub(crate) async fn create_objects(
    place: &Arc<Endpoint>,
    objects: Vec<Value>,
) -> Result<(), BootstrapError> {
    let mut client = Client::new(Arc::clone(place));
    let mut known = BTreeMap::new();
    let mut defined = false;
    for mut object in objects {
        let (kind, name) = (object["kind"].clone(), object::name(&object).to_owned());
        let wrong = |why: &str| {
            let kind = kind.as_str().unwrap_or_default();
            BootstrapError::Object(format!("{kind} {name:?}: {why}"))
        };
        let api_version = object::text(&object, &["apiVersion"]).to_owned();
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let root = path::group_version(group, version);
        let mut tries = if defined { DEFINITION_TRIES } else { 1 };
        let (plural, namespaced) = loop {
            if !known.contains_key(&root) {
                let answer = client.get(&root).await.map_err(|failure| away(place, failure))?;
                known.insert(root.clone(), answer.value());
            }
            if let Some(found) = find(&known[&root], &kind) {
                break found;
            }
            known.remove(&root);
            tries -= 1;
            if tries == 0 {
                let why = format!("the API server does not know this kind of {api_version}");
                return Err(wrong(&why));
            }
            tokio::time::sleep(DEFINITION_PAUSE).await;
        };
        defined |= kind == "CustomResourceDefinition";
        if namespaced && object::namespace(&object).is_empty() {
            object::set(&mut object, &["metadata", "namespace"], "default");
        }
        let namespace = if namespaced { object::namespace(&object) } else { "" };
        let path = path::collection_of(&root, &plural, namespace);
        // Read first, as Talos does: a service whose address is taken by itself is refused before
        // the API server compares its name.
        let there = format!("{path}/{name}");
        let found = client.get(&there).await.map_err(|failure| away(place, failure))?;
        if !name.is_empty() && found.code.is_success() {
            continue;
        }
        let answer = client.post(&path, &object).await.map_err(|failure| away(place, failure))?;
        match answer.code {
            code if code.is_success() => {}
            StatusCode::CONFLICT if answer.value()["reason"] == "AlreadyExists" => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                return Err(BootstrapError::Remote(unexpected(place, &answer)));
            }
            code if code.is_server_error() => {
                return Err(BootstrapError::Remote(unexpected(place, &answer)));
            }
            _ => return Err(wrong(&answer.message())),
        }
    }
    Ok(())
}

fn unexpected(place: &Endpoint, answer: &Answer) -> RemoteError {
    let url = place.api().url.clone();
    RemoteError::Unexpected { url, code: answer.code.as_u16(), said: answer.message() }
}

fn away(place: &Endpoint, failure: Failure) -> BootstrapError {
    let url = place.api().url.clone();
    BootstrapError::Remote(match failure {
        Failure::Away(why) => RemoteError::Unreachable { url, why },
        Failure::Untrusted(why) => RemoteError::Untrusted { url, why },
    })
}

/// The plural of a kind in a list of resources, and whether it is namespaced.
fn find(list: &Value, kind: &Value) -> Option<(String, bool)> {
    let found = object::list(list, &["resources"]).iter().find(|resource| {
        resource["kind"] == *kind && !object::text(resource, &["name"]).contains('/')
    })?;
    Some((object::text(found, &["name"]).to_owned(), object::flag(found, &["namespaced"])))
}
