//! `Watch`.

use bytes::Bytes;
use talos_proto::cosi::resource as cosi;
use talos_proto::kind;

use super::super::World;
use super::super::api::{NodeIndex, Reply, Status, StreamId};
use super::super::roles::Caller;
use super::super::streams::Stream;
use super::query::Filter;
use super::{Collection, kinds, resource, tombstone};

/// The parameters of a watch.
#[derive(Clone, Debug)]
pub(in super::super) struct Watch {
    /// The index of the kind in the table.
    pub(super) place: usize,
    /// Whether the kind exists in the watched namespace.
    live: bool,
    id: Option<String>,
    filter: Filter,
    aggregated: bool,
    /// Clients with an API version below 1 know neither BOOTSTRAPPED nor ERRORED.
    old_client: bool,
}

impl Watch {
    fn wants(&self, event: &cosi::Event) -> bool {
        let id = event
            .resource
            .as_ref()
            .and_then(|resource| resource.metadata.as_ref())
            .map_or("", |metadata| metadata.id.as_str());
        match &self.id {
            Some(only) => only == id,
            None => self.filter.matches(id),
        }
    }
}

/// A position for clients, prefixed with the mark of this boot; `None` is before the first change.
pub(super) fn bookmark(cookie: [u8; 8], position: Option<u64>) -> Bytes {
    let number = position.map_or(-1, |position| i64::try_from(position).unwrap_or(i64::MAX));
    [cookie, number.to_be_bytes()].concat().into()
}

impl Collection {
    /// The events after a bookmark; an error if it is too old or not from this boot.
    fn after(&self, mark: &[u8]) -> Result<Vec<cosi::Event>, Status> {
        let invalid = || Status::failed_precondition("invalid watch bookmark");
        let (cookie, mark) = mark.split_at_checked(8).ok_or_else(invalid)?;
        let mark: [u8; 8] = mark.try_into().map_err(|_| invalid())?;
        if cookie != self.cookie {
            return Err(invalid());
        }
        let first =
            u64::try_from(i64::from_be_bytes(mark).saturating_add(1)).map_err(|_| invalid())?;
        let oldest = self.log.front().map_or(self.position, |change| change.position);
        if first < oldest || first > self.position {
            return Err(invalid());
        }
        Ok(self
            .log
            .iter()
            .filter(|change| change.position >= first)
            .map(|change| change.event.clone())
            .collect())
    }
}

impl World {
    /// The prefix of this boot's bookmarks.
    pub(super) fn cookie(&self, node: NodeIndex) -> [u8; 8] {
        let mut cookie = [0; 8];
        let digits = self.nodes[node.0].boot_id.bytes().filter(|byte| *byte != b'-');
        for (place, digit) in cookie.iter_mut().zip(digits) {
            *place = digit;
        }
        cookie
    }

    pub(in super::super) fn cosi_watch(
        &mut self,
        node: NodeIndex,
        caller: &Caller,
        request: cosi::WatchRequest,
    ) -> Reply {
        match self.start_watch(node, caller, request) {
            Ok(stream) => Reply::Stream(stream),
            Err(status) => status.into(),
        }
    }

    fn start_watch(
        &mut self,
        node: NodeIndex,
        caller: &Caller,
        request: cosi::WatchRequest,
    ) -> Result<StreamId, Status> {
        let cosi::WatchRequest { namespace, r#type, id, options, api_version } = request;
        let options = options.unwrap_or_default();
        let place = self.check_access(node, caller, &namespace, &r#type)?;
        let kind = kinds::at(place);
        if id.is_some() && options.bootstrap_contents {
            return Err(Status::unimplemented(
                "bootstrap contents is not implemented for resource watch",
            ));
        }
        if id.is_some() && !options.label_query.is_empty() {
            return Err(Status::unimplemented("label query is not implemented for resource watch"));
        }
        let watch = Watch {
            place,
            live: kind.namespace == namespace,
            id,
            filter: Filter::new(&options.label_query, options.id_query.as_ref())?,
            aggregated: options.aggregated,
            old_client: api_version < 1,
        };
        if watch.live {
            self.refresh(node, place);
        }
        let empty = Collection::new(self.cookie(node));
        let collection = self.nodes[node.0]
            .cosi
            .collections
            .get(&place)
            .filter(|_| watch.live)
            .unwrap_or(&empty);
        let current = bookmark(collection.cookie, collection.position.checked_sub(1));
        let created = |id: &str, entry| cosi::Event {
            resource: Some(resource(kind, id, entry)),
            event_type: cosi::EventType::Created.into(),
            ..Default::default()
        };
        let mut events = Vec::new();
        if let Some(mark) = &options.start_from_bookmark {
            events = collection.after(mark)?;
            events.retain(|event| watch.wants(event));
        } else if let Ok(tail @ 1..) = usize::try_from(options.tail_events) {
            events = collection.log.iter().map(|change| change.event.clone()).collect();
            events.retain(|event| watch.wants(event));
            events.drain(..events.len().saturating_sub(tail));
        } else if let Some(id) = &watch.id {
            events.push(match collection.entries.get(id) {
                Some(entry) => created(id, entry),
                None => cosi::Event {
                    resource: Some(tombstone(kind, id)),
                    event_type: cosi::EventType::Destroyed.into(),
                    ..Default::default()
                },
            });
        } else if options.bootstrap_contents {
            let existing = collection.entries.iter().filter(|(id, _)| watch.filter.matches(id));
            events.extend(existing.map(|(id, entry)| created(id, entry)));
            events.push(marker(kind, cosi::EventType::Bootstrapped, current));
        } else if options.bootstrap_bookmark {
            events.push(marker(kind, cosi::EventType::Noop, current));
        }
        let stream = self.open(node, Stream::Watch(Box::new(watch.clone())));
        self.send(stream, cosi::WatchResponse::default());
        self.send_events(stream, &watch, events);
        Ok(stream)
    }

    fn send_events(&mut self, stream: StreamId, watch: &Watch, mut events: Vec<cosi::Event>) {
        if watch.old_client {
            events.retain(|event| {
                !matches!(
                    event.event_type(),
                    cosi::EventType::Bootstrapped | cosi::EventType::Errored
                )
            });
        }
        if events.is_empty() {
            return;
        }
        if watch.aggregated {
            self.send(stream, cosi::WatchResponse { event: events });
        } else {
            for event in events {
                self.send(stream, cosi::WatchResponse { event: vec![event] });
            }
        }
    }

    /// Sends changes of a kind to all of its watches.
    pub(super) fn tell_watchers(&mut self, node: NodeIndex, place: usize, events: &[cosi::Event]) {
        let watchers: Vec<(StreamId, Watch)> = self
            .streams
            .iter()
            .filter(|(_, open)| open.node == node)
            .filter_map(|(id, open)| match &open.stream {
                Stream::Watch(watch) if watch.place == place && watch.live => {
                    Some((*id, (**watch).clone()))
                }
                _ => None,
            })
            .collect();
        for (stream, watch) in watchers {
            let wanted: Vec<cosi::Event> =
                events.iter().filter(|event| watch.wants(event)).cloned().collect();
            self.send_events(stream, &watch, wanted);
        }
    }

    pub(super) fn is_watched(&self, node: NodeIndex, place: usize) -> bool {
        self.streams.values().any(|open| {
            open.node == node
                && matches!(&open.stream, Stream::Watch(watch) if watch.place == place)
        })
    }

    /// Updates everything that is being watched, on a node or on all.
    pub(in super::super) fn refresh_watched(&mut self, only: Option<NodeIndex>) {
        let mut watched: Vec<(NodeIndex, usize)> = self
            .streams
            .values()
            .filter_map(|open| match &open.stream {
                Stream::Watch(watch) if watch.live => Some((open.node, watch.place)),
                _ => None,
            })
            .filter(|(node, _)| only.is_none_or(|only| only == *node))
            .collect();
        watched.sort_unstable();
        watched.dedup();
        for (node, place) in watched {
            self.refresh(node, place);
        }
    }
}

/// An event that is about no resource; clients need a resource in it anyway.
fn marker(kind: &kind::Kind, event_type: cosi::EventType, mark: Bytes) -> cosi::Event {
    cosi::Event {
        resource: Some(tombstone(kind, "")),
        event_type: event_type.into(),
        bookmark: Some(mark),
        ..Default::default()
    }
}
