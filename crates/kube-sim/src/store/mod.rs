//! The stored objects, their history, and the rules for changing them.
//!
//! Every change creates one revision and stays in a log until it is compacted: watches, paged lists
//! and controllers read it.

mod apply;
mod defaults;
mod definitions;
mod delete;
mod kinds;
pub(crate) mod lazy_leases;
mod log;
mod metadata;
mod prepare;
mod serialise;
mod stored;
mod structural;
pub(crate) mod unknown;

pub use delete::{DeleteOptions, Deleted, Propagation};
pub use log::{Change, ChangeKind};

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::names::ResourceName;
use crate::object;
use crate::random::Random;
use crate::status::Status;
use crate::time::Time;
use crate::types::{ResourceType, Types};
use lazy_leases::LazyLeases;
use log::Log;
pub(crate) use stored::Stored;

/// Namespace and name.
pub(crate) type Key = (String, String);

/// The writer, and the options of a write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Write {
    /// The field manager.
    pub manager: String,
    /// Whether everything is done except storing it.
    pub dry_run: bool,
    /// Whether the field ownership of the new object is already set.
    pub(crate) applied: bool,
}

impl Write {
    /// A persistent write by this field manager.
    pub fn by(manager: &str) -> Self {
        Self { manager: manager.to_owned(), ..Self::default() }
    }
}

/// The objects of a cluster.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) now: Time,
    pub(crate) random: Random,
    types: Types,
    objects: BTreeMap<ResourceName, BTreeMap<Key, Arc<Stored>>>,
    log: Log,
    /// The latest change that is not just a lease renewal.
    kept: u64,
    /// Whether kubelets and controllers record no events.
    quiet: bool,
    lazy_leases: LazyLeases,
}

impl Store {
    pub(crate) fn new(seed: u64, now: Time) -> Self {
        let mut store = Self {
            now,
            random: Random::new(seed),
            types: Types::default(),
            objects: BTreeMap::new(),
            log: Log::default(),
            kept: 0,
            quiet: false,
            lazy_leases: LazyLeases::default(),
        };
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            let namespace = json!({"metadata": {"name": name}});
            let _ =
                store.create(&Write::by("kube-apiserver"), &crate::names::NAMESPACES, namespace);
        }
        store
    }

    /// The current time, as last passed to the API server.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Advances the time without processing anything. Time never goes back.
    pub(crate) fn pass(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    /// Stops kubelets and controllers from recording events: for a simulated past that is long
    /// over.
    pub fn set_quiet(&mut self, quiet: bool) {
        self.quiet = quiet;
    }

    /// Whether no events are recorded.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// The kinds that are served.
    pub fn types(&self) -> &Types {
        &self.types
    }

    /// The revision of the latest change.
    pub fn revision(&self) -> u64 {
        self.log.revision()
    }

    /// The revision of the latest change of anything but leases.
    pub fn revision_to_keep(&self) -> u64 {
        self.kept
    }

    /// The changes after a revision, oldest first; `None` if some have been compressed or
    /// compacted.
    pub fn changes_since(&self, revision: u64) -> Option<impl Iterator<Item = &Change>> {
        self.log.since(revision)
    }

    /// The same including compressed changes; `None` if some have been compacted.
    pub(crate) fn history(&self, revision: u64) -> Option<Vec<Change>> {
        self.log.history(revision)
    }

    /// Compresses the changes up to a revision, and the objects not used since the last call.
    pub(crate) fn rest(&mut self, seen: u64) {
        self.log.pack(seen);
        for stored in self.objects.values_mut().flat_map(BTreeMap::values_mut) {
            // A shared object is in use.
            if let Some(stored) = Arc::get_mut(stored) {
                stored.cool();
            }
        }
    }

    /// The revision up to which history has been compacted.
    pub fn compacted(&self) -> u64 {
        self.log.compacted()
    }

    /// Compacts the history up to a revision.
    pub(crate) fn compact(&mut self, revision: u64) {
        self.log.compact(revision);
    }

    /// When the oldest change in the history happened.
    pub(crate) fn oldest_change(&self) -> Option<Time> {
        self.log.oldest()
    }

    /// The newest revision that is at least that old.
    pub(crate) fn revision_at(&self, time: Time) -> u64 {
        self.log.revision_at(time)
    }

    /// The objects of a resource at an earlier revision; `None` if it has been compacted.
    pub fn list_at(
        &self,
        resource: &ResourceName,
        namespace: Option<&str>,
        revision: u64,
    ) -> Option<Vec<Arc<Value>>> {
        let key = |object: &Value| {
            (object::namespace(object).to_owned(), object::name(object).to_owned())
        };
        let changes = self.log.history(revision)?;
        let mut found: BTreeMap<Key, Arc<Value>> =
            self.list(resource, namespace).map(|object| (key(object), object.clone())).collect();
        for change in changes.into_iter().rev().filter(|change| change.resource == *resource) {
            if namespace.is_some_and(|wanted| wanted != object::namespace(&change.object)) {
                continue;
            }
            match &change.previous {
                Some(previous) => found.insert(key(previous), previous.clone()),
                None => found.remove(&key(&change.object)),
            };
        }
        Some(found.into_values().collect())
    }

    /// An object.
    pub fn get(&self, resource: &ResourceName, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        self.stored(resource, namespace, name).map(|stored| stored.value())
    }

    pub(crate) fn stored(
        &self,
        resource: &ResourceName,
        namespace: &str,
        name: &str,
    ) -> Option<&Arc<Stored>> {
        self.objects.get(resource)?.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// The objects of a resource in one namespace or in all, ordered by namespace and name.
    pub fn list<'a>(
        &'a self,
        resource: &ResourceName,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<Value>> {
        self.list_stored(resource, namespace).map(|(_, stored)| stored.value())
    }

    /// The same in stored form, with their keys.
    pub(crate) fn list_stored<'a>(
        &'a self,
        resource: &ResourceName,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Stored>)> {
        let start = (namespace.unwrap_or_default().to_owned(), String::new());
        self.objects
            .get(resource)
            .into_iter()
            .flat_map(move |objects| objects.range(start.clone()..))
            .take_while(move |((found, _), _)| namespace.is_none_or(|wanted| wanted == found))
    }

    /// The number of objects of a resource.
    pub fn count(&self, resource: &ResourceName) -> usize {
        self.objects.get(resource).map_or(0, BTreeMap::len)
    }

    /// Creates an object.
    pub fn create(
        &mut self,
        write: &Write,
        resource: &ResourceName,
        object: Value,
    ) -> Result<Arc<Value>, Status> {
        let kind = self.kind(resource)?;
        let object = self.prepare_create(write, &kind, object)?;
        let name = object::name(&object);
        if self.get(resource, object::namespace(&object), name).is_some() {
            return Err(Status::already_exists(resource, name));
        }
        Ok(self.put(write, &kind, None, object))
    }

    /// Replaces an object, except for a status that is a subresource. If the new object has a
    /// `resourceVersion`, it must be the current one.
    pub fn update(
        &mut self,
        write: &Write,
        resource: &ResourceName,
        object: Value,
    ) -> Result<Arc<Value>, Status> {
        self.replace(write, resource, object, "")
    }

    /// Replaces only the status of an object.
    pub fn update_status(
        &mut self,
        write: &Write,
        resource: &ResourceName,
        object: Value,
    ) -> Result<Arc<Value>, Status> {
        self.replace(write, resource, object, "status")
    }

    /// Modifies the current object.
    pub fn modify(
        &mut self,
        write: &Write,
        resource: &ResourceName,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> Result<Arc<Value>, Status> {
        self.modify_part(write, resource, (namespace, name), "", change)
    }

    /// Modifies the status of the current object.
    pub fn modify_status(
        &mut self,
        write: &Write,
        resource: &ResourceName,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> Result<Arc<Value>, Status> {
        self.modify_part(write, resource, (namespace, name), "status", change)
    }

    fn modify_part(
        &mut self,
        write: &Write,
        resource: &ResourceName,
        (namespace, name): (&str, &str),
        subresource: &str,
        change: impl FnOnce(&mut Value),
    ) -> Result<Arc<Value>, Status> {
        let old = self.current(resource, namespace, name)?;
        let mut object = old.as_ref().clone();
        change(&mut object);
        if object == **old {
            return Ok(old.clone());
        }
        self.replace(write, resource, object, subresource)
    }

    /// Sets the status of an object, as controllers do on every sync.
    pub(crate) fn set_status(
        &mut self,
        write: &Write,
        resource: &ResourceName,
        namespace: &str,
        name: &str,
        status: Value,
    ) -> Result<(), Status> {
        if self.current(resource, namespace, name)?.get("status") == Some(&status) {
            return Ok(());
        }
        let put = |object: &mut Value| object::set(object, &["status"], status);
        self.modify_status(write, resource, namespace, name, put).map(drop)
    }

    pub(crate) fn replace(
        &mut self,
        write: &Write,
        resource: &ResourceName,
        object: Value,
        subresource: &str,
    ) -> Result<Arc<Value>, Status> {
        let kind = self.kind(resource)?;
        let old =
            self.current(resource, object::namespace(&object), object::name(&object))?.clone();
        let object = self.prepare_update(write, &kind, &old, object, subresource)?;
        if prepare::is_finished(&object) {
            return Ok(self.take(write, &kind, &old, object));
        }
        if object == *old {
            return Ok(old);
        }
        Ok(self.put(write, &kind, Some(old), object))
    }

    /// The type of a resource, or 404 if it is not served.
    pub(crate) fn kind(&self, resource: &ResourceName) -> Result<Arc<ResourceType>, Status> {
        self.types.get(resource).cloned().ok_or_else(Status::no_such_resource)
    }

    /// The current object, or 404.
    pub(crate) fn current(
        &self,
        resource: &ResourceName,
        namespace: &str,
        name: &str,
    ) -> Result<&Arc<Value>, Status> {
        self.get(resource, namespace, name).ok_or_else(|| Status::not_found(resource, name))
    }

    /// Stores a validated object.
    pub(crate) fn put(
        &mut self,
        write: &Write,
        kind: &Arc<ResourceType>,
        old: Option<Arc<Value>>,
        mut object: Value,
    ) -> Arc<Value> {
        if write.dry_run {
            // In a dry run, a new object has no version and an updated one keeps its own.
            return Arc::new(object);
        }
        let revision = self.log.revision() + 1;
        object::set(&mut object, &["metadata", "resourceVersion"], revision.to_string());
        let object = Arc::new(object);
        let key = (object::namespace(&object).to_owned(), object::name(&object).to_owned());
        self.objects
            .entry(kind.name.clone())
            .or_default()
            .insert(key, Arc::new(Stored::from_value(object.clone())));
        let change = if old.is_some() { ChangeKind::Modified } else { ChangeKind::Added };
        self.record(kind, change, object.clone(), old);
        object
    }

    /// Removes an object; watches get `last` as its final state.
    pub(crate) fn take(
        &mut self,
        write: &Write,
        kind: &Arc<ResourceType>,
        old: &Arc<Value>,
        mut last: Value,
    ) -> Arc<Value> {
        if write.dry_run {
            return Arc::new(last);
        }
        let revision = self.log.revision() + 1;
        object::set(&mut last, &["metadata", "resourceVersion"], revision.to_string());
        let last = Arc::new(last);
        let key = (object::namespace(old).to_owned(), object::name(old).to_owned());
        if let Some(objects) = self.objects.get_mut(&kind.name) {
            objects.remove(&key);
        }
        self.record(kind, ChangeKind::Deleted, last.clone(), Some(old.clone()));
        last
    }

    fn record(
        &mut self,
        kind: &Arc<ResourceType>,
        change: ChangeKind,
        object: Arc<Value>,
        previous: Option<Arc<Value>>,
    ) {
        let revision = self.log.revision() + 1;
        let at = self.now;
        let resource = kind.name.clone();
        if resource != crate::names::LEASES {
            self.kept = revision;
        }
        self.log.push(Change { revision, at, resource, kind: change, object, previous });
        if kind.name == crate::names::CUSTOM_RESOURCE_DEFINITIONS {
            self.definitions_changed();
        }
    }
}

#[cfg(test)]
mod tests;
