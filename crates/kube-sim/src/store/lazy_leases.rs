//! Brief stores, for short-lived worlds in memory: they skip writes that are never read and would
//! be most of the work.
//!
//! Leases are renewed all the time. Here a kubelet hands its lease over, and the store writes it
//! only before a read or when the kubelet stops; a reader finds what would have been written. A
//! node whose status has not changed is not reported again. Services have no endpoints. Ownership
//! of fields that kubelets and controllers write is not tracked.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Store, Write};
use crate::names::LEASES;
use crate::object;
use crate::time::Time;

/// The renewal interval of leases.
pub(crate) const RENEWAL: Duration = Duration::from_secs(10);

/// The namespace of node leases.
pub(crate) const NODE_LEASES: &str = "kube-node-lease";

/// The writers inside the cluster.
const OWN: [&str; 3] = ["kube-controller-manager", "kube-scheduler", "kubelet"];

/// The leases that kubelets have handed over.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct LazyLeases {
    /// Whether the store is brief.
    lazy: bool,
    /// By node: the last renewal that was written.
    written: BTreeMap<String, Time>,
}

impl Store {
    /// Makes the store brief: leases are written only when they are read, services have no
    /// endpoints, and `managedFields` do not track the writes of kubelets and controllers.
    pub fn write_lazily(&mut self) {
        self.lazy_leases.lazy = true;
    }

    /// Whether it is brief.
    pub(crate) fn is_lazy(&self) -> bool {
        self.lazy_leases.lazy
    }

    /// Whether the ownership of the written fields is tracked.
    pub(super) fn tracks(&self, write: &Write) -> bool {
        let own = || OWN.contains(&write.manager.as_str());
        !(write.applied || self.lazy_leases.lazy && own())
    }

    /// Takes over a lease that has just been written; `false` if the store is not brief.
    pub(crate) fn take_over_lease(&mut self, node: &str, written: Time) -> bool {
        if self.lazy_leases.lazy {
            self.lazy_leases.written.insert(node.to_owned(), written);
        } else {
            self.lazy_leases.written.remove(node);
        }
        self.lazy_leases.lazy
    }

    /// Whether a node's lease is renewed without being written.
    pub(crate) fn renews_lease(&self, node: &str) -> bool {
        self.lazy_leases.written.contains_key(node)
    }

    /// Ends the renewals of a stopped kubelet.
    pub(crate) fn end_lease(&mut self, node: &str) {
        self.write_lease(node);
        self.lazy_leases.written.remove(node);
    }

    /// Writes all handed-over leases as of now.
    pub(crate) fn write_leases(&mut self) {
        let nodes: Vec<String> = self.lazy_leases.written.keys().cloned().collect();
        for node in nodes {
            self.write_lease(&node);
        }
    }

    /// The time of the next renewal that a reader needs.
    pub(crate) fn next_renewal(&self) -> Option<Time> {
        self.lazy_leases.written.values().min().map(|written| written.plus(RENEWAL))
    }

    fn write_lease(&mut self, node: &str) {
        let Some(written) = self.lazy_leases.written.get_mut(node) else { return };
        let missed = self.now.since(*written).as_secs() / RENEWAL.as_secs();
        if missed == 0 {
            return;
        }
        *written = written.plus(RENEWAL * u32::try_from(missed).unwrap_or(u32::MAX));
        let time = written.to_micro_text();
        // The kubelet recreates a deleted lease itself.
        let _ = self.modify(&Write::by("kubelet"), &LEASES, NODE_LEASES, node, |lease| {
            object::set(lease, &["spec", "renewTime"], time);
        });
    }
}
