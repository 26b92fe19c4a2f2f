//! The kubelets' requests to a real API server. They block until the answer arrives: their thread
//! does nothing else.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, StatusCode};
use kube_sim::kubelet::Api;
use kube_sim::names::PODS;
use kube_sim::types::Types;
use kube_sim::{ResourceName, Status, object};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::client::{Answer, Client, Failure};
use super::{Endpoint, path};
use crate::kubernetes::drain::{Evict, GRACE};
use crate::kubernetes::manifests::{How, Install, MANAGER, kind_of};

/// An API server at the other end of a connection.
#[derive(Debug)]
pub(super) struct RemoteApi {
    runtime: Runtime,
    client: Client,
    /// It did not answer in this round: the other requests of the round fail at once.
    away: bool,
}

impl RemoteApi {
    pub(super) fn new(runtime: Runtime, place: Arc<Endpoint>) -> Self {
        Self { runtime, client: Client::new(place), away: false }
    }

    /// Blocks on a future other than a request.
    pub(super) fn wait<T>(&self, what: impl Future<Output = T>) -> T {
        self.runtime.block_on(what)
    }

    /// A new round: the API server may be back.
    pub(super) fn next_round(&mut self) {
        self.away = false;
    }

    fn send(
        &mut self,
        method: &Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<Arc<Value>, Status> {
        if self.away {
            return Err(refusal(StatusCode::SERVICE_UNAVAILABLE, "away".to_owned()));
        }
        let sending = self.client.send(method.clone(), path, content_type, body);
        match self.runtime.block_on(sending) {
            Ok(answer) if answer.code.is_success() => Ok(Arc::new(answer.value())),
            Ok(answer) => Err(said_no(method, path, &answer)),
            Err(Failure::Untrusted(why) | Failure::Away(why)) => {
                tracing::debug!(%method, path, why, "the Kubernetes API does not answer");
                self.away = true;
                Err(refusal(StatusCode::SERVICE_UNAVAILABLE, why))
            }
        }
    }
}

fn said_no(method: &Method, path: &str, answer: &Answer) -> Status {
    let message = answer.message();
    match answer.code {
        StatusCode::NOT_FOUND | StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS => {}
        code => {
            tracing::warn!(%method, path, %code, message, "the Kubernetes API refused the request");
        }
    }
    refusal(answer.code, message)
}

fn refusal(code: StatusCode, message: String) -> Status {
    Status { code: code.as_u16(), reason: "", message, details: None }
}

impl Evict for RemoteApi {
    fn evict(&mut self, namespace: &str, name: &str) -> Result<(), Status> {
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"gracePeriodSeconds": GRACE},
        });
        let path = path::item(&PODS, namespace, name, "eviction");
        let body = eviction.to_string().into();
        self.send(&Method::POST, &path, "application/json", body).map(drop)
    }
}

impl Install for RemoteApi {
    fn is_namespaced(&mut self, object: &Value) -> Result<Option<bool>, Status> {
        Ok(kind_of(&Types::default(), object).map(|kind| kind.namespaced))
    }

    fn has(&mut self, object: &Value) -> Result<Option<bool>, Status> {
        let Some(path) = collection(object) else { return Ok(None) };
        let path = format!("{path}/{}", object::name(object));
        match self.send(&Method::GET, &path, "", Bytes::new()) {
            Ok(_) => Ok(Some(true)),
            Err(status) if status.code == 404 => Ok(Some(false)),
            Err(status) => Err(status),
        }
    }

    fn install(&mut self, object: Value, how: How) -> Result<(), Status> {
        let Some(path) = collection(&object) else { return Err(Status::no_such_resource()) };
        let (method, path, content_type) = match how {
            How::Created => {
                (Method::POST, format!("{path}?fieldManager={MANAGER}"), "application/json")
            }
            How::Applied => {
                let name = object::name(&object);
                let path = format!("{path}/{name}?fieldManager={MANAGER}");
                (Method::PATCH, path, "application/apply-patch+yaml")
            }
        };
        self.send(&method, &path, content_type, object.to_string().into()).map(drop)
    }
}

/// The collection of an object whose kind is built in.
fn collection(object: &Value) -> Option<String> {
    let types = Types::default();
    let kind = kind_of(&types, object)?;
    let root = path::group_version(&kind.name.group, &kind.version);
    Some(path::collection_of(&root, &kind.name.plural, object::namespace(object)))
}

impl Api for RemoteApi {
    fn get(
        &mut self,
        resource: &ResourceName,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<Value>>, Status> {
        match self.send(&Method::GET, &path::item(resource, namespace, name, ""), "", Bytes::new())
        {
            Ok(object) => Ok(Some(object)),
            Err(status) if status.code == 404 => Ok(None),
            Err(status) => Err(status),
        }
    }

    fn list(&mut self, resource: &ResourceName) -> Result<Vec<Arc<Value>>, Status> {
        let list = self.send(&Method::GET, &path::collection(resource, ""), "", Bytes::new())?;
        Ok(object::list(&list, &["items"]).iter().cloned().map(Arc::new).collect())
    }

    fn create(&mut self, resource: &ResourceName, object: Value) -> Result<Arc<Value>, Status> {
        let path = path::collection(resource, object::namespace(&object));
        self.send(&Method::POST, &path, "application/json", object.to_string().into())
    }

    fn patch(
        &mut self,
        resource: &ResourceName,
        namespace: &str,
        name: &str,
        subresource: &str,
        patch: &Value,
    ) -> Result<Arc<Value>, Status> {
        let at = path::item(resource, namespace, name, subresource);
        let merge = "application/merge-patch+json";
        self.send(&Method::PATCH, &at, merge, patch.to_string().into())
    }

    fn delete(
        &mut self,
        resource: &ResourceName,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<(), Status> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "gracePeriodSeconds": 0, "preconditions": {"uid": uid},
        });
        let path = path::item(resource, namespace, name, "");
        self.send(&Method::DELETE, &path, "application/json", options.to_string().into()).map(drop)
    }
}
