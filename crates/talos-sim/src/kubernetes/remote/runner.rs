//! The thread of the kubelets of a real API server: facts of the machines and changes of objects
//! come in, requests go out.
//!
//! They run in real time, whatever the speed of the nodes: so do the API server and its
//! controllers, and leases, grace periods and time stamps belong to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube_sim::kubelet::{Api as _, Kubelets};
use kube_sim::names::{NODES, VOLUME_ATTACHMENTS};
use kube_sim::object;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::Machines;
use super::api::RemoteApi;
use super::provision::Provisioner;
use super::watch::Change;
use crate::clock::{self, Clock};
use crate::driver::{Driver, Inside};
use crate::kubernetes::drain::Drains;
use crate::kubernetes::feed::{CordonChange, cordon_patch};
use crate::model::{NodeIndex, Time};

/// The pause before a retry.
const RETRY: Duration = Duration::from_secs(1);

/// The kubelets and their inputs.
#[derive(Debug)]
pub(super) struct Runner {
    pub(super) api: RemoteApi,
    pub(super) kubelets: Kubelets,
    pub(super) machines: watch::Receiver<Machines>,
    pub(super) changes: mpsc::UnboundedReceiver<Change>,
    pub(super) driver: Driver,
    /// Real time.
    pub(super) clock: Clock,
    /// The Node objects, by name.
    pub(super) nodes: BTreeMap<String, Arc<Value>>,
    pub(super) provisioner: Provisioner,
    /// The virtual time of the nodes.
    pub(super) nodes_clock: Clock,
    /// The nodes that drain themselves and wait for their drain here.
    pub(super) held: BTreeMap<String, NodeIndex>,
    pub(super) drains: Drains,
}

/// Why the thread woke up.
enum Woken {
    Machines,
    Change(Change),
    Time,
    Over,
}

impl Runner {
    /// Runs until the cluster is stopped.
    pub(super) fn run(mut self) {
        let mut retry = None;
        let mut machines = true;
        let mut nodes = true;
        loop {
            self.api.next_round();
            while let Ok(change) = self.changes.try_recv() {
                nodes |= self.observe(&change);
            }
            let now = self.clock.now();
            if std::mem::take(&mut machines) {
                let facts = self.machines.borrow_and_update().facts.clone();
                self.kubelets.sync(now, &mut self.api, &facts);
            } else {
                self.kubelets.advance(now, &mut self.api);
            }
            let mut done = self.provisioner.work(&mut self.api);
            if std::mem::take(&mut nodes) || retry.is_some() {
                match self.pass() {
                    Some(passed) => done &= passed,
                    None => return,
                }
            }
            if self.drain().is_none() {
                return;
            }
            retry = (!done).then(|| clock::real_after(RETRY));
            match self.sleep(retry) {
                Woken::Machines => (machines, nodes) = (true, true),
                Woken::Change(change) => nodes = self.observe(&change),
                Woken::Time => {}
                Woken::Over => return,
            }
        }
    }

    fn sleep(&mut self, retry: Option<Instant>) -> Woken {
        let due = self
            .kubelets
            .next_event()
            .map(|time| self.clock.instant_of(Time::from_nanos(time.as_nanos())));
        let drain = self
            .drains
            .next_event()
            .map(|time| self.nodes_clock.instant_of(Time::from_nanos(time.as_nanos())));
        let wake = [retry, due, drain].into_iter().flatten().min();
        let Self { api, machines, changes, .. } = self;
        api.wait(async {
            tokio::select! {
                changed = machines.changed() => {
                    if changed.is_ok() { Woken::Machines } else { Woken::Over }
                }
                Some(change) = changes.recv() => Woken::Change(change),
                () = async {
                    match wake {
                        Some(wake) => tokio::time::sleep_until(wake).await,
                        None => std::future::pending().await,
                    }
                } => Woken::Time,
            }
        })
    }

    /// Observes a change; returns whether a Node object has changed.
    fn observe(&mut self, change: &Change) -> bool {
        let Change { resource, object, gone } = change;
        self.provisioner.observe(change);
        if *resource == VOLUME_ATTACHMENTS {
            // The cluster's other nodes have their own storage driver.
            let ours: BTreeSet<String> =
                self.machines.borrow().facts.iter().map(|facts| facts.name.clone()).collect();
            if !ours.contains(object::text(object, &["spec", "nodeName"])) {
                return false;
            }
        }
        self.kubelets.observe(self.clock.now(), resource, object, *gone);
        *resource == NODES && self.remember(object, *gone)
    }

    /// Stores a Node object, unless a newer one is known.
    fn remember(&mut self, object: &Arc<Value>, gone: bool) -> bool {
        let name = object::name(object);
        if gone {
            return self.nodes.remove(name).is_some();
        }
        let newer = |known: &Arc<Value>| object::revision(known) >= object::revision(object);
        if self.nodes.get(name).is_some_and(newer) {
            return false;
        }
        self.nodes.insert(name.to_owned(), Arc::clone(object));
        true
    }

    /// Synchronises the nodes with their objects; `None` if the cluster has stopped, `false` if it
    /// has to be retried.
    fn pass(&mut self) -> Option<bool> {
        let nodes = self.nodes.clone();
        let held = std::mem::take(&mut self.held);
        // Inside the task that owns the nodes: nothing changes meanwhile.
        let visit = self.driver.visit(move |inside| {
            let Inside { kubernetes, world, clock, .. } = inside;
            let now = world.now();
            let draining: BTreeMap<String, NodeIndex> =
                world.draining().map(|(node, name)| (name.to_owned(), node)).collect();
            for (_, node) in draining.iter().filter(|(name, _)| !held.contains_key(*name)) {
                world.hold_drain(now, *node);
            }
            let object = |name: &str| nodes.get(name).map(AsRef::as_ref);
            let cordons = kubernetes.feed.pass(world, |_| true, object);
            (cordons, kubernetes.manifests.passes(world), draining, clock.clone())
        });
        let (cordons, passes, draining, nodes_clock) = self.api.wait(visit)?;
        self.held = draining;
        self.nodes_clock = nodes_clock;
        let mut done = true;
        for CordonChange { node, name, cordoned } in cordons {
            if let Ok(object) = self.api.patch(&NODES, "", &name, "", &cordon_patch(cordoned)) {
                self.remember(&object, false);
            } else {
                self.visit(move |inside| inside.kubernetes.feed.failed(node, cordoned))?;
                done = false;
            }
        }
        for pass in passes {
            let node = pass.node;
            if pass.at(&mut self.api).is_err() {
                self.visit(move |inside| inside.kubernetes.manifests.failed(node))?;
                done = false;
            }
        }
        Some(done)
    }

    /// Advances the nodes that drain themselves, in virtual time.
    fn drain(&mut self) -> Option<()> {
        let names = self.held.keys().cloned().collect();
        let now = self.nodes_clock.now();
        for name in self.drains.advance(now, &mut self.api, &names) {
            if let Some(node) = self.held.get(&name).copied() {
                self.visit(move |inside| inside.world.drained(inside.world.now(), node))?;
            }
        }
        Some(())
    }

    fn visit<T: Send + 'static>(
        &self,
        visit: impl FnOnce(&mut Inside) -> T + Send + 'static,
    ) -> Option<T> {
        self.api.wait(self.driver.visit(visit))
    }
}
