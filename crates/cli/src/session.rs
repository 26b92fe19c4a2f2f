//! A cluster that is talked to.

use std::sync::Arc;

use upgrade_cluster::{ConnectError, Live, Options, workloads};
use upgrade_core::jiff::Timestamp;
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::{Fact, Snapshot};
use upgrade_core::workload::Workloads;
use upgrade_engine::clock::SystemClock;
use upgrade_engine::io::{Clock as _, Io as _};

use crate::failed::Failed;
use crate::place::Place;

/// A cluster, and where what is remembered of it lies.
pub struct Session {
    /// Where.
    pub place: Place,
    /// The cluster.
    pub live: Arc<Live<SystemClock>>,
}

/// What was seen of a cluster.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Machines, etcd and nodes.
    pub snapshot: Snapshot,
    /// What runs on them.
    pub workloads: Fact<Workloads>,
}

impl Session {
    /// Reads what says how to reach the cluster. Nothing is asked yet.
    pub async fn open(place: Place, policy: &Policy) -> Result<Self, Failed> {
        let options = Options {
            talosconfig: place.talosconfig().map(ToOwned::to_owned),
            context: place.args.context.clone(),
            kubeconfig: place.kubeconfig().map(ToOwned::to_owned),
            snapshots: place.snapshots(policy),
        };
        let live = Live::connect(&options, SystemClock::new()).await.map_err(|error| {
            let next = match &error {
                ConnectError::Kubeconfig(_) => {
                    "name another file with --kubeconfig, or leave it out: Talos has one"
                }
                _ => "name another file with --talosconfig, or another context with --context",
            };
            Failed::of(&error, next)
        })?;
        Ok(Self { place, live: Arc::new(live) })
    }

    /// Looks at the whole cluster once.
    pub async fn snapshot(&self) -> Result<Snapshot, Failed> {
        upgrade_engine::observe(&*self.live).await.map_err(|trouble| {
            Failed::refused(
                format!("the cluster cannot be seen: {trouble}"),
                "check that the endpoints of the talosconfig can be reached from here",
            )
        })
    }

    /// Looks at the whole cluster, and at what runs on it.
    pub async fn look(&self) -> Result<Seen, Failed> {
        let (snapshot, workloads) =
            tokio::join!(self.snapshot(), workloads(self.live.kubernetes()));
        Ok(Seen { snapshot: snapshot?, workloads })
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        self.live.clock().now()
    }
}
