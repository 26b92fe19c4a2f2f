//! Waiting for changes on a hub with a watch: no state is missed, and nothing is polled.

use std::collections::BTreeMap;
use std::pin::pin;

use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _};
use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::{Value, json};

use crate::PATIENCE;
use crate::kinds::{Selection, is_cluster_wide};

/// The objects of a selection, of any kind.
pub(crate) fn api(client: Client, namespace: &str, selection: &Selection) -> Api<DynamicObject> {
    let resource = &selection.resource;
    if is_cluster_wide(resource) {
        Api::all_with(client, resource)
    } else {
        Api::namespaced_with(client, namespace, resource)
    }
}

/// Waits until a condition holds, of the named object or of the list `{"items": [...]}`, ordered by
/// name. Calls `holds` with every state.
pub(crate) async fn until(
    api: Api<DynamicObject>,
    selection: &Selection,
    why: &str,
    mut holds: impl FnMut(&Value) -> bool,
) -> Value {
    let mut last = Value::Null;
    let waiting = async {
        let mut events = pin!(events(api, selection));
        let mut objects = Objects::default();
        while let Some(event) = events.next().await {
            // The hub may restart; the watch resumes.
            let Ok(event) = event else { continue };
            if !objects.take(event) {
                continue;
            }
            let found = if selection.name.is_some() { objects.first() } else { objects.list() };
            if !found.is_null() && holds(&found) {
                return found;
            }
            last = found;
        }
        panic!("the watch ended")
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    waited.unwrap_or_else(|_| panic!("{selection:?}: timed out: {why}: {last:#}"))
}

fn events(
    api: Api<DynamicObject>,
    selection: &Selection,
) -> impl Stream<Item = watcher::Result<watcher::Event<DynamicObject>>> + Send + use<> {
    let mut config = watcher::Config::default();
    config.label_selector.clone_from(&selection.labels);
    if let Some(name) = &selection.name {
        config = config.fields(&format!("metadata.name={name}"));
    }
    watcher::watcher(api, config).default_backoff()
}

/// A watch that returns one object at a time: first the existing ones, then every change of one of
/// them. It does not report deletions.
pub struct Watch {
    what: String,
    events: BoxStream<'static, watcher::Result<watcher::Event<DynamicObject>>>,
}

impl Watch {
    pub(crate) fn new(api: Api<DynamicObject>, what: &str, selection: &Selection) -> Self {
        Self { what: what.to_owned(), events: events(api, selection).boxed() }
    }

    /// The next state of one of the objects.
    pub async fn next(&mut self) -> Value {
        let waiting = async {
            loop {
                // The hub may restart; the watch resumes.
                let event = self.events.next().await.expect("a watch has no end");
                if let Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) = event
                {
                    return serde_json::to_value(object).expect("an object is JSON");
                }
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        waited.unwrap_or_else(|_| panic!("{}: nothing changed in {PATIENCE:?}", self.what))
    }
}

/// The state that a watch has reported so far.
#[derive(Default)]
struct Objects {
    known: BTreeMap<String, Value>,
    /// A list that is being read again.
    listing: Option<BTreeMap<String, Value>>,
}

impl Objects {
    /// Applies an event; returns whether there is a new state to check.
    fn take(&mut self, event: watcher::Event<DynamicObject>) -> bool {
        let value = |object: DynamicObject| {
            let name = object.metadata.name.clone().unwrap_or_default();
            (name, serde_json::to_value(object).expect("an object is JSON"))
        };
        match event {
            watcher::Event::Init => self.listing = Some(BTreeMap::new()),
            watcher::Event::InitApply(object) => {
                self.listing.get_or_insert_default().extend([value(object)]);
            }
            watcher::Event::InitDone => self.known = self.listing.take().unwrap_or_default(),
            watcher::Event::Apply(object) => self.known.extend([value(object)]),
            watcher::Event::Delete(object) => {
                self.known.remove(&object.metadata.name.unwrap_or_default());
            }
        }
        self.listing.is_none()
    }

    fn first(&self) -> Value {
        self.known.values().next().cloned().unwrap_or_default()
    }

    fn list(&self) -> Value {
        json!({"items": self.known.values().collect::<Vec<_>>()})
    }
}
