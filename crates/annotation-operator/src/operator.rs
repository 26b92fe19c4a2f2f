//! The annotation operator: puts the parts together and runs until it is stopped.

use std::sync::Arc;

use kube::Client;
use tokio::sync::watch;
use upgrade_controller::cluster::LiveSnapshots;
use upgrade_controller::connect::{Connector, LiveConnector};
use upgrade_controller::controller::{Controller, ControllerOptions};
use upgrade_controller::events::EventPublisher;
use upgrade_controller::needs::Needs;
use upgrade_controller::serve::{Parts, ServeError, Service, Settings};
use upgrade_controller::versions::Source;
use upgrade_core::policy::Policy;

use crate::front_end::Annotations;
use crate::machines::Machines;
use crate::needs::needs;
use crate::watch::Watch;

/// How the operator works.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the controller works.
    pub controller: ControllerOptions,
    /// The only namespace whose clusters are upgraded; all if there is none.
    pub watch_namespace: Option<String>,
    /// What the names of the clusters' Secrets begin with.
    pub secret_prefix: String,
    /// Where etcd snapshots go.
    pub snapshots: LiveSnapshots,
    /// How upgrades are done where annotations say nothing.
    pub policy: Policy,
}

/// The operator.
pub struct Operator<C: Connector = LiveConnector> {
    controller: Controller<Annotations, C>,
    client: Client,
    watch_namespace: Option<String>,
    needs: Needs,
    listed: watch::Sender<bool>,
}

impl Operator {
    /// Puts it together, for clusters that are reached over the network. No request is sent
    /// yet.
    pub fn new(parts: Parts, options: Options, reads_config_map: bool) -> Self {
        Self::with(LiveConnector, parts, options, reads_config_map)
    }
}

impl<C: Connector> Operator<C> {
    /// Puts it together. No request is sent yet.
    pub fn with(connector: C, parts: Parts, options: Options, reads_config_map: bool) -> Self {
        let Parts { client, catalogue, metrics } = parts;
        let Options { controller, watch_namespace, secret_prefix, snapshots, policy } = options;
        let namespace = controller.namespace.clone();
        let needs = needs(client.clone(), namespace, watch_namespace.clone(), reads_config_map);
        let front_end = Annotations {
            client: client.clone(),
            clock: controller.clock,
            secret_prefix,
            snapshots,
            machines: Arc::new(Machines::default()),
            policy,
            events: EventPublisher::new(client.clone(), &controller.identity),
            metrics: Arc::clone(&metrics),
        };
        let controller =
            Controller::with(connector, front_end, client.clone(), controller, catalogue, metrics);
        Self { controller, client, watch_namespace, needs, listed: watch::Sender::new(false) }
    }
}

impl<C: Connector> Service for Operator<C> {
    fn needs(&self) -> Needs {
        self.needs.clone()
    }

    fn ready(&self) -> watch::Receiver<bool> {
        self.listed.subscribe()
    }

    async fn run(self, stop: impl Future<Output = ()>) {
        let Self { controller, client, watch_namespace, needs: _, listed } = self;
        let watching = |fleet| async move {
            Watch::new(fleet, listed).run(client, watch_namespace.as_deref()).await;
        };
        controller.run(watching, stop).await;
    }
}

/// Works until `stop` returns.
pub async fn serve(
    settings: Settings,
    options: Options,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let reads_config_map = settings.sources.iter().any(|it| matches!(it, Source::ConfigMap { .. }));
    let operator = |parts| Operator::new(parts, options, reads_config_map);
    upgrade_controller::serve(settings, operator, stop).await
}
