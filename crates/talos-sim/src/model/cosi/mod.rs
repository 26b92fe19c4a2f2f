//! Resources: a node's state as its API shows it.
//!
//! They are views of the node's state, made on demand: for a `Get` or a `List` at that moment, for
//! a `Watch` after every change of the world. A resource's version grows when its content has
//! changed since it was last read.

mod cluster_views;
mod component_views;
mod config_views;
mod kinds;
mod kubernetes_views;
mod machine_views;
mod meta_views;
mod network_views;
mod query;
mod watch;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use prost::Message;
use talos_proto::cosi::resource as cosi;
use talos_proto::{Kind, kind};

pub(super) use watch::Watch;

use super::World;
use super::api::{NodeIndex, Reply, Response, Status};
use super::resource_value::ResourceValue;
use super::roles::{Caller, Role};
use super::time::{self, Time};

/// How many changes of a kind are kept for clients that resume a watch.
const KEPT: usize = 64;

/// The namespaces that exist.
const NAMESPACES: &[&str] = &[
    "cluster",
    "config",
    "controlplane",
    "cri",
    "etcd",
    "extras",
    "files",
    "hardware",
    "k8s",
    "kubeaccess",
    "kubespan",
    "meta",
    "network",
    "network-config",
    "perf",
    "runtime",
    "secrets",
    "security",
    "siderolink",
];

/// The subnet of pod addresses.
const POD_SUBNET: &str = "10.244.0.0/16";

/// A resource as its view makes it.
pub(super) struct View {
    id: String,
    proto: Vec<u8>,
    yaml: String,
    /// The version, for resources that the node itself counts.
    version: Option<u64>,
}

impl View {
    fn new(id: impl Into<String>, message: &impl Message, yaml: &ResourceValue) -> Self {
        Self { id: id.into(), proto: message.encode_to_vec(), yaml: yaml.to_yaml(), version: None }
    }

    fn version(self, version: u64) -> Self {
        Self { version: Some(version), ..self }
    }
}

/// A resource as last read.
#[derive(Clone, Debug)]
struct Entry {
    version: u64,
    created: Time,
    updated: Time,
    proto: Bytes,
    yaml: String,
}

/// A change that was sent, or would have been if a watch had been open.
#[derive(Clone, Debug)]
struct Change {
    position: u64,
    event: cosi::Event,
}

/// The resources of one kind.
#[derive(Clone, Debug, Default)]
struct Collection {
    /// Differs from boot to boot: a bookmark from an earlier boot is invalid.
    cookie: [u8; 8],
    entries: BTreeMap<String, Entry>,
    log: VecDeque<Change>,
    position: u64,
}

/// The resources that were read on a node since it booted.
#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    /// By the index of the kind in the table.
    collections: BTreeMap<usize, Collection>,
}

fn resource(kind: &Kind, id: &str, entry: &Entry) -> cosi::Resource {
    cosi::Resource {
        metadata: Some(cosi::Metadata {
            namespace: kind.namespace.to_owned(),
            r#type: kind.resource_type.to_owned(),
            id: id.to_owned(),
            version: entry.version.to_string(),
            owner: kinds::owner(kind, id).to_owned(),
            phase: "running".to_owned(),
            created: Some(time::to_proto(entry.created)),
            updated: Some(time::to_proto(entry.updated)),
            ..Default::default()
        }),
        spec: Some(cosi::Spec { proto_spec: entry.proto.clone(), yaml_spec: entry.yaml.clone() }),
    }
}

/// The event resource of a resource that does not exist.
fn tombstone(kind: &Kind, id: &str) -> cosi::Resource {
    cosi::Resource {
        metadata: Some(cosi::Metadata {
            namespace: kind.namespace.to_owned(),
            r#type: kind.resource_type.to_owned(),
            id: id.to_owned(),
            version: "undefined".to_owned(),
            phase: "running".to_owned(),
            ..Default::default()
        }),
        spec: Some(cosi::Spec::default()),
    }
}

impl World {
    /// Checks that the node has the kind and the caller may read it.
    fn check_access(
        &self,
        node: NodeIndex,
        caller: &Caller,
        namespace: &str,
        resource_type: &str,
    ) -> Result<usize, Status> {
        let minor = self.nodes[node.0].minor();
        let lower = resource_type.to_lowercase();
        let found = kinds::all()
            .position(|kind| kind.definition_id() == lower && kind.since_minor <= minor);
        let Some(place) = found else {
            return Err(Status::permission_denied(format!(
                "resource type {resource_type:?} is not supported"
            )));
        };
        if is_sensitive(kinds::at(place), minor) && !caller.has(Role::Admin) {
            return Err(Status::permission_denied("not authorized"));
        }
        if !NAMESPACES.contains(&namespace) {
            return Err(Status::permission_denied(format!(
                "namespace {namespace:?} is not supported"
            )));
        }
        Ok(place)
    }

    pub(super) fn cosi_get(
        &mut self,
        node: NodeIndex,
        caller: &Caller,
        request: &cosi::GetRequest,
    ) -> Reply {
        let cosi::GetRequest { namespace, r#type, id, options: _ } = request;
        let place = match self.check_access(node, caller, namespace, r#type) {
            Ok(place) => place,
            Err(status) => return status.into(),
        };
        let kind = kinds::at(place);
        let found = if kind.namespace == *namespace {
            self.refresh(node, place);
            self.nodes[node.0]
                .cosi
                .collections
                .get(&place)
                .and_then(|collection| collection.entries.get(id))
                .map(|entry| resource(kind, id, entry))
        } else {
            None
        };
        self.forget(node, place);
        match found {
            Some(resource) => Reply::Unary(cosi::GetResponse { resource: Some(resource) }.into()),
            None => Status::not_found(format!(
                "resource {type}({namespace}/{id}@undefined) doesn't exist"
            ))
            .into(),
        }
    }

    pub(super) fn cosi_list(
        &mut self,
        node: NodeIndex,
        caller: &Caller,
        request: &cosi::ListRequest,
    ) -> Reply {
        let cosi::ListRequest { namespace, r#type, options } = request;
        let options = options.clone().unwrap_or_default();
        let checked = self.check_access(node, caller, namespace, r#type);
        let filter = query::Filter::new(&options.label_query, options.id_query.as_ref());
        let (place, filter) = match (checked, filter) {
            (Ok(place), Ok(filter)) => (place, filter),
            (Err(status), _) | (_, Err(status)) => return status.into(),
        };
        let kind = kinds::at(place);
        if kind.namespace != *namespace {
            return Reply::Items(Vec::new());
        }
        self.refresh(node, place);
        let items: Vec<Response> = self.nodes[node.0]
            .cosi
            .collections
            .get(&place)
            .into_iter()
            .flat_map(|collection| &collection.entries)
            .filter(|(id, _)| filter.matches(id))
            .map(|(id, entry)| {
                Response::from(cosi::ListResponse { resource: Some(resource(kind, id, entry)) })
            })
            .collect();
        self.forget(node, place);
        Reply::Items(items)
    }

    /// Updates the resources of a kind, and notifies its watches.
    pub(super) fn refresh(&mut self, node: NodeIndex, place: usize) {
        let kind = kinds::at(place);
        let now = self.node_time(node);
        let views = self.views(node, kind);
        let cookie = self.cookie(node);
        let collection = self.nodes[node.0]
            .cosi
            .collections
            .entry(place)
            .or_insert_with(|| Collection::new(cookie));
        let events = collection.update(kind, views, now);
        if !events.is_empty() {
            self.tell_watchers(node, place, &events);
        }
    }

    /// Drops resources that never change: definitions would otherwise take most of a node's memory.
    fn forget(&mut self, node: NodeIndex, place: usize) {
        let constant = [kind::RESOURCE_DEFINITION, kind::NAMESPACE];
        if constant.contains(kinds::at(place)) && !self.is_watched(node, place) {
            self.nodes[node.0].cosi.collections.remove(&place);
        }
    }

    fn views(&self, node: NodeIndex, kind: &Kind) -> Vec<View> {
        self.meta_views(node, kind)
            .or_else(|| self.machine_views(node, kind))
            .or_else(|| self.config_views(node, kind))
            .or_else(|| self.network_views(node, kind))
            .or_else(|| self.cluster_views(node, kind))
            .or_else(|| self.kubernetes_views(node, kind))
            .or_else(|| self.component_views(node, kind))
            .unwrap_or_default()
    }
}

/// Kinds that contain component arguments are sensitive since 1.13.
fn is_sensitive(kind: &Kind, minor: u64) -> bool {
    let open_before_13 = [kind::KUBELET_SPEC, kind::API_SERVER_CONFIG, kinds::KUBELET_CONFIG];
    kind.sensitive && (minor >= 13 || !open_before_13.contains(kind))
}

impl Collection {
    fn new(cookie: [u8; 8]) -> Self {
        Self { cookie, ..Self::default() }
    }

    fn update(&mut self, kind: &Kind, views: Vec<View>, now: Time) -> Vec<cosi::Event> {
        let mut events = Vec::new();
        let gone: Vec<String> = self
            .entries
            .keys()
            .filter(|id| !views.iter().any(|view| view.id == **id))
            .cloned()
            .collect();
        for id in gone {
            if let Some(entry) = self.entries.remove(&id) {
                let last = resource(kind, &id, &entry);
                events.push(self.log(cosi::EventType::Destroyed, last, None));
            }
        }
        for view in views {
            let View { id, proto, yaml, version } = view;
            match self.entries.get_mut(&id) {
                Some(entry) if entry.proto == proto && entry.yaml == yaml => {
                    if let Some(version) = version {
                        entry.version = version;
                    }
                }
                Some(entry) => {
                    let old = resource(kind, &id, entry);
                    entry.version = version.unwrap_or(entry.version + 1);
                    entry.updated = now;
                    entry.proto = proto.into();
                    entry.yaml = yaml;
                    let new = resource(kind, &id, entry);
                    events.push(self.log(cosi::EventType::Updated, new, Some(old)));
                }
                None => {
                    let entry = Entry {
                        version: version.unwrap_or(1),
                        created: now,
                        updated: now,
                        proto: proto.into(),
                        yaml,
                    };
                    let new = resource(kind, &id, &entry);
                    self.entries.insert(id, entry);
                    events.push(self.log(cosi::EventType::Created, new, None));
                }
            }
        }
        events
    }

    fn log(
        &mut self,
        event_type: cosi::EventType,
        resource: cosi::Resource,
        old: Option<cosi::Resource>,
    ) -> cosi::Event {
        let position = self.position;
        self.position += 1;
        let event = cosi::Event {
            resource: Some(resource),
            event_type: event_type.into(),
            old,
            error: None,
            bookmark: Some(watch::bookmark(self.cookie, Some(position))),
        };
        if self.log.len() == KEPT {
            self.log.pop_front();
        }
        self.log.push_back(Change { position, event: event.clone() });
        event
    }
}
