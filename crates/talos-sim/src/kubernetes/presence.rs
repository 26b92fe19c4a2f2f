//! Where the Kubernetes API is reachable.

use tokio::sync::watch;

use super::running;
use crate::driver::Presence;
use crate::model::{NodeIndex, NodeRole, World};

/// The index of the address that the control planes share.
pub(crate) const SHARED: usize = 0;

/// The index of a control plane's own address; they follow the [`SHARED`] one.
pub(crate) fn index_of(node: NodeIndex) -> usize {
    node.0 + 1
}

/// Which addresses are reachable, and which node holds the shared one.
#[derive(Debug)]
pub(crate) struct Presences {
    published: watch::Sender<Vec<Presence>>,
    current: Vec<Presence>,
    holder: Option<NodeIndex>,
}

impl Presences {
    pub(crate) fn new(published: watch::Sender<Vec<Presence>>) -> Self {
        Self { published, current: Vec::new(), holder: None }
    }

    /// The node that answers at the shared address.
    pub(crate) fn holder(&self) -> Option<NodeIndex> {
        self.holder
    }

    /// Publishes the current state if it has changed.
    pub(crate) fn publish(&mut self, world: &World) {
        let before = self.current.clone();
        let held = self.holder;
        self.holder = held.filter(|node| world.api_server_runs(*node));
        if self.holder.is_none() {
            self.holder = running(world).next();
        }
        self.current.resize(world.len() + 1, Presence::default());
        let here = &mut self.current[SHARED];
        here.reachable = self.holder.is_some();
        if held != self.holder {
            // Connections to the previous holder do not move to the next.
            here.epoch += 1;
        }
        for index in 0..world.len() {
            let node = NodeIndex(index);
            let here = &mut self.current[index_of(node)];
            let is_silent =
                world.is_silent(node) && world.spec().nodes[index].role == NodeRole::ControlPlane;
            let reachable = world.api_server_runs(node) || is_silent;
            here.epoch += u64::from(here.reachable && !reachable);
            here.reachable = reachable;
        }
        if before != self.current {
            self.published.send_replace(self.current.clone());
        }
    }
}
