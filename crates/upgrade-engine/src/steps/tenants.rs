//! Who had pods on a node before it was emptied, to see that they are placed
//! again once it is back.
//!
//! This is known only to the process that cordoned the node. One that takes the
//! run over later waits for nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use jiff::SignedDuration;
use upgrade_core::jiff;
use upgrade_core::reason::FailureKind;
use upgrade_core::snapshot::NodeName;
use upgrade_core::workload::Pod;

use super::Step;
use super::wait::{Look, Wait};
use crate::io::{Io, Kubernetes as _};

/// How long pods get to be placed. What is not placed then is told, and waits
/// for a place like any pod: other nodes may be away as well, as the policy
/// allows.
const PATIENCE: SignedDuration = SignedDuration::from_mins(1);

/// How many pods are named before they are counted.
const NAMED: usize = 3;

/// Namespace, kind and name of a controller.
type Owner = (String, String, String);

/// The controllers whose pods ran on each node.
#[derive(Debug, Default)]
pub(crate) struct Tenants(Mutex<BTreeMap<NodeName, BTreeSet<Owner>>>);

impl Tenants {
    /// Remembers who has pods on the step's node.
    pub(super) async fn remember<I: Io>(&self, step: &Step<I>, node: &NodeName) {
        // Without an answer nobody is waited for later.
        let pods = step.io.kubernetes().pods(Some(node)).await.unwrap_or_default();
        let owners = pods.iter().filter(|pod| pod.phase == "Running").filter_map(owner).collect();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(node.clone(), owners);
    }

    /// Waits until their pods have a place, or patience ends.
    pub(super) async fn settle<I: Io>(&self, step: &Step<I>, node: &NodeName) {
        let owners = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(node);
        let Some(owners) = owners.filter(|owners| !owners.is_empty()) else { return };
        let kubernetes = step.io.kubernetes();
        let wait = Wait::new(FailureKind::Deadline, "pods were not placed again")
            .on(kubernetes.changes())
            .until(step.now().saturating_add(PATIENCE).unwrap_or(step.deadline));
        let settled = wait.look(step, || async {
            let pods = match kubernetes.pods(None).await {
                Ok(pods) => pods,
                Err(trouble) => return Ok(Look::NotYet(trouble.to_string())),
            };
            let waits = |pod: &&Pod| {
                let placed = pod.node.is_some() || pod.deleting_since.is_some();
                !placed && owner(pod).is_some_and(|owner| owners.contains(&owner))
            };
            let waiting: Vec<String> =
                pods.iter().filter(waits).map(|pod| pod.name.to_string()).collect();
            Ok(match waiting.len() {
                0 => Look::Found(()),
                count => {
                    let named = waiting[..count.min(NAMED)].join(", ");
                    Look::NotYet(format!("{count} pods wait for a place: {named}"))
                }
            })
        });
        if let Err(failure) = settled.await {
            step.say(failure.to_string());
        }
    }
}

/// Whose pod it is, if it moves from node to node.
fn owner(pod: &Pod) -> Option<Owner> {
    let (kind, name) = pod.controller.as_ref()?;
    let stays = pod.mirror || kind == "DaemonSet" || kind == "Node";
    (!stays).then(|| (pod.name.namespace.clone(), kind.clone(), name.clone()))
}
