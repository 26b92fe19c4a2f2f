//! Changes at the API server as they happen: a list, then a watch, and another list whenever the
//! watch has missed something.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt as _;
use kube_sim::{ResourceName, object};
use serde_json::Value;
use tokio::sync::mpsc;

use super::client::{Client, Failure};
use super::{Endpoint, path};

/// The pause while the API server is away.
const PAUSE: Duration = Duration::from_secs(1);
/// The server ends a watch after this many seconds; one that lasts longer has a dead connection.
const LASTS: u64 = 240;
/// Objects per page of a list.
const PAGE: usize = 500;

/// A change of an object.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) resource: ResourceName,
    pub(super) object: Arc<Value>,
    /// Whether the object was deleted.
    pub(super) gone: bool,
}

/// Watches one resource.
#[derive(Debug)]
pub(super) struct Watcher {
    place: Arc<Endpoint>,
    resource: ResourceName,
    selector: &'static str,
    known: BTreeMap<(String, String), Arc<Value>>,
    changes: mpsc::UnboundedSender<Change>,
}

/// The receiver is gone.
struct Over;

/// Why a watch ended.
enum End {
    /// It can continue from the last version.
    Pause,
    /// The server no longer has the version to continue from.
    Forgotten,
}

impl Watcher {
    /// `selector` is a field selector, already encoded for a query; empty for all objects.
    pub(super) fn new(
        place: Arc<Endpoint>,
        resource: ResourceName,
        selector: &'static str,
        changes: mpsc::UnboundedSender<Change>,
    ) -> Self {
        Self { place, resource, selector, known: BTreeMap::new(), changes }
    }

    /// Watches until the receiver is gone.
    pub(super) async fn run(mut self) {
        while self.once().await.is_ok() {
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn once(&mut self) -> Result<(), Over> {
        let mut version = match self.list().await {
            Ok(Ok(version)) => version,
            Ok(Err(failure)) => {
                tracing::debug!(?failure, resource = %self.resource, "cannot be listed");
                return Ok(());
            }
            Err(over) => return Err(over),
        };
        loop {
            match self.watch(&mut version).await? {
                End::Pause => tokio::time::sleep(PAUSE).await,
                End::Forgotten => return Ok(()),
            }
        }
    }

    /// Lists everything; objects that are missing from the list were deleted.
    async fn list(&mut self) -> Result<Result<String, Failure>, Over> {
        let mut client = Client::new(Arc::clone(&self.place));
        let mut found = BTreeMap::new();
        let mut from = String::new();
        let version = loop {
            let collection = path::collection(&self.resource, "");
            let selector = self.selector;
            let path = format!("{collection}?limit={PAGE}&fieldSelector={selector}{from}");
            let answer = match client.get(&path).await {
                Ok(answer) if answer.code == StatusCode::OK => answer,
                Ok(answer) => return Ok(Err(Failure::Away(answer.message()))),
                Err(failure) => return Ok(Err(failure)),
            };
            let mut list = answer.value();
            if let Some(items) = list.get_mut("items").and_then(Value::as_array_mut) {
                found.extend(items.drain(..).map(|item| (key(&item), Arc::new(item))));
            }
            match object::text(&list, &["metadata", "continue"]) {
                "" => break object::text(&list, &["metadata", "resourceVersion"]).to_owned(),
                next => from = format!("&continue={next}"),
            }
        };
        let known = std::mem::replace(&mut self.known, found.clone());
        for (_, object) in known.into_iter().filter(|(key, _)| !found.contains_key(key)) {
            self.tell(object, true)?;
        }
        for object in found.into_values() {
            self.tell(object, false)?;
        }
        Ok(Ok(version))
    }

    async fn watch(&mut self, version: &mut String) -> Result<End, Over> {
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={LASTS}&fieldSelector={}\
             &resourceVersion={version}",
            path::collection(&self.resource, ""),
            self.selector,
        );
        let Ok(response) = Client::new(Arc::clone(&self.place)).open(&path).await else {
            return Ok(End::Pause);
        };
        match response.status() {
            StatusCode::OK => {}
            StatusCode::GONE => return Ok(End::Forgotten),
            _ => return Ok(End::Pause),
        }
        let mut body = response.into_body();
        let mut text = BytesMut::new();
        let dead = Duration::from_secs(LASTS + 10);
        loop {
            let frame = tokio::select! {
                frame = tokio::time::timeout(dead, body.frame()) => frame,
                () = self.changes.closed() => return Err(Over),
            };
            let Ok(Some(Ok(frame))) = frame else { return Ok(End::Pause) };
            let Some(data) = frame.data_ref() else { continue };
            text.extend_from_slice(data);
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line = text.split_to(end);
                text.advance(1);
                let Ok(event) = serde_json::from_slice::<Value>(&line) else {
                    return Ok(End::Forgotten);
                };
                if let Some(end) = self.event(event, version)? {
                    return Ok(end);
                }
            }
        }
    }

    fn event(&mut self, mut event: Value, version: &mut String) -> Result<Option<End>, Over> {
        let object = event.get_mut("object").map(Value::take).unwrap_or_default();
        let kind = object::text(&event, &["type"]);
        if kind == "ERROR" {
            return Ok(Some(End::Forgotten));
        }
        object::text(&object, &["metadata", "resourceVersion"]).clone_into(version);
        if kind == "BOOKMARK" {
            return Ok(None);
        }
        let gone = kind == "DELETED";
        let (key, object) = (key(&object), Arc::new(object));
        if gone {
            self.known.remove(&key);
        } else {
            self.known.insert(key, Arc::clone(&object));
        }
        self.tell(object, gone)?;
        Ok(None)
    }

    fn tell(&self, object: Arc<Value>, gone: bool) -> Result<(), Over> {
        let change = Change { resource: self.resource.clone(), object, gone };
        self.changes.send(change).map_err(|_| Over)
    }
}

fn key(object: &Value) -> (String, String) {
    (object::namespace(object).to_owned(), object::name(object).to_owned())
}
