//! What the tasks of all clusters share, and what each is told of its own.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use upgrade_core::catalogue::Catalogue;
use upgrade_core::matrix::Matrix;
use upgrade_core::policy::Policy;
use upgrade_core::product::{PerProduct, Product};
use vitistack_api::KubernetesCluster;

use crate::connect::Connector;
use crate::events::EventPublisher;
use crate::heartbeat::Heartbeat;
use crate::http::Metrics;
use crate::limiter::Limiter;
use crate::shard::Replicas;
use crate::start_gate::StartGate;

/// What all tasks share.
pub struct Context {
    /// The API server of the platform.
    pub client: kube::Client,
    /// Who we are.
    pub identity: String,
    /// Where Leases are.
    pub namespace: String,
    /// What they last as long as.
    pub heartbeat: Arc<Heartbeat>,
    /// The way to clusters.
    pub connector: Connector,
    /// What a user's annotations change.
    pub policy: Policy,
    /// What Talos supports.
    pub matrix: Matrix,
    /// What was released, which may change.
    pub catalogue: watch::Receiver<Arc<Catalogue>>,
    /// Who shares the clusters.
    pub replicas: watch::Receiver<Replicas>,
    /// True once everything is to end.
    pub ending: watch::Receiver<bool>,
    /// How many clusters without a target are looked at together.
    pub glances: Semaphore,
    /// How many with one.
    pub looks: Semaphore,
    /// Who writes to the hub: a thousand that wake up at once would only wait for
    /// each other.
    pub writes: Arc<Limiter>,
    /// Who is beginning.
    pub start_gate: Arc<StartGate>,
    /// How many list runs together. A busy hub may read all runs of a namespace
    /// for a list of a few; that must not make it busier still.
    pub lists: Semaphore,
    /// How often a cluster is looked at that nobody wants anything of.
    pub probe_interval: Duration,
    /// Where Events go.
    pub events: EventPublisher,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// The newest state of an object, and how often each target was seen to be gone.
#[derive(Clone, Debug)]
pub struct Latest {
    /// The object.
    pub object: Arc<KubernetesCluster>,
    /// For each product.
    pub removals: PerProduct<u64>,
}

impl Latest {
    pub(super) fn removals(&self, product: Product) -> u64 {
        *self.removals.of(product)
    }
}

/// An object without what nobody here reads, of which there may be much.
pub fn trimmed(mut object: KubernetesCluster) -> KubernetesCluster {
    object.metadata.managed_fields = None;
    object.metadata.labels = None;
    if let Some(annotations) = &mut object.metadata.annotations {
        annotations.retain(|key, _| {
            key.starts_with(vitistack_api::annotation::PREFIX)
                || vitistack_api::annotation::DO_NOT_RECONCILE.contains(&key.as_str())
        });
    }
    if let Some(state) = object.status.as_mut().and_then(|status| status.state.as_mut()) {
        // Only whether it is there counts.
        *state = serde_json::Value::Bool(true);
    }
    object
}
