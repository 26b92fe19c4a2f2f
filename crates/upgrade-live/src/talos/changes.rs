//! Telling when a machine may have changed, through its reboots.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
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

/// A watch that ended for good is started again after this time: roles change, and
/// a node that was downgraded may know the type again.
const REST: Duration = Duration::from_secs(30);

/// How long a machine is still watched after its last subscriber is gone: the next
/// step of the same node follows at once.
const LINGER: Duration = Duration::from_secs(5);

/// One set of watches for each machine, as long as it has a subscriber: they share a
/// connection, and the number of streams on a connection is limited.
#[derive(Default)]
pub(super) struct Watches(Arc<Mutex<BTreeMap<String, Watched>>>);

struct Watched {
    sender: Arc<watch::Sender<u64>>,
    /// Ends with this.
    _tasks: JoinSet<()>,
}

impl Watches {
    /// The number of a machine. Starts to watch it if it is not watched yet.
    pub(super) fn of(&self, machine: &Machine, node: Option<Node>) -> Changes {
        let Some(node) = node else {
            // An address that is none: nothing will ever change there.
            return watch::channel(0).1;
        };
        self.hold(&machine.address, |tasks, sender| {
            follow(tasks, sender, &node, Node::watch::<MachineStatus>);
            follow(tasks, sender, &node, Node::watch::<BootId>);
            follow(tasks, sender, &node, Node::watch::<KubeletSpec>);
            follow(tasks, sender, &node, Node::watch_all::<ServiceStatus>);
            follow(tasks, sender, &node, Node::watch_all::<StaticPod>);
            follow(tasks, sender, &node, Node::watch_all::<StaticPodStatus>);
        })
    }

    fn hold(
        &self,
        address: &str,
        begin: impl FnOnce(&mut JoinSet<()>, &Arc<watch::Sender<u64>>),
    ) -> Changes {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watched) = all.get(address) {
            return watched.sender.subscribe();
        }
        let (sender, changes) = watch::channel(0);
        let sender = Arc::new(sender);
        let mut tasks = JoinSet::new();
        begin(&mut tasks, &sender);
        let (all_of_them, name) = (Arc::downgrade(&self.0), address.to_owned());
        tasks.spawn(let_go(all_of_them, name, Arc::clone(&sender)));
        all.insert(address.to_owned(), Watched { sender, _tasks: tasks });
        changes
    }
}

/// Ends the watches of a machine that has no subscriber any more.
async fn let_go(
    all: Weak<Mutex<BTreeMap<String, Watched>>>,
    address: String,
    sender: Arc<watch::Sender<u64>>,
) {
    loop {
        sender.closed().await;
        tokio::time::sleep(LINGER).await;
        let Some(all) = all.upgrade() else { return };
        // A new subscriber waits for this lock, and finds all watches or none.
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.is_closed() {
            all.remove(&address);
            return;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_machine_is_watched_as_long_as_it_has_a_subscriber() {
        let watches = Watches::default();
        let begun = Arc::new(());
        let hold = || {
            let mark = Arc::clone(&begun);
            watches.hold("10.0.0.1", |tasks, _| {
                tasks.spawn(async move {
                    std::future::pending::<()>().await;
                    drop(mark);
                });
            })
        };
        let under_way = || Arc::strong_count(&begun) - 1;
        let (first, second) = (hold(), hold());
        assert_eq!(under_way(), 1, "one set for both");
        drop(first);
        tokio::time::sleep(LINGER * 2).await;
        assert_eq!(under_way(), 1, "the second still listens");
        drop(second);
        tokio::time::sleep(LINGER / 2).await;
        let third = hold();
        tokio::time::sleep(LINGER * 2).await;
        assert_eq!(under_way(), 1, "a subscriber that comes soon finds it");
        drop(third);
        tokio::time::sleep(LINGER * 2).await;
        assert_eq!(under_way(), 0, "no subscriber is left");
        let _fourth = hold();
        assert_eq!(under_way(), 1, "and it starts again");
        drop(watches);
        tokio::task::yield_now().await;
        assert_eq!(under_way(), 0, "it ends with the client");
    }
}
