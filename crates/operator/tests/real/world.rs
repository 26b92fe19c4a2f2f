//! A hub (a real API server with its controllers), simulated clusters beside
//! it, and operators that watch them.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use real_control_plane::{ControlPlane, Options as PlaneOptions, Tools};
use serde_json::{Value, json};
use talos_sim::cluster::{Cluster, Options as SimOptions, Shape};
use talos_sim::model::{Range, Timings};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, oneshot};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use upgrade_core::catalogue::Catalogue;
use upgrade_core::matrix::Matrix;
use upgrade_core::policy::{Order, Policy};
use upgrade_core::version::Version;
use upgrade_operator::{Options, Settings, serve};

use crate::sabotage::Sabotage;

/// Nothing here takes this long on a machine that does not stand still.
pub(crate) const PATIENCE: Duration = Duration::from_mins(10);

/// How often something is looked at that is waited for.
const TICK: Duration = Duration::from_millis(300);

/// The tests of this process work side by side, but for one that needs all of
/// the machine.
static TURNS: RwLock<()> = RwLock::const_new(());

/// Whose turn it is; it ends when this is dropped.
enum Turn {
    Shared { _turn: RwLockReadGuard<'static, ()> },
    Alone { _turn: RwLockWriteGuard<'static, ()> },
}

/// A hub and what is around it.
pub(crate) struct World {
    plane: Arc<Mutex<Option<ControlPlane>>>,
    folder: TempDir,
    _turn: Turn,
}

/// An operator in this process, on threads of its own.
pub(crate) struct Running {
    runtime: Option<Runtime>,
    stop: Option<oneshot::Sender<()>>,
    ended: oneshot::Receiver<()>,
}

impl Running {
    /// Ends it as a pod's end does; it hands over.
    pub(crate) async fn stop(mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        let ended = tokio::time::timeout(PATIENCE, &mut self.ended).await;
        ended.expect("it ends").expect("it ends well");
    }

    /// Ends it as a power cut does: every task of it is gone at once.
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

impl World {
    /// Starts a hub that knows our kinds.
    pub(crate) async fn start() -> Self {
        Self::start_in(Turn::Shared { _turn: TURNS.read().await }).await
    }

    /// The same, while no other test of this process works.
    pub(crate) async fn start_alone() -> Self {
        Self::start_in(Turn::Alone { _turn: TURNS.write().await }).await
    }

    async fn start_in(turn: Turn) -> Self {
        let logs = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
        let logs = logs.with_filter(LevelFilter::INFO);
        let all = tracing_subscriber::registry().with(logs).with(Sabotage::layer());
        // A second test in one process has it already.
        let _ = all.try_init();
        let folder = tempfile::tempdir().expect("a folder");
        let hub = folder.path().canonicalize().expect("a path").join("hub");
        let plane = tokio::task::spawn_blocking(move || {
            ControlPlane::start(PlaneOptions::new(&hub, Tools::find().expect("the tools")))
        });
        let plane = plane.await.expect("no panic").expect("a control plane");
        let world = Self { plane: Arc::new(Mutex::new(Some(plane))), folder, _turn: turn };
        world.kubectl_wrapper();
        // Everything that is shipped but the pods, whose place this process takes.
        for part in ["00-namespace", "10-crds", "20-rbac", "30-admission"] {
            let path = format!("{}/../../deploy/{part}.yaml", env!("CARGO_MANIFEST_DIR"));
            world.shell(&format!("kubectl apply --server-side -f {path}")).await;
        }
        world.shell("kubectl wait --for=condition=Established crd --all --timeout=300s").await;
        world.act_as_the_account().await;
        world
    }

    /// Operators come in as the account that is shipped, with its rights alone.
    async fn act_as_the_account(&self) {
        let token = "kubectl create token talos-operator -n vitistack-system --duration 2h";
        let token = self.shell(token).await;
        let plane = self.plane.lock().expect("no panic");
        let plane = plane.as_ref().expect("it runs");
        let admin = plane.token().expect("a token");
        let kubeconfig = plane.kubeconfig().expect("a kubeconfig");
        assert!(kubeconfig.contains(&admin), "a kubeconfig with a token");
        let own = kubeconfig.replace(&admin, &token);
        std::fs::write(self.file("kubeconfig"), own).expect("written");
    }

    /// The path of a file of this test.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A `kubectl` for scripts: the seed's commands are run as they are written.
    fn kubectl_wrapper(&self) {
        use std::os::unix::fs::PermissionsExt as _;
        let plane = self.plane.lock().expect("no panic");
        let command = plane.as_ref().expect("it runs").kubectl();
        let quoted = |text: &std::ffi::OsStr| format!("'{}'", text.to_string_lossy());
        let mut script = "#!/bin/sh\n".to_owned();
        for (key, value) in command.get_envs() {
            if let Some(value) = value {
                let _ = writeln!(script, "export {}={}", key.to_string_lossy(), quoted(value));
            }
        }
        let arguments: Vec<_> = command.get_args().map(quoted).collect();
        let program = quoted(command.get_program());
        let _ = writeln!(script, "exec {program} {} \"$@\"", arguments.join(" "));
        let path = self.file("kubectl");
        std::fs::write(&path, script).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("set");
    }

    /// The real kubectl, pointed at this hub as its administrator.
    pub(crate) fn kubectl(&self) -> Command {
        Command::new(self.file("kubectl"))
    }

    /// Runs a script with `kubectl` in its path.
    pub(crate) async fn try_shell(&self, script: &str) -> Output {
        let folder = self.folder.path().to_owned();
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display());
        let script = script.to_owned();
        let ran = tokio::task::spawn_blocking(move || {
            Command::new("/bin/sh").arg("-ec").arg(script).env("PATH", path).output()
        });
        ran.await.expect("no panic").expect("a shell")
    }

    /// The same, and it has to end well. What it printed comes back.
    pub(crate) async fn shell(&self, script: &str) -> String {
        let output = self.try_shell(script).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "{script}\n{}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout).trim().to_owned()
    }

    /// Applies YAML or JSON.
    pub(crate) async fn apply(&self, text: &str) {
        let path = tempfile::NamedTempFile::new_in(self.folder.path()).expect("a file");
        std::fs::write(path.path(), text).expect("written");
        self.shell(&format!("kubectl apply --server-side -f {}", path.path().display())).await;
    }

    /// An object as JSON.
    pub(crate) async fn get(&self, what: &str) -> Value {
        let text = self.shell(&format!("kubectl get {what} -o json")).await;
        serde_json::from_str(&text).expect("JSON")
    }

    /// Waits until something holds of an object.
    pub(crate) async fn until(
        &self,
        what: &str,
        why: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let begun = tokio::time::Instant::now();
        loop {
            let found = self.get(what).await;
            if holds(&found) {
                return found;
            }
            assert!(begun.elapsed() < PATIENCE, "{what}: never {why}: {found:#}");
            tokio::time::sleep(TICK).await;
        }
    }

    /// Sets annotations; `key-` takes one away.
    pub(crate) async fn annotate(&self, name: &str, annotations: &[&str]) {
        let all: Vec<String> =
            annotations.iter().map(|it| format!("'upgrade.vitistack.io/{it}'")).collect();
        let all = all.join(" ");
        self.shell(&format!("kubectl annotate --overwrite kubernetescluster {name} {all}")).await;
    }

    /// Waits for an annotation's value.
    pub(crate) async fn annotated(&self, name: &str, key: &str, value: &str) -> Value {
        let what = format!("kubernetescluster {name}");
        self.until(&what, &format!("{key}={value}"), |it| annotation(it, key) == value).await
    }

    /// The newest run of a cluster, if there is one.
    pub(crate) async fn run_of(&self, name: &str) -> Option<Value> {
        let selector = format!("upgraderuns -l upgrade.vitistack.io/cluster={name}");
        let listed = self.shell(&format!("kubectl get {selector} -o json")).await;
        let listed: Value = serde_json::from_str(&listed).expect("JSON");
        let mut runs = listed["items"].as_array().cloned().unwrap_or_default();
        runs.sort_by_key(|run| run["metadata"]["name"].as_str().map(ToOwned::to_owned));
        runs.pop()
    }

    /// Makes the objects of a simulated cluster.
    pub(crate) async fn register(&self, name: &str, cluster: &Cluster) {
        self.keys(name, cluster.talosconfig(), cluster.kubeconfig()).await;
        self.apply(&kubernetes_cluster(name).to_string()).await;
    }

    /// Writes a cluster's Secret.
    pub(crate) async fn keys(&self, name: &str, talosconfig: &str, kubeconfig: &str) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": "default"},
            "stringData": {"talosconfig": talosconfig, "kube.config": kubeconfig},
        });
        self.apply(&secret.to_string()).await;
    }

    /// The way to the hub that an operator takes.
    pub(crate) async fn client(&self) -> kube::Client {
        let kubeconfig = Kubeconfig::read_from(self.file("kubeconfig")).expect("a kubeconfig");
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
        kube::Client::try_from(config.expect("a configuration")).expect("a client")
    }

    /// How an operator is started here.
    pub(crate) fn settings(&self, identity: &str) -> Settings {
        Settings {
            kubeconfig: Some(self.file("kubeconfig")),
            listen: None,
            sources: Vec::new(),
            catalogue: catalogue(),
            options: Options {
                identity: identity.to_owned(),
                namespace: "vitistack-system".to_owned(),
                secret_prefix: String::new(),
                snapshots: self.file("snapshots"),
                look_every: Duration::from_secs(5),
                lease: upgrade_operator::lease::DURATION,
                policy: Policy { order: Order::WorkersFirst, ..Policy::default() },
                matrix: Matrix::builtin(),
            },
        }
    }

    /// Starts an operator in this process.
    pub(crate) fn operator(&self, identity: &str) -> Running {
        self.operator_with(self.settings(identity))
    }

    /// The same, started in another way.
    #[expect(clippy::unused_self, reason = "an operator has no place outside of its world")]
    pub(crate) fn operator_with(&self, settings: Settings) -> Running {
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, ended) = oneshot::channel::<()>();
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.worker_threads(2).enable_all().build().expect("threads");
        runtime.spawn(async move {
            let stop = async {
                let _ = stopped.await;
            };
            serve(settings, stop).await.expect("it begins");
            let _ = tell.send(());
        });
        Running { runtime: Some(runtime), stop: Some(stop), ended }
    }

    /// Restarts the hub's API server.
    pub(crate) async fn restart_api_server(&self) {
        let plane = Arc::clone(&self.plane);
        let restarted = tokio::task::spawn_blocking(move || {
            plane.lock().expect("no panic").as_mut().expect("it runs").restart_apiserver()
        });
        restarted.await.expect("no panic").expect("it comes back");
    }

    /// Stops the hub.
    pub(crate) async fn stop(self) {
        let plane = self.plane.lock().expect("no panic").take();
        if let Some(plane) = plane {
            let stopped = tokio::task::spawn_blocking(|| plane.stop());
            stopped.await.expect("no panic").expect("it stops");
        }
    }
}

/// Few releases, so that tests do not change with the world's.
fn catalogue() -> Catalogue {
    let versions = |texts: &[&str]| texts.iter().map(|text| text.parse().expect("one")).collect();
    Catalogue {
        talos: versions(&["1.11.6", "1.12.11", "1.12.12", "1.13.9", "1.14.1"]),
        kubernetes: versions(&["1.33.4", "1.34.2", "1.34.3", "1.35.0", "1.36.3"]),
        broken: Vec::new(),
    }
}

/// An annotation of an object.
pub(crate) fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    object["metadata"]["annotations"][format!("upgrade.vitistack.io/{name}")]
        .as_str()
        .unwrap_or_default()
}

/// A cluster's object, with everything that the schema demands.
pub(crate) fn kubernetes_cluster(name: &str) -> Value {
    let pool = json!({
        "name": "wp", "replicas": 2, "version": "1.34.2", "provider": "kubevirt",
        "machineClass": "m", "taint": [], "storage": [],
        "metadata": {"labels": {}, "annotations": {}},
        "autoscaling": {"enabled": false, "minReplicas": 1, "maxReplicas": 5, "scalingRules": []},
    });
    json!({
        "apiVersion": "vitistack.io/v1alpha1", "kind": "KubernetesCluster",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "data": {
                "clusterUid": name, "clusterId": name, "provider": "talos", "datacenter": "d",
                "region": "r", "zone": "z", "project": "p", "workspace": "w", "workorder": "o",
                "environment": "dev", "networkNamespaceName": "nn",
            },
            "topology": {
                "version": "1.34.2",
                "controlplane": {
                    "replicas": 3, "version": "1.34.2", "provider": "kubevirt",
                    "machineClass": "small", "metadata": {"labels": {}, "annotations": {}},
                    "storage": [{"class": "s", "path": "/p", "size": "20Gi"}],
                },
                "workers": {"nodePools": [pool]},
            },
        },
    })
}

/// A simulated cluster that is fast, and small.
pub(crate) async fn simulated(
    name: &str,
    workers: usize,
    talos: &str,
    kubernetes: &str,
) -> Cluster {
    let version = |text: &str| text.parse::<Version>().expect("a version");
    let options = SimOptions {
        shape: Some(Shape {
            name: name.to_owned(),
            control_planes: 3,
            workers,
            talos: version(talos),
            kubernetes: version(kubernetes),
            seed: 1,
        }),
        speed: 20.0,
        timings: Timings {
            pull: Range::secs(1, 3),
            install: Range::secs(1, 3),
            drain: Range::secs(1, 3),
            reboot: Range::secs(10, 20),
            rejoin: Range::secs(4, 8),
            static_pod: Range::secs(1, 2),
            kubelet: Range::secs(1, 2),
            ..Timings::default()
        },
        ..SimOptions::default()
    };
    Cluster::start(options).await.expect("the cluster starts")
}
