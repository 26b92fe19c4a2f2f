//! The API server: requests in, replies out.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::api::{Caller, Output, Reply, Request, StreamId};
use crate::controllers::Controllers;
use crate::names::LEASES;
use crate::status::Status;
use crate::store::Store;
use crate::store::signs::NODE_LEASES;
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

/// How long history is remembered at least: as long as a real API server
/// leaves between two compactions.
const HISTORY: Duration = Duration::from_mins(5);

/// The API server of one cluster, with its storage and its controllers.
///
/// It is serialisable, and what was serialised goes on where it was. Open
/// watches do not survive: clients come back with the version they know.
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

    /// Which version of Kubernetes `/version` tells, such as `v1.36.4`.
    pub fn set_version(&mut self, version: &str) {
        self.version = Version::new(version);
    }

    /// A server that nothing but requests changes: no controllers run.
    pub fn without_controllers(seed: u64, now: Time) -> Self {
        Self { controllers: Controllers::off(), ..Self::new(seed, now) }
    }

    /// Answers a request. Everything that is due by `now` happens before.
    pub fn request(&mut self, now: Time, caller: &Caller, request: &Request) -> Reply {
        self.advance(now);
        if asks_for_node_leases(&request.path) {
            self.store.write_leases();
        }
        let reply = self.dispatch(caller, request).unwrap_or_else(|status| respond(&status));
        self.controllers.react(&mut self.store);
        reply
    }

    /// Takes what has come up for open watches since the last call.
    pub fn outputs(&mut self) -> Vec<Output> {
        self.watches.take(&self.store)
    }

    /// The caller has gone away: nothing more is sent to the stream.
    pub fn close(&mut self, stream: StreamId) {
        self.watches.close(stream);
    }

    /// When something happens by itself next.
    pub fn next_event(&self) -> Option<Time> {
        let renewal =
            if self.watches.want_node_leases() { self.store.next_renewal() } else { None };
        let next = [self.controllers.next_event(), self.watches.next_event(), renewal];
        next.into_iter().flatten().min()
    }

    /// Forgets the history up to now, as etcd's compaction does: who goes on
    /// from an earlier version is told that it is gone.
    pub fn compact(&mut self) {
        self.watches.pump(&self.store);
        let revision = self.store.revision();
        self.store.compact(revision);
    }

    /// Puts away what has been seen and what nobody looks at, to take less
    /// memory. Changes after `seen` stay at hand.
    pub fn rest(&mut self, seen: u64) {
        self.watches.pump(&self.store);
        let seen = self.controllers.seen().map_or(seen, |own| own.min(seen));
        self.store.rest(seen);
    }

    /// Makes everything happen that is due by `now`. Time never goes back: an
    /// earlier `now` counts as the latest one.
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

    /// The budgets of pods on these nodes allow no eviction from now on, whatever
    /// their numbers say; those of other pods do again.
    pub fn stick_budgets(&mut self, nodes: std::collections::BTreeSet<String>) {
        self.controllers.stick_budgets(&self.store, nodes);
    }

    /// The objects.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The objects, to be changed by what runs in the cluster: kubelets, and
    /// those who set the scene.
    pub fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }
}

/// Whether a request may be about the leases of nodes.
fn asks_for_node_leases(path: &str) -> bool {
    path.contains("leases")
        && path::Target::parse(path).is_some_and(|target| {
            target.plural == LEASES.plural && ["", NODE_LEASES].contains(&target.namespace.as_str())
        })
}

/// A status as an answer.
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
