//! Telling when a machine may have changed, through its reboots.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use talos_client::cosi::Spec;
use talos_client::resources::{
    BootId, KubeletSpec, MachineStatus, ServiceStatus, StaticPod, StaticPodStatus,
};
use talos_client::watch::Watch;
use talos_client::{Failure, Node};
use tokio::sync::watch;
use tokio::task::JoinSet;
use upgrade_engine::io::{Changes, Machine};

/// A watch that ended for good is begun anew after this: roles change, and a
/// node that was downgraded may know the type again.
const REST: Duration = Duration::from_secs(30);

/// One set of watches a machine, for as long as this lives.
#[derive(Default)]
pub(super) struct Watches(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    of: BTreeMap<String, Changes>,
    /// Ends with this.
    tasks: JoinSet<()>,
}

impl Watches {
    /// The number of a machine; begins to watch it if nobody did.
    pub(super) fn of(&self, machine: &Machine, node: Option<Node>) -> Changes {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Inner { of, tasks } = &mut *inner;
        if let Some(changes) = of.get(&machine.address) {
            return changes.clone();
        }
        let (sender, changes) = watch::channel(0);
        of.insert(machine.address.clone(), changes.clone());
        let Some(node) = node else {
            // An address that is none: nothing will ever change there.
            return changes;
        };
        let sender = Arc::new(sender);
        follow(tasks, &sender, &node, Node::watch::<MachineStatus>);
        follow(tasks, &sender, &node, Node::watch::<BootId>);
        follow(tasks, &sender, &node, Node::watch::<KubeletSpec>);
        follow(tasks, &sender, &node, Node::watch_all::<ServiceStatus>);
        follow(tasks, &sender, &node, Node::watch_all::<StaticPod>);
        follow(tasks, &sender, &node, Node::watch_all::<StaticPodStatus>);
        changes
    }
}

/// Follows one kind for ever. A connection that breaks, and one that comes back,
/// are changes too: that is how a reboot looks from here.
fn follow<T: Spec>(
    tasks: &mut JoinSet<()>,
    sender: &Arc<watch::Sender<u64>>,
    node: &Node,
    begin: fn(&Node) -> Watch<T>,
) {
    let (sender, node) = (Arc::clone(sender), node.clone());
    tasks.spawn(async move {
        let mut watch = begin(&node);
        loop {
            match watch.next().await {
                Ok(_) => sender.send_modify(|number| *number += 1),
                Err(error) => {
                    // A version without this kind says so every time, and that
                    // is no news; after an upgrade it may have it.
                    if !matches!(error.failure(), Failure::NotSupported(_)) {
                        tracing::debug!(%error, "a watch ended");
                        sender.send_modify(|number| *number += 1);
                    }
                    tokio::time::sleep(REST).await;
                    watch = begin(&node);
                }
            }
        }
    });
}
