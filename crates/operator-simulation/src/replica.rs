//! One replica: the shipped operator, from its watch to the engine.

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

use crate::hub::NAMESPACE;
use crate::link::Link;
use crate::live::WorldConnector;
use crate::play::Stage;

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
    pub(crate) fn start(stage: &Arc<Stage>, name: String) -> Self {
        let process = Process::new(stage.judge.number(), &stage.crashes);
        let link = Link::new(&stage.hub, &stage.judge, &process, stage.random());
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
                clock: Clock::of_runtime(*stage.shared.clock()),
            },
            watch_namespace: Some(NAMESPACE.to_owned()),
            secret_prefix: String::new(),
            snapshots: std::path::PathBuf::from("/snapshots").into(),
            policy: stage.scenario.cluster.policy.clone(),
        };
        let connector =
            WorldConnector { shared: Arc::clone(&stage.shared), process: Arc::clone(&process) };
        let operator = Operator::with(connector, parts, options, false);
        let (running, stage) = (Arc::clone(&process), Arc::clone(stage));
        tokio::spawn(async move {
            let stopped = async move {
                let _ = stopped.wait_for(|stop| *stop).await;
            };
            tokio::select! {
                biased;
                // Nothing of a dead process runs on: not even what hands its leases over.
                () = running.died.notified() => stage.judge.died(&running),
                () = operator.run(stopped) => {}
            }
        });
        Self { name, process, link, stop }
    }

    /// Lets it stop as it does when its pod is deleted.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// How good its connection to the hub is from now on.
    pub(crate) fn network(&self, conditions: NetworkConditions) {
        self.link.set(conditions);
    }
}
