//! What the reconcilers of all clusters share.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use upgrade_core::catalogue::Catalogue;
use upgrade_core::matrix::Matrix;

use crate::clock::Clock;
use crate::connect::{Connector, LiveConnector};
use crate::front_end::FrontEnd;
use crate::heartbeat::Heartbeat;
use crate::http::Metrics;
use crate::limits::Limits;
use crate::shard::Replicas;

/// What the reconcilers of all clusters share.
pub struct Context<F: FrontEnd, C: Connector = LiveConnector> {
    /// The front end.
    pub front_end: F,
    /// Connects to clusters.
    pub connector: C,
    /// The hub.
    pub client: kube::Client,
    /// The name of this replica.
    pub identity: String,
    /// The namespace of the leases.
    pub namespace: String,
    /// Our leases last as long as this (rule 9).
    pub heartbeat: Arc<Heartbeat>,
    /// Which versions support each other.
    pub matrix: Matrix,
    /// The time.
    pub clock: Clock,
    /// The known releases, which may change.
    pub catalogue: watch::Receiver<Arc<Catalogue>>,
    /// The replicas that share the clusters.
    pub replicas: watch::Receiver<Replicas>,
    /// True once the process ends.
    pub ending: watch::Receiver<bool>,
    /// Limits of all clusters together.
    pub limits: Arc<Limits>,
    /// How often an idle cluster is probed.
    pub probe_interval: Duration,
    /// Metrics.
    pub metrics: Arc<Metrics>,
}
