//! One replica: the shipped operator, from its watch to the engine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use annotation_operator::{Operator, Options};
use simulation_tests::network::NetworkConditions;
use simulation_tests::world::process_io::Process;
use tokio::sync::watch;
use upgrade_controller::clock::Clock;
use upgrade_controller::controller::ControllerOptions;
use upgrade_controller::{Parts, Service as _};
use upgrade_core::catalogue::Catalogue;
use upgrade_core::matrix::Matrix;

use crate::cluster::WorldConnector;
use crate::hub::NAMESPACE;
use crate::link::Link;
use crate::play::Simulation;

/// How often an idle cluster is probed.
const PROBE: Duration = Duration::from_mins(5);

/// One replica.
pub(crate) struct Replica {
    /// Its name.
    pub(crate) name: String,
    /// Its process.
    pub(crate) process: Arc<Process>,
    link: Arc<Link>,
    stop: watch::Sender<bool>,
}

impl Replica {
    /// Starts it.
    pub(crate) fn start(simulation: &Arc<Simulation>, name: String) -> Self {
        let process = Process::new(simulation.judge.number(), &simulation.crashes);
        let link = Link::new(&simulation.hub, &simulation.judge, &process, simulation.random());
        let client = link.client();
        let (stop, mut stopped) = watch::channel(false);
        // Nothing changes the catalogue, so its sender may go.
        let (_, catalogue) = watch::channel(Arc::new(Catalogue::builtin()));
        let parts = Parts { client, catalogue, metrics: Arc::default() };
        let options = Options {
            controller: ControllerOptions {
                identity: name.clone(),
                namespace: NAMESPACE.to_owned(),
                probe_interval: PROBE,
                lease: upgrade_controller::lease::DURATION,
                matrix: Matrix::builtin(),
                clock: Clock::of_runtime(*simulation.shared.clock()),
            },
            watch_namespace: Some(NAMESPACE.to_owned()),
            secret_prefix: String::new(),
            snapshots: PathBuf::from("/snapshots").into(),
            policy: simulation.scenario.cluster.policy.clone(),
        };
        let connector = WorldConnector {
            hub: Arc::clone(&simulation.hub),
            shared: Arc::clone(&simulation.shared),
            process: Arc::clone(&process),
        };
        let operator = Operator::with(connector, parts, options, false);
        let (running, simulation) = (Arc::clone(&process), Arc::clone(simulation));
        tokio::spawn(async move {
            let stopped = async move {
                let _ = stopped.wait_for(|stop| *stop).await;
            };
            tokio::select! {
                biased;
                // A killed process does nothing more: it does not even release its leases.
                () = running.died.notified() => simulation.judge.died(&running),
                () = operator.run(stopped) => {}
            }
        });
        Self { name, process, link, stop }
    }

    /// Stops it as Kubernetes does when it deletes its pod.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Changes the quality of its connection to the hub.
    pub(crate) fn network(&self, conditions: NetworkConditions) {
        self.link.set(conditions);
    }
}
