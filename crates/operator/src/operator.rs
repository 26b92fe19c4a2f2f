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
use crate::controller::Controller;
use crate::http::Metrics;
use crate::members::{self, Membership};
use crate::news::News;
use crate::pulse::Pulse;
use crate::task::Shared;

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
    pub look_every: Duration,
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
    controller: Controller,
    membership: Membership,
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
            look_every,
            lease,
            policy,
            matrix,
        } = options.clone();
        // A restart within a microsecond, as the same process, is not to be had.
        let process = format!("{:x}-{:x}", clock::now().as_microsecond(), std::process::id());
        let pulse = Arc::new(Pulse::new(process, lease));
        let (membership, members) =
            Membership::new(client.clone(), &namespace, &identity, Arc::clone(&pulse));
        let shared = Arc::new(Shared {
            client: client.clone(),
            news: News::new(client.clone(), &identity),
            identity,
            namespace,
            pulse,
            connector: Connector {
                client: client.clone(),
                secret_prefix,
                snapshots,
                machines: Machines::default(),
                pace: Arc::default(),
            },
            policy,
            matrix,
            catalogue,
            metrics,
            members,
            ending,
            glances: Semaphore::new(GLANCES),
            looks: Semaphore::new(LOOKS),
            writes: Arc::default(),
            rush: Arc::default(),
            lists: Semaphore::new(LISTS),
            look_every,
        });
        let (controller, ready) = Controller::new(shared, watch_namespace);
        Self { client, options, controller, membership, ready, end }
    }

    /// True once the clusters are known.
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.ready.clone()
    }

    /// Works until `stop` comes back, then hands everything over.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self { client, options, controller, membership, ready: _, end } = self;
        let beating = tokio::spawn(membership.beat());
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
                    members::leave(client, &options.namespace, &options.identity),
                );
            }
        }
    }
}
