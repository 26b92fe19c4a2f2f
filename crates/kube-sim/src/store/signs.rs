//! Brief stores: those of worlds that live shortly and in memory, where what
//! nobody reads would be most of the work.
//!
//! Leases are renewed again and again. Here a kubelet hands its lease over, and it
//! is written only when somebody is about to read it, or when the kubelet stops.
//! Who looks finds what would have been written. A node whose status is what it was
//! is not reported again. Services have no endpoints. And who owns which of the
//! fields that kubelets and controllers write is not kept track of.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Store, Write};
use crate::names::LEASES;
use crate::object;
use crate::time::Time;

/// How often a lease is renewed.
pub(crate) const RENEWAL: Duration = Duration::from_secs(10);

/// Where the leases of nodes are.
pub(crate) const NODE_LEASES: &str = "kube-node-lease";

/// Those who live in the cluster itself.
const OWN: [&str; 3] = ["kube-controller-manager", "kube-scheduler", "kubelet"];

/// The leases that have been handed over.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Signs {
    /// Whether any are: whether the store is brief.
    lazy: bool,
    /// By node: the renewal that was written last.
    written: BTreeMap<String, Time>,
}

impl Store {
    /// From now on leases are written only for those who read them, services have
    /// no endpoints, and `managedFields` tell nothing of what kubelets and
    /// controllers write.
    pub fn be_brief(&mut self) {
        self.signs.lazy = true;
    }

    /// Whether it is brief.
    pub(crate) fn is_brief(&self) -> bool {
        self.signs.lazy
    }

    /// Whether it is kept track of who owns the fields that are written.
    pub(super) fn tracks(&self, write: &Write) -> bool {
        let own = || OWN.contains(&write.manager.as_str());
        !(write.applied || self.signs.lazy && own())
    }

    /// Takes over a lease that has just been written; `false` if it is not
    /// wanted.
    pub(crate) fn take_over_lease(&mut self, node: &str, written: Time) -> bool {
        if self.signs.lazy {
            self.signs.written.insert(node.to_owned(), written);
        } else {
            self.signs.written.remove(node);
        }
        self.signs.lazy
    }

    /// Whether a node's lease is renewed without being written.
    pub(crate) fn renews_lease(&self, node: &str) -> bool {
        self.signs.written.contains_key(node)
    }

    /// The kubelet does not renew its lease any more.
    pub(crate) fn end_lease(&mut self, node: &str) {
        self.write_lease(node);
        self.signs.written.remove(node);
    }

    /// Writes all leases as they should be by now.
    pub(crate) fn write_leases(&mut self) {
        let nodes: Vec<String> = self.signs.written.keys().cloned().collect();
        for node in nodes {
            self.write_lease(&node);
        }
    }

    /// When the next renewal is due that somebody wants to read.
    pub(crate) fn next_renewal(&self) -> Option<Time> {
        self.signs.written.values().min().map(|written| written.plus(RENEWAL))
    }

    fn write_lease(&mut self, node: &str) {
        let Some(written) = self.signs.written.get_mut(node) else { return };
        let missed = self.now.since(*written).as_secs() / RENEWAL.as_secs();
        if missed == 0 {
            return;
        }
        *written = written.plus(RENEWAL * u32::try_from(missed).unwrap_or(u32::MAX));
        let time = written.to_micro_text();
        // One that was deleted is made anew by its kubelet.
        let _ = self.modify(&Write::by("kubelet"), &LEASES, NODE_LEASES, node, |lease| {
            object::set(lease, &["spec", "renewTime"], time);
        });
    }
}
