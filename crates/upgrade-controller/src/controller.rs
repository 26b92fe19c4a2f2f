//! The controller of one front end in one process: its replicas, its reconcilers.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use upgrade_core::catalogue::Catalogue;
use upgrade_core::matrix::Matrix;

use crate::clock::Clock;
use crate::connect::{Connector, LiveConnector};
use crate::fleet::Fleet;
use crate::front_end::FrontEnd;
use crate::heartbeat::Heartbeat;
use crate::http::Metrics;
use crate::limits::Limits;
use crate::reconciler::Context;
use crate::shard::{self, Registration};

/// How the controller works.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// The name of this process among its replicas: that of its pod.
    pub identity: String,
    /// The namespace of the leases.
    pub namespace: String,
    /// How often an idle cluster is probed.
    pub probe_interval: Duration,
    /// How long a silent replica keeps the clusters that it drives, in whole seconds;
    /// usually [`crate::lease::DURATION`].
    pub lease: Duration,
    /// Which versions support each other.
    pub matrix: Matrix,
    /// The time.
    pub clock: Clock,
}

/// The controller.
pub struct Controller<F: FrontEnd, C: Connector = LiveConnector> {
    context: Arc<Context<F, C>>,
    registration: Registration,
    end: watch::Sender<bool>,
}

impl<F: FrontEnd> Controller<F> {
    /// Puts it together, for clusters that are reached over the network. No request is sent
    /// yet.
    pub fn new(
        front_end: F,
        client: Client,
        options: ControllerOptions,
        catalogue: watch::Receiver<Arc<Catalogue>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self::with(LiveConnector, front_end, client, options, catalogue, metrics)
    }
}

impl<F: FrontEnd, C: Connector> Controller<F, C> {
    /// Puts it together. No request is sent yet.
    pub fn with(
        connector: C,
        front_end: F,
        client: Client,
        options: ControllerOptions,
        catalogue: watch::Receiver<Arc<Catalogue>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (end, ending) = watch::channel(false);
        let ControllerOptions { identity, namespace, probe_interval, lease, matrix, clock } =
            options;
        let heartbeat = Arc::new(Heartbeat::new(process(clock), lease, clock));
        let (registration, replicas) =
            Registration::new(client.clone(), &namespace, &identity, Arc::clone(&heartbeat));
        let context = Arc::new(Context {
            front_end,
            connector,
            client,
            identity,
            namespace,
            heartbeat,
            matrix,
            clock,
            catalogue,
            replicas,
            ending,
            limits: Arc::new(Limits::default()),
            probe_interval,
            metrics,
        });
        Self { context, registration, end }
    }

    /// Works until `stop` returns, then hands everything over. `watch` feeds the reconcilers
    /// with objects until [`Context::ending`].
    pub async fn run<W: Future<Output = ()>>(
        self,
        watch: impl FnOnce(Fleet<F, C>) -> W,
        stop: impl Future<Output = ()>,
    ) {
        let Self { context, registration, end } = self;
        let heartbeat = tokio::spawn(registration.beat());
        let watching = watch(Fleet::new(Arc::clone(&context)));
        tokio::pin!(watching);
        tokio::select! {
            () = &mut watching => {}
            () = stop => {
                tracing::info!("handing over");
                end.send_replace(true);
                heartbeat.abort();
                // The others take over while this replica gives its leases back.
                let Context { client, namespace, identity, .. } = context.as_ref();
                tokio::join!(watching, shard::leave(client.clone(), namespace, identity));
            }
        }
    }
}

/// A name that no other process has, not even this one after a restart, since a restart
/// takes longer than a microsecond.
fn process(clock: Clock) -> String {
    format!("{:x}-{:x}", clock.now().as_microsecond(), std::process::id())
}
