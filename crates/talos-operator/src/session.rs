//! A connection to a cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use upgrade_core::jiff::Timestamp;
use upgrade_core::observation::Observation;
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::{NodeName, Snapshot};
use upgrade_engine::clock::SystemClock;
use upgrade_engine::io::{Clock as _, Io as _, IoError};
use upgrade_live::{ConnectError, Live, Options};

use crate::cluster_config::ClusterConfig;
use crate::error::CommandError;

/// A connected cluster and its configuration.
pub struct Session {
    /// The configuration.
    pub config: ClusterConfig,
    /// The cluster.
    pub live: Arc<Live<SystemClock>>,
    /// Kubernetes nodes that are not Talos machines.
    foreign: BTreeSet<NodeName>,
    /// The node label that names the pool of a worker.
    pool_label: String,
}

impl Session {
    /// Reads talosconfig and kubeconfig. No request is sent yet.
    pub async fn open(config: ClusterConfig, policy: &Policy) -> Result<Self, CommandError> {
        let options = Options {
            talosconfig: config.talosconfig().map(ToOwned::to_owned),
            context: config.args.context.clone(),
            kubeconfig: config.kubeconfig().map(ToOwned::to_owned),
            snapshots: config.snapshots(policy),
        };
        let live = Live::connect(&options, SystemClock::new()).await.map_err(|error| {
            let next = match &error {
                ConnectError::Kubeconfig(_) => {
                    "name another file with --kubeconfig, or leave it out: Talos has one"
                }
                _ => "name another file with --talosconfig, or another context with --context",
            };
            CommandError::caused_by(&error, next)
        })?;
        Ok(Self {
            config,
            live: Arc::new(live),
            foreign: policy.foreign_nodes.clone(),
            pool_label: policy.workers.pool_label.clone(),
        })
    }

    /// Observes machines, etcd and nodes once.
    pub async fn snapshot(&self) -> Result<Snapshot, CommandError> {
        // Boxed: it asks many at once, and is large.
        Box::pin(upgrade_engine::observe(&*self.live, &self.pool_label)).await.map_err(not_observed)
    }

    /// Observes all facts that a plan needs.
    pub async fn observe(&self) -> Result<Observation, CommandError> {
        upgrade_engine::observe_whole(&*self.live, &self.foreign, &self.pool_label)
            .await
            .map_err(not_observed)
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        self.live.clock().now()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what an error is mapped with")]
fn not_observed(error: IoError) -> CommandError {
    CommandError::refused(
        format!("cannot observe the cluster: {error}"),
        "check that this machine reaches the endpoints of the talosconfig",
    )
}
