//! A real API server with everything that is shipped, and a simulated cluster.

use std::io::BufReader;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use real_control_plane::{ControlPlane, Options, Tools};
use serde_json::{Value, json};
use talos_sim::cluster::{Cluster, Options as SimOptions, Shape};
use talos_sim::model::{NodeTruth, Range, Timings};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The shipped manifests.
pub(crate) const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");

/// A cluster's object, as the tests of the manifests have it.
const OBJECT: &str = include_str!("../../../api/tests/deploy/cluster.yaml");

/// Nothing here takes this long on a machine that does not stand still.
const PATIENCE: Duration = Duration::from_mins(10);

pub(crate) struct Hub {
    plane: ControlPlane,
    runtime: Runtime,
    folder: TempDir,
}

/// What a watch of the runs brings.
pub(crate) struct Runs {
    child: Child,
    told: mpsc::Receiver<Value>,
}

impl Runs {
    /// The next state of a run.
    pub(crate) fn next(&self) -> Value {
        self.told.recv_timeout(PATIENCE).expect("something becomes of the run")
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A simulated cluster of the hub.
pub(crate) struct Member<'a> {
    cluster: Option<Cluster>,
    hub: &'a Hub,
}

impl Hub {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().canonicalize().expect("a path").join("hub");
        let tools = Tools::find().expect("the tools");
        let plane = ControlPlane::start(Options::new(home, tools)).expect("a control plane");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let hub = Self { plane, runtime, folder };
        for part in ["00-namespace", "10-crds", "20-rbac", "30-admission"] {
            hub.kubectl(&["apply", "--server-side", "-f", &format!("{DEPLOY}/{part}.yaml")]);
        }
        hub.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=300s"]);
        // The shipped account, and nobody else.
        let token = hub.kubectl(&["create", "token", "talos-operator", "-n", "vitistack-system"]);
        let admin = hub.plane.token().expect("a token");
        let kubeconfig = hub.plane.kubeconfig().expect("a kubeconfig");
        let account = kubeconfig.replace(&admin, token.trim());
        std::fs::write(hub.file("account"), account).expect("written");
        hub
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// stdout of a kubectl that must succeed.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self
            .plane
            .kubectl()
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .expect("kubectl starts");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {}: {told}", arguments.join(" "));
        String::from_utf8(output.stdout).expect("text")
    }

    /// Everything that becomes of the runs, from now on.
    pub(crate) fn watch_runs(&self) -> Runs {
        let mut child = self
            .plane
            .kubectl()
            .args(["get", "upgraderuns", "--watch", "-o", "json"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("kubectl starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let objects = serde_json::Deserializer::from_reader(stdout).into_iter::<Value>();
            // Half an object is what is left when kubectl is ended.
            for object in objects.map_while(Result::ok) {
                if tell.send(object).is_err() {
                    break;
                }
            }
        });
        Runs { child, told }
    }

    /// Applies a text.
    fn apply(&self, name: &str, text: &str) {
        let path = self.file(name);
        std::fs::write(&path, text).expect("written");
        self.kubectl(&["apply", "--server-side", "-f", &path.display().to_string()]);
    }

    /// Waits until something holds of an object or a list.
    pub(crate) fn until(&self, what: &str, why: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let began = now();
        loop {
            let text = self.kubectl(&["get", what, "-o", "json"]);
            let found: Value = serde_json::from_str(&text).expect("JSON");
            if holds(&found) {
                return found;
            }
            if began.elapsed() >= PATIENCE {
                let runs =
                    self.kubectl(&["get", "upgraderuns", "-o", "jsonpath={.items[*].status}"]);
                panic!("{what} never was {why}: {found:#}\n{runs}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A cluster of three control planes and a worker, known to the hub.
    pub(crate) fn cluster(&self, name: &str, talos: &str, kubernetes: &str) -> Member<'_> {
        let options = SimOptions {
            shape: Some(Shape {
                name: name.to_owned(),
                control_planes: 3,
                workers: 1,
                talos: talos.parse().expect("a version"),
                kubernetes: kubernetes.parse().expect("a version"),
                seed: 1,
            }),
            speed: 20.0,
            timings: Timings {
                pull: Range::secs(1, 2),
                install: Range::secs(1, 2),
                drain: Range::secs(1, 2),
                reboot: Range::secs(4, 8),
                rejoin: Range::secs(2, 4),
                ..Timings::default()
            },
            ..SimOptions::default()
        };
        let cluster = self.runtime.block_on(Cluster::start(options)).expect("a cluster");
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "c1", "namespace": "default"},
            "stringData": {
                "talosconfig": cluster.talosconfig(), "kube.config": cluster.kubeconfig(),
            },
        });
        self.apply("secret.json", &secret.to_string());
        self.apply("cluster.yaml", &OBJECT.replace("my-cluster", name));
        Member { cluster: Some(cluster), hub: self }
    }
}

impl Member<'_> {
    /// How often each node went down, as it counted itself.
    pub(crate) fn downs(&self) -> Vec<u64> {
        let driver = self.cluster.as_ref().expect("it runs").driver();
        let visited = driver
            .visit(|inside| inside.world.truths().map(|node| NodeTruth::downs(&node)).collect());
        self.hub.runtime.block_on(visited).expect("it runs")
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        if let Some(cluster) = self.cluster.take() {
            self.hub.runtime.block_on(cluster.stop());
        }
    }
}

/// An annotation of an object.
pub(crate) fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    object["metadata"]["annotations"][format!("upgrade.vitistack.io/{name}")]
        .as_str()
        .unwrap_or_default()
}

/// Asks until there is an answer.
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let began = now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "it never was so: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[expect(clippy::disallowed_methods, reason = "a test waits in real time")]
fn now() -> Instant {
    Instant::now()
}
