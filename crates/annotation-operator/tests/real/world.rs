//! Operators that run in this process, in the namespace of one test.

use std::ops::Deref;
use std::time::Duration;

use annotation_operator::{Options, serve};
use serde_json::Value;
use testkit::{Hub, PATIENCE, Tenant};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use upgrade_controller::Settings;
use upgrade_controller::clock::Clock;
use upgrade_controller::controller::ControllerOptions;
use upgrade_controller::hub_config::HubOptions;
use upgrade_core::catalogue::Catalogue;
use upgrade_core::matrix::Matrix;
use upgrade_core::policy::{Order, Policy};

use crate::sabotage::Sabotage;

/// A namespace of a hub, and the operators that watch it.
pub(crate) struct World {
    tenant: Tenant,
}

/// An operator in this process, on its own threads.
pub(crate) struct Running {
    runtime: Option<Runtime>,
    stop: Option<oneshot::Sender<()>>,
    ended: oneshot::Receiver<()>,
}

impl Running {
    /// Stops it as a pod is stopped: it releases its leases.
    pub(crate) async fn stop(mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        let ended = tokio::time::timeout(PATIENCE, &mut self.ended).await;
        ended.expect("it ends").expect("it ends well");
    }

    /// Stops it as a power cut does: all its tasks are gone at once.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Deref for World {
    type Target = Tenant;

    fn deref(&self) -> &Tenant {
        &self.tenant
    }
}

impl World {
    /// A namespace of the shared hub, for a test of this name.
    pub(crate) async fn start(name: &str) -> Self {
        Self::on(&Hub::shared().await, name).await
    }

    /// A namespace of this hub.
    pub(crate) async fn on(hub: &Hub, name: &str) -> Self {
        let logs = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
        let logs = logs.with_filter(LevelFilter::INFO);
        let all = tracing_subscriber::registry().with(logs).with(Sabotage::layer());
        // With plain `cargo test` another test of this process has done it already.
        let _ = all.try_init();
        Self { tenant: hub.tenant(name).await }
    }

    /// How an operator is started here: it watches this namespace only, and its
    /// leases are there too.
    pub(crate) fn settings(&self, identity: &str) -> (Settings, Options) {
        let settings = Settings {
            hub: HubOptions::file(self.account()),
            listen: None,
            sources: Vec::new(),
            catalogue: catalogue(),
        };
        let options = Options {
            controller: ControllerOptions {
                identity: identity.to_owned(),
                namespace: self.namespace.clone(),
                probe_interval: Duration::from_secs(5),
                lease: upgrade_controller::lease::DURATION,
                matrix: Matrix::builtin(),
                clock: Clock::SYSTEM,
            },
            watch_namespace: Some(self.namespace.clone()),
            secret_prefix: String::new(),
            snapshots: self.file("snapshots").into(),
            policy: Policy { order: Order::WorkersFirst, ..Policy::default() },
        };
        (settings, options)
    }

    /// Starts an operator in this process.
    pub(crate) fn operator(&self, identity: &str) -> Running {
        operator_with(self.settings(identity))
    }
}

/// Starts an operator in this process with these settings.
pub(crate) fn operator_with((settings, options): (Settings, Options)) -> Running {
    let (stop, stopped) = oneshot::channel::<()>();
    let (tell, ended) = oneshot::channel::<()>();
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(2).enable_all().build().expect("threads");
    runtime.spawn(async move {
        let stop = async {
            let _ = stopped.await;
        };
        serve(settings, options, stop).await.expect("it begins");
        let _ = tell.send(());
    });
    Running { runtime: Some(runtime), stop: Some(stop), ended }
}

/// A node in the status of a run.
pub(crate) fn node_of<'a>(run: &'a Value, name: &str) -> &'a Value {
    let nodes = run["status"]["nodes"].as_array();
    let found = nodes.and_then(|nodes| nodes.iter().find(|node| node["name"] == name));
    found.unwrap_or_else(|| panic!("no {name} in {run:#}"))
}

/// The reason of a condition of a cluster; empty if it has no such condition.
pub(crate) fn reason<'a>(cluster: &'a Value, condition: &str) -> &'a str {
    let conditions = cluster["status"]["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|it| it["type"] == condition));
    found.and_then(|it| it["reason"].as_str()).unwrap_or_default()
}

/// A few releases, so that new ones do not change the tests.
fn catalogue() -> Catalogue {
    let versions = |texts: &[&str]| texts.iter().map(|text| text.parse().expect("one")).collect();
    Catalogue {
        talos: versions(&["1.11.6", "1.12.11", "1.13.9", "1.14.1"]),
        kubernetes: versions(&["1.33.4", "1.34.2", "1.34.3", "1.35.0", "1.36.3"]),
        broken: Vec::new(),
    }
}
