//! A cluster that is talked to.

use std::collections::BTreeSet;
use std::sync::Arc;

use upgrade_cluster::{ConnectError, Live, Options};
use upgrade_core::jiff::Timestamp;
use upgrade_core::observation::Observation;
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::{NodeName, Snapshot};
use upgrade_engine::clock::SystemClock;
use upgrade_engine::io::{Clock as _, Io as _, Trouble};

use crate::failed::Failed;
use crate::place::Place;

/// A cluster, and where what is remembered of it lies.
pub struct Session {
    /// Where.
    pub place: Place,
    /// The cluster.
    pub live: Arc<Live<SystemClock>>,
    /// Its nodes that are no machines of Talos.
    foreign: BTreeSet<NodeName>,
    /// The node label that names the pool of a worker.
    pool_label: String,
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
        Ok(Self {
            place,
            live: Arc::new(live),
            foreign: policy.foreign_nodes.clone(),
            pool_label: policy.workers.pool_label.clone(),
        })
    }

    /// Looks at machines, etcd and nodes once.
    pub async fn snapshot(&self) -> Result<Snapshot, Failed> {
        // Boxed: it asks many at once, and is large.
        Box::pin(upgrade_engine::observe(&*self.live, &self.pool_label)).await.map_err(unseen)
    }

    /// Looks at all that a plan needs.
    pub async fn look(&self) -> Result<Observation, Failed> {
        upgrade_engine::observe_whole(&*self.live, &self.foreign, &self.pool_label)
            .await
            .map_err(unseen)
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        self.live.clock().now()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what an error is mapped with")]
fn unseen(trouble: Trouble) -> Failed {
    Failed::refused(
        format!("the cluster cannot be seen: {trouble}"),
        "check that the endpoints of the talosconfig can be reached from here",
    )
}
