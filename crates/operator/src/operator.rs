//! The whole operator: puts the parts together and runs until it is told to end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::{Semaphore, watch};
use upgrade_core::catalogue::Catalogue;
use upgrade_core::matrix::Matrix;
use upgrade_core::policy::Policy;

use crate::clock;
use crate::connect::{Connector, Machines};
use crate::events::EventPublisher;
use crate::fleet::Fleet;
use crate::heartbeat::Heartbeat;
use crate::http::Metrics;
use crate::reconciler::Context;
use crate::shard::{self, Registration};

/// How many clusters without a target are looked at together: a look costs
/// connections to every node, and is in no hurry.
const GLANCES: usize = 32;

/// How many with a target: somebody waits, and most of the time is the
/// clusters' own.
const LOOKS: usize = 256;

/// How many list runs together.
const LISTS: usize = 8;

/// How the operator works.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who this process is among its replicas: the name of its pod.
    pub identity: String,
    /// Where the Leases of the replicas are.
    pub namespace: String,
    /// The only namespace whose clusters are upgraded; all of them if there is none.
    pub watch_namespace: Option<String>,
    /// What the names of the clusters' Secrets begin with.
    pub secret_prefix: String,
    /// Where etcd snapshots go.
    pub snapshots: PathBuf,
    /// How often a cluster is looked at that nobody wants anything of.
    pub probe_interval: Duration,
    /// How long a replica that fell silent keeps what it drives, in whole
    /// seconds; [`crate::lease::DURATION`] if nobody says otherwise.
    pub lease: Duration,
    /// How upgrades are done where annotations say nothing.
    pub policy: Policy,
    /// What Talos supports.
    pub matrix: Matrix,
}

/// The operator.
pub struct Operator {
    client: Client,
    options: Options,
    controller: Fleet,
    registration: Registration,
    ready: watch::Receiver<bool>,
    end: watch::Sender<bool>,
}

impl Operator {
    /// Puts it together. Nothing is asked yet.
    pub fn new(
        client: Client,
        options: Options,
        catalogue: watch::Receiver<Arc<Catalogue>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (end, ending) = watch::channel(false);
        let Options {
            identity,
            namespace,
            watch_namespace,
            secret_prefix,
            snapshots,
            probe_interval,
            lease,
            policy,
            matrix,
        } = options.clone();
        // A restart within a microsecond, as the same process, is not to be had.
        let process = format!("{:x}-{:x}", clock::now().as_microsecond(), std::process::id());
        let heartbeat = Arc::new(Heartbeat::new(process, lease));
        let (registration, replicas) =
            Registration::new(client.clone(), &namespace, &identity, Arc::clone(&heartbeat));
        let shared = Arc::new(Context {
            client: client.clone(),
            events: EventPublisher::new(client.clone(), &identity),
            identity,
            namespace,
            heartbeat,
            connector: Connector {
                client: client.clone(),
                secret_prefix,
                snapshots,
                machines: Machines::default(),
                limiter: Arc::default(),
            },
            policy,
            matrix,
            catalogue,
            metrics,
            replicas,
            ending,
            glances: Semaphore::new(GLANCES),
            looks: Semaphore::new(LOOKS),
            writes: Arc::default(),
            start_gate: Arc::default(),
            lists: Semaphore::new(LISTS),
            probe_interval,
        });
        let (controller, ready) = Fleet::new(shared, watch_namespace);
        Self { client, options, controller, registration, ready, end }
    }

    /// True once the clusters are known.
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.ready.clone()
    }

    /// Works until `stop` comes back, then hands everything over.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self { client, options, controller, registration, ready: _, end } = self;
        let beating = tokio::spawn(registration.beat());
        let controlling = controller.run(client.clone());
        tokio::pin!(controlling);
        tokio::select! {
            () = &mut controlling => {}
            () = stop => {
                tracing::info!("handing over");
                end.send_replace(true);
                beating.abort();
                // The others take over while we let go.
                tokio::join!(
                    controlling,
                    shard::leave(client, &options.namespace, &options.identity),
                );
            }
        }
    }
}
