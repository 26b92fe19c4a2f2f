//! The API server: handles requests and returns replies.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::api::{Caller, Output, Reply, Request, StreamId};
use crate::controllers::Controllers;
use crate::names::LEASES;
use crate::status::Status;
use crate::store::Store;
use crate::store::lazy_leases::NODE_LEASES;
use crate::time::Time;
use crate::version::Version;

mod authorize;
mod body;
mod delete;
mod discovery;
mod dispatch;
mod eviction;
mod list;
mod negotiate;
mod openapi;
mod patch;
mod path;
mod present;
mod query;
mod reviews;
mod scale;
mod table;
mod tokens;
mod watch;

#[cfg(test)]
mod tests;

use tokens::Tokens;
use watch::Watches;

/// How long history is kept at least: the interval between two compactions of a real API server.
const HISTORY: Duration = Duration::from_mins(5);

/// The API server of one cluster, with its storage and its controllers.
///
/// A deserialised server continues where the serialised one stopped. Open watches do not survive:
/// clients reconnect with the version they know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ApiServer {
    version: Version,
    store: Store,
    controllers: Controllers,
    #[serde(default)]
    tokens: Tokens,
    #[serde(skip)]
    watches: Watches,
}

impl ApiServer {
    /// A server with the namespaces that every cluster has.
    pub fn new(seed: u64, now: Time) -> Self {
        Self {
            version: Version::default(),
            store: Store::new(seed, now),
            controllers: Controllers::default(),
            tokens: Tokens::default(),
            watches: Watches::default(),
        }
    }

    /// Sets the version that `/version` reports, such as `v1.36.4`.
    pub fn set_version(&mut self, version: &str) {
        self.version = Version::new(version);
    }

    /// A server without controllers: only requests change its objects.
    pub fn without_controllers(seed: u64, now: Time) -> Self {
        Self { controllers: Controllers::off(), ..Self::new(seed, now) }
    }

    /// Answers a request, after everything that is due by `now`.
    pub fn request(&mut self, now: Time, caller: &Caller, request: &Request) -> Reply {
        self.advance(now);
        if asks_for_node_leases(&request.path) {
            self.store.write_leases();
        }
        let reply = self.dispatch(caller, request).unwrap_or_else(|status| respond(&status));
        self.controllers.react(&mut self.store);
        reply
    }

    /// Takes the items for open watches since the last call.
    pub fn outputs(&mut self) -> Vec<Output> {
        self.watches.take(&self.store)
    }

    /// The caller has disconnected: nothing more is sent to the stream.
    pub fn close(&mut self, stream: StreamId) {
        self.watches.close(stream);
    }

    /// The time of the next event that needs no request.
    pub fn next_event(&self) -> Option<Time> {
        let renewal =
            if self.watches.want_node_leases() { self.store.next_renewal() } else { None };
        let next = [self.controllers.next_event(), self.watches.next_event(), renewal];
        next.into_iter().flatten().min()
    }

    /// Forgets the history so far, like etcd's compaction: a client that continues from an earlier
    /// version gets 410 Gone.
    pub fn compact(&mut self) {
        self.watches.pump(&self.store);
        let revision = self.store.revision();
        self.store.compact(revision);
    }

    /// Compresses delivered changes and unused objects to save memory. Changes after `seen` stay
    /// uncompressed.
    pub fn rest(&mut self, seen: u64) {
        self.watches.pump(&self.store);
        let seen = self.controllers.seen().map_or(seen, |own| own.min(seen));
        self.store.rest(seen);
    }

    /// Processes everything that is due by `now`. Time never goes back: an earlier `now` counts as
    /// the latest one.
    pub fn advance(&mut self, now: Time) {
        self.store.now = self.store.now.max(now);
        if self.watches.want_node_leases() {
            self.store.write_leases();
        }
        self.controllers.react(&mut self.store);
        self.watches.advance(&self.store);
        let old = self.store.now.minus(HISTORY + HISTORY / 4);
        if self.store.oldest_change().is_some_and(|at| at < old) {
            let revision = self.store.revision_at(self.store.now.minus(HISTORY));
            self.store.compact(revision);
        }
    }

    /// Blocks evictions of pods on these nodes from now on, whatever their budgets allow; evictions
    /// on other nodes are unblocked.
    pub fn stick_budgets(&mut self, nodes: std::collections::BTreeSet<String>) {
        self.controllers.stick_budgets(&self.store, nodes);
    }

    /// The objects.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The objects, for changes by what runs in the cluster: kubelets, and the code that sets up a
    /// scenario.
    pub fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }
}

/// Whether a request may read node leases.
fn asks_for_node_leases(path: &str) -> bool {
    path.contains("leases")
        && path::Target::parse(path).is_some_and(|target| {
            target.plural == LEASES.plural && ["", NODE_LEASES].contains(&target.namespace.as_str())
        })
}

/// A status as a reply.
fn respond(status: &Status) -> Reply {
    let retry = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    Reply::Response {
        status: status.code,
        content_type: "application/json",
        retry_after: (retry > 0).then_some(retry),
        warnings: Vec::new(),
        body: status.to_value().to_string().into(),
    }
}
