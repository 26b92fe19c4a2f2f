//! Which controllers had pods on a node before it was drained, to wait until their pods are
//! scheduled again once the node is back.
//!
//! Only the process that cordoned the node knows this. One that takes the run over later does not
//! wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use jiff::SignedDuration;
use upgrade_core::jiff;
use upgrade_core::reason::FailureKind;
use upgrade_core::snapshot::NodeName;
use upgrade_core::workload::Pod;

use super::Step;
use super::wait::{Probe, Wait};
use crate::io::{Io, Kubernetes as _};

/// How long pods may take to be scheduled. Those that are not scheduled by then are reported and
/// stay pending: other nodes may be unavailable as well, as the policy allows.
const PATIENCE: SignedDuration = SignedDuration::from_mins(1);

/// How many pods are named; the others are counted.
const NAMED: usize = 3;

/// Namespace, kind and name of a controller.
type Owner = (String, String, String);

/// The controllers whose pods ran on each node.
#[derive(Debug, Default)]
pub(crate) struct EvictedOwners(Mutex<BTreeMap<NodeName, BTreeSet<Owner>>>);

impl EvictedOwners {
    /// Remembers which controllers have pods on the node.
    pub(super) async fn remember<I: Io>(&self, step: &Step<I>, node: &NodeName) {
        // Without an answer nothing is waited for later.
        let pods = step.io.kubernetes().pods(Some(node)).await.unwrap_or_default();
        let owners = pods.iter().filter(|pod| pod.phase == "Running").filter_map(owner).collect();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(node.clone(), owners);
    }

    /// Waits until their pods are scheduled, or the time is over.
    pub(super) async fn settle<I: Io>(&self, step: &Step<I>, node: &NodeName) {
        let owners = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(node);
        let Some(owners) = owners.filter(|owners| !owners.is_empty()) else { return };
        let kubernetes = step.io.kubernetes();
        let wait = Wait::new(FailureKind::Deadline, "pods were not scheduled again")
            .on(kubernetes.changes())
            .until(step.now().saturating_add(PATIENCE).unwrap_or(step.deadline));
        let settled = wait.poll(step, || async {
            let pods = match kubernetes.pods(None).await {
                Ok(pods) => pods,
                Err(error) => return Ok(Probe::NotYet(error.to_string())),
            };
            let waits = |pod: &&Pod| {
                let placed = pod.node.is_some() || pod.deleting_since.is_some();
                !placed && owner(pod).is_some_and(|owner| owners.contains(&owner))
            };
            let waiting: Vec<String> =
                pods.iter().filter(waits).map(|pod| pod.name.to_string()).collect();
            Ok(match waiting.len() {
                0 => Probe::Found(()),
                count => {
                    let named = waiting[..count.min(NAMED)].join(", ");
                    Probe::NotYet(format!("{count} pods are not scheduled yet: {named}"))
                }
            })
        });
        if let Err(failure) = settled.await {
            step.report_text(failure.to_string());
        }
    }
}

/// The controller of a pod, if its pods move from node to node.
fn owner(pod: &Pod) -> Option<Owner> {
    let (kind, name) = pod.controller.as_ref()?;
    let stays = pod.mirror || kind == "DaemonSet" || kind == "Node";
    (!stays).then(|| (pod.name.namespace.clone(), kind.clone(), name.clone()))
}
