//! The adapters of the engine over real sockets: against the simulator, and against a
//! real API server.

mod discovery;
mod drains;
mod hop;
mod kubernetes;
mod machines;
mod real;

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use talos_sim::cluster::{Cluster, Options as SimOptions};
use talos_sim::model::{Range, Timings};
use tempfile::TempDir;
use testkit::cluster::shape;
use upgrade_core::event::StepProgress;
use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::snapshot::TalosFacts;
use upgrade_engine::io::{Changes, Clock, Io as _, Machine, Machines as _, ProgressSink};
use upgrade_live::{Live, Options};

const TALOS_1_12: &str = "1.12.11";
const TALOS_1_13: &str = "1.13.9";
const TALOS_1_14: &str = "1.14.1";
const KUBERNETES: &str = "1.34.2";

/// How long anything may take that is expected to happen.
const SOON: Duration = Duration::from_mins(2);

/// A clock that does not move: only file names are made of it.
struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        "2026-01-02T03:04:05Z".parse().expect("a time")
    }

    async fn sleep(&self, span: SignedDuration) {
        tokio::time::sleep(span.unsigned_abs()).await;
    }
}

/// Keeps all messages.
#[derive(Default)]
struct RecordedProgress(Mutex<Vec<String>>);

impl ProgressSink for RecordedProgress {
    fn report(&self, progress: StepProgress) {
        self.0.lock().expect("no panic").push(progress.message);
    }
}

impl RecordedProgress {
    fn all(&self) -> Vec<String> {
        self.0.lock().expect("no panic").clone()
    }
}

/// A simulated cluster and its adapters.
struct World {
    cluster: Cluster,
    live: Live<Still>,
    folder: TempDir,
}

impl World {
    async fn start(talos: &str, control_planes: usize, workers: usize) -> Self {
        Self::with(talos, control_planes, workers, Vec::new()).await
    }

    async fn with(
        talos: &str,
        control_planes: usize,
        workers: usize,
        workloads: Vec<serde_json::Value>,
    ) -> Self {
        let options = simulated(talos, control_planes, workers);
        Self::launch(SimOptions { workloads, ..options }).await
    }

    async fn launch(options: SimOptions) -> Self {
        let cluster = testkit::cluster::start(options).await;
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("talosconfig"), cluster.talosconfig()).expect("written");
        let live = connect(folder.path(), None).await;
        Self { cluster, live, folder }
    }

    /// The machine of a name.
    async fn machine(&self, name: &str) -> Machine {
        let (_, machines) = self.live.machines().list().await.expect("machines");
        machines.into_iter().find(|machine| machine.name.0 == name).expect("a machine")
    }

    /// What a machine reports.
    async fn facts(&self, name: &str) -> TalosFacts {
        let machine = self.machine(name).await;
        self.live.machines().facts(&machine).await.expect("a machine that answers")
    }
}

/// A fast cluster, with longer downtimes than those of testkit: these tests watch what
/// happens in between.
fn simulated(talos: &str, control_planes: usize, workers: usize) -> SimOptions {
    let timings = Timings {
        pull: Range::secs(10, 20),
        install: Range::secs(5, 10),
        drain: Range::secs(5, 10),
        reboot: Range::secs(20, 30),
        rejoin: Range::secs(20, 30),
        ..Timings::default()
    };
    SimOptions {
        shape: Some(shape("east", control_planes, workers, talos, KUBERNETES)),
        speed: 50.0,
        timings,
        ..SimOptions::default()
    }
}

async fn connect(folder: &Path, kubeconfig: Option<&Path>) -> Live<Still> {
    let options = Options {
        talosconfig: Some(folder.join("talosconfig")),
        context: None,
        kubeconfig: kubeconfig.map(Path::to_owned),
        snapshots: folder.join("backups").into(),
    };
    Live::connect(&options, Still).await.expect("usable files")
}

/// Checks again at every change, until there is an answer.
async fn eventually<T, F: Future<Output = Option<T>>>(
    mut changes: Changes,
    what: &str,
    mut poll: impl FnMut() -> F,
) -> T {
    let polling = async {
        loop {
            changes.mark_unchanged();
            if let Some(found) = poll().await {
                return found;
            }
            // And now and then without one: some changes are not in the watches.
            let _ = tokio::time::timeout(Duration::from_secs(5), changes.changed()).await;
        }
    };
    tokio::time::timeout(SOON, polling).await.unwrap_or_else(|_| panic!("it never was so: {what}"))
}
