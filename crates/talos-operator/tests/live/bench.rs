//! A simulated cluster, a profile for it, and the program as a user runs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use talos_sim::cluster::{Cluster, Machines, Options, Shape};
use talos_sim::model::{Range, Timings};
use tempfile::TempDir;
use testkit::{PATIENCE, Printed, now};
use tokio::runtime::Runtime;

/// Short, because no one watches.
fn timings() -> Timings {
    Timings {
        pull: Range::secs(1, 2),
        install: Range::secs(1, 2),
        drain: Range::secs(1, 2),
        reboot: Range::secs(4, 8),
        rejoin: Range::secs(2, 4),
        stop: Range::secs(1, 2),
        election: Range::millis(500, 1_000),
        static_pod: Range::secs(1, 2),
        kubelet: Range::secs(1, 2),
    }
}

/// A profile with comments to keep, and deadlines that fit a fast cluster on a
/// slow machine.
pub(crate) const PROFILE: &str = "\
# the cluster of the tests
name: test          # a comment that stays
talosconfig: ./talosconfig
talos:
  version: \"TALOS\"   # what runs
  kubernetes_version: 'KUBERNETES'
policy:
  retries: {attempts: 2, backoff: 1s}
  drain: {timeout: 60s}
  snapshot: {dir: ./backups, keep: 2}
  timeouts: {pull: 60s, install: 60s, call: 60s, reboot: 60s, verify: 90s, snapshot: 60s, component: 90s, manifests: 90s, gate: 60s}
";

pub(crate) struct Bench {
    runtime: Runtime,
    cluster: Option<Cluster>,
    folder: TempDir,
    shape: Shape,
}

/// The events of `-o json`.
pub(crate) fn events(printed: &Printed) -> Vec<Value> {
    let line = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    printed.stdout.lines().map(line).collect()
}

impl Bench {
    pub(crate) fn start(
        control_planes: usize,
        workers: usize,
        talos: &str,
        kubernetes: &str,
    ) -> Self {
        Self::with(control_planes, workers, talos, kubernetes, "")
    }

    /// A cluster of other machines than usual.
    pub(crate) fn of_machines(machines: Machines, talos: &str) -> Self {
        Self::build((3, 1), talos, "1.34.2", "", |options| options.machines = machines)
    }

    /// A cluster whose nodes have addresses in a storage network as well.
    pub(crate) fn in_storage_network(talos: &str) -> Self {
        Self::build((3, 1), talos, "1.34.2", "", |options| options.storage_network = true)
    }

    /// A cluster with workloads of its own.
    pub(crate) fn with(
        control_planes: usize,
        workers: usize,
        talos: &str,
        kubernetes: &str,
        workloads: &str,
    ) -> Self {
        let size = (control_planes, workers);
        Self::build(size, talos, kubernetes, workloads, |_| ())
    }

    fn build(
        (control_planes, workers): (usize, usize),
        talos: &str,
        kubernetes: &str,
        workloads: &str,
        adapt: impl FnOnce(&mut Options),
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let shape = testkit::cluster::shape("test", control_planes, workers, talos, kubernetes);
        let folder = tempfile::tempdir().expect("a folder");
        let mut options = Options {
            timings: timings(),
            workloads: talos_sim::kubernetes::read_workloads(workloads).expect("workloads"),
            ..testkit::cluster::options(shape.clone())
        };
        adapt(&mut options);
        let cluster = runtime.block_on(testkit::cluster::start(options));
        let bench = Self { runtime, cluster: Some(cluster), folder, shape };
        fs::write(bench.path("talosconfig"), bench.cluster().talosconfig()).expect("written");
        fs::write(bench.path("kubeconfig"), bench.cluster().kubeconfig()).expect("written");
        let profile = PROFILE.replace("TALOS", talos).replace("KUBERNETES", kubernetes);
        fs::write(bench.path("test.yaml"), profile).expect("written");
        bench
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        self.cluster.as_ref().expect("it runs")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        let path = self.path(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Changes the profile.
    pub(crate) fn edit(&self, old: &str, new: &str) {
        let text = self.read("test.yaml");
        assert!(text.contains(old), "no `{old}` in {text}");
        fs::write(self.path("test.yaml"), text.replace(old, new)).expect("written");
    }

    pub(crate) fn inject(&self, node: &str, fault: &str) {
        self.runtime.block_on(self.cluster().inject(node, fault)).expect("a fault");
    }

    pub(crate) fn clear(&self, node: &str, fault: &str) {
        self.runtime.block_on(self.cluster().clear(node, fault)).expect("cleared");
    }

    /// The Talos of every node, by its name.
    pub(crate) fn talos(&self) -> Vec<String> {
        let nodes = self.shape.control_planes + self.shape.workers;
        let visited = self.cluster().driver().visit(move |inside| {
            let version = |node| inside.world.talos_version(talos_sim::model::NodeIndex(node));
            (0..nodes).map(|node| version(node).expect("a version").to_string()).collect()
        });
        self.runtime.block_on(visited).expect("it runs")
    }

    /// The boot of every node, by its name.
    pub(crate) fn boots(&self) -> Vec<String> {
        let nodes = self.shape.control_planes + self.shape.workers;
        let visited = self.cluster().driver().visit(move |inside| {
            let node = |node| inside.world.kubernetes(talos_sim::model::NodeIndex(node));
            (0..nodes).map(|index| node(index).expect("a node").boot_id).collect()
        });
        self.runtime.block_on(visited).expect("it runs")
    }

    /// Gives a node a label.
    pub(crate) fn label(&self, node: &str, label: &'static str, value: &'static str) {
        let node = node.to_owned();
        let visited = self.cluster().driver().visit(move |inside| {
            let write = kube_sim::Write::by("tester");
            let store = inside.kubernetes.api_mut().store_mut();
            let labelled = store.modify(&write, &kube_sim::names::NODES, "", &node, |object| {
                kube_sim::object::set(object, &["metadata", "labels", label], value);
            });
            labelled.map(drop)
        });
        self.runtime.block_on(visited).expect("it runs").expect("there is such a node");
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_talos-operator"));
        command.args(line.split_whitespace());
        self.as_the_user(command)
    }

    /// A program as the user of this cluster runs it.
    pub(crate) fn as_the_user(&self, mut command: Command) -> Command {
        command
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path())
            .env_remove("XDG_STATE_HOME")
            .env_remove("TALOSCONFIG")
            .env_remove("CLICOLOR_FORCE")
            .env("USER", "tester")
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, line: &str) -> Printed {
        self.spawn(line).finish()
    }

    /// Starts a command.
    pub(crate) fn spawn(&self, line: &str) -> Running {
        let mut command = self.command(line);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("the binary runs");
        Running { child: Some(child), line: line.to_owned() }
    }

    /// The entries of the journal that are there now.
    pub(crate) fn journal(&self) -> Vec<Value> {
        let path = self.path("test.state/run.jsonl");
        let text = fs::read_to_string(path).unwrap_or_default();
        // The last line may be half written.
        text.lines().skip(1).filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Waits until the journal has an entry that fits.
    pub(crate) fn wait_for(&self, what: &str, fits: impl Fn(&Value) -> bool) {
        let began = now();
        while !self.journal().iter().any(&fits) {
            assert!(began.elapsed() < PATIENCE, "no {what} in {:#?}", self.journal());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Some(cluster) = self.cluster.take() {
            self.runtime.block_on(cluster.stop());
        }
    }
}

/// A command under way. Dropping it kills it.
pub(crate) struct Running {
    child: Option<Child>,
    line: String,
}

impl Running {
    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([format!("-{name}"), self.id().to_string()])
            .status()
            .expect("kill runs");
        assert!(status.success());
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.as_mut().expect("it ran").try_wait().expect("it ran").is_some()
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Printed {
        let child = self.child.take().expect("it runs");
        let (id, line) = (child.id(), self.line.clone());
        // A process that hangs is killed, so that the test fails and does not hang.
        let (tell, heard) = std::sync::mpsc::channel::<()>();
        let watch = std::thread::spawn(move || {
            if heard.recv_timeout(PATIENCE).is_err() {
                let _ = Command::new("kill").args(["-KILL", &id.to_string()]).status();
                return Some(line);
            }
            None
        });
        let output = child.wait_with_output().expect("it ends");
        let _ = tell.send(());
        for stream in [&output.stdout, &output.stderr] {
            assert!(std::str::from_utf8(stream).is_ok(), "`{}` prints no text", self.line);
        }
        let printed = Printed::from(output);
        if let Some(line) = watch.join().expect("it watched") {
            panic!("`{line}` took too long: {printed:#?}");
        }
        printed
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A step of the journal: `started 1/worker-1/upgrade`.
pub(crate) fn step<'a>(record: &'a str, step: &'a str) -> impl Fn(&Value) -> bool + 'a {
    move |entry| {
        entry["record"] == record && entry["step"].as_str().is_some_and(|id| id.ends_with(step))
    }
}

/// Whether a folder has something in it.
pub(crate) fn has_files(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut files| files.next().is_some())
}
