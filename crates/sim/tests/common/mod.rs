//! A simulated cluster and the real tools that are pointed at it.

#![allow(dead_code, reason = "each test binary uses its part of this")]

pub(crate) mod kubectl;
pub(crate) mod raw;
pub(crate) mod real;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use talos_sim::cluster::{Cluster, Options, Shape};
use talos_sim::model::{Range, Timings};
use talos_sim::pki::Identity;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use upgrade_core::version::Version;

/// No command of these tests takes this long; one that does has failed.
pub(crate) const PATIENCE: Duration = Duration::from_mins(8);

/// How fast time passes. A talosctl that follows a reboot looks away for a
/// second when it begins and asks only for what is new after that, so a node
/// has to be down for longer than a second of real time: for two, since the
/// second of a busy machine is longer.
pub(crate) const SPEED: f64 = 20.0;

/// Short where nobody has to notice, and see [`SPEED`] for the rest.
pub(crate) fn timings() -> Timings {
    Timings {
        pull: Range::secs(1, 3),
        install: Range::secs(1, 3),
        drain: Range::secs(1, 3),
        reboot: Range::secs(44, 50),
        rejoin: Range::secs(8, 12),
        static_pod: Range::secs(1, 2),
        kubelet: Range::secs(1, 2),
        ..Timings::default()
    }
}

/// The version of the nodes in each release line.
pub(crate) const NODES: [Version; 3] =
    [Version::new(1, 12, 11), Version::new(1, 13, 9), Version::new(1, 14, 1)];

pub(crate) const KUBERNETES: Version = Version::new(1, 34, 2);

/// A cluster that runs, and its talosconfigs.
pub(crate) struct Bench {
    pub(crate) cluster: Cluster,
    pub(crate) folder: TempDir,
    /// The real control plane that its nodes register with, if there is one.
    /// Dropped after the cluster.
    pub(crate) plane: Option<real::Plane>,
}

impl Bench {
    pub(crate) async fn start(talos: &Version, workers: usize) -> Self {
        Self::with(Options {
            shape: Some(Shape {
                talos: talos.clone(),
                kubernetes: KUBERNETES,
                workers,
                ..Shape::default()
            }),
            speed: SPEED,
            timings: timings(),
            ..Options::default()
        })
        .await
    }

    pub(crate) async fn with(options: Options) -> Self {
        let cluster = Cluster::start(options).await.expect("the cluster starts");
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("talosconfig"), cluster.talosconfig()).expect("written");
        std::fs::write(folder.path().join("kubeconfig"), cluster.kubeconfig()).expect("written");
        Self { cluster, folder, plane: None }
    }

    /// What `--nodes` takes for a node, by its name.
    pub(crate) fn node(&self, hostname: &str) -> String {
        let nodes = self.cluster.nodes();
        let node = nodes.iter().find(|node| node.hostname == hostname);
        node.expect("a node of that name").address.to_string()
    }

    /// A file with a talosconfig of somebody else.
    pub(crate) fn talosconfig(&self, name: &str, identity: &Identity) -> PathBuf {
        let text = self.cluster.talosconfig_for(identity).expect("a talosconfig");
        self.file(name, &text)
    }

    /// A file in the test's folder.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    }

    /// A talosctl that uses this cluster's talosconfig.
    pub(crate) fn talosctl(&self, line: &str) -> Talosctl<'_> {
        Talosctl { path: tool(&format!("talosctl-{line}")), line: line.to_owned(), bench: self }
    }

    /// One of each release line.
    pub(crate) fn each_talosctl(&self) -> Vec<Talosctl<'_>> {
        ["1.12", "1.13", "1.14"].map(|line| self.talosctl(line)).into()
    }
}

/// A real talosctl.
pub(crate) struct Talosctl<'a> {
    path: PathBuf,
    pub(crate) line: String,
    bench: &'a Bench,
}

/// What a command printed.
#[derive(Debug)]
pub(crate) struct Printed {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Talosctl<'_> {
    fn command(&self, line: &str) -> Command {
        let folder = self.bench.folder.path();
        let mut command = Command::new(&self.path);
        command
            .args(line.split_whitespace())
            .env("HOME", folder)
            .env("TALOSCONFIG", folder.join("talosconfig"))
            .current_dir(folder)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Runs a command to its end.
    pub(crate) async fn run(&self, line: &str) -> Printed {
        let output = tokio::time::timeout(PATIENCE, self.command(line).output()).await;
        let output = output.unwrap_or_else(|_| panic!("talosctl {} {line}: too slow", self.line));
        let output = output.expect("talosctl runs");
        Printed {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs a command that works, and gives what it printed.
    pub(crate) async fn ok(&self, line: &str) -> String {
        let printed = self.run(line).await;
        assert_eq!(printed.code, Some(0), "talosctl {} {line}: {printed:#?}", self.line);
        printed.stdout
    }

    /// Runs a command that works, and checks that its output has all of these.
    pub(crate) async fn says(&self, line: &str, wanted: &[&str]) {
        let printed = self.run(line).await;
        assert_eq!(printed.code, Some(0), "talosctl {} {line}: {printed:#?}", self.line);
        for wanted in wanted {
            let found = printed.stdout.contains(wanted) || printed.stderr.contains(wanted);
            assert!(found, "talosctl {} {line}: no `{wanted}` in {printed:#?}", self.line);
        }
    }

    /// Runs a command that fails, and checks that it says all of these.
    pub(crate) async fn fails(&self, line: &str, wanted: &[&str]) {
        let printed = self.run(line).await;
        assert_ne!(printed.code, Some(0), "talosctl {} {line}: {printed:#?}", self.line);
        for wanted in wanted {
            let found = printed.stdout.contains(wanted) || printed.stderr.contains(wanted);
            assert!(found, "talosctl {} {line}: no `{wanted}` in {printed:#?}", self.line);
        }
    }

    /// The resources that `get ... -o json` prints.
    pub(crate) async fn get(&self, what: &str) -> Vec<Value> {
        let text = self.ok(&format!("get {what} -o json")).await;
        let values = serde_json::Deserializer::from_str(&text).into_iter();
        values.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{what}: {error}: {text}"))
    }

    /// Runs a command that goes on for ever, until it has printed this.
    pub(crate) async fn until(&self, line: &str, wanted: &str) {
        let mut child = self.command(line).stdout(Stdio::piped()).spawn().expect("talosctl runs");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut seen = Vec::new();
        let reading = async {
            while let Some(line) = lines.next_line().await.expect("text") {
                let found = line.contains(wanted);
                seen.push(line);
                if found {
                    return true;
                }
            }
            false
        };
        let found = tokio::time::timeout(PATIENCE, reading).await.unwrap_or(false);
        let _ = child.kill().await;
        assert!(found, "talosctl {} {line}: no `{wanted}` in {seen:#?}", self.line);
    }

    /// The version that a node runs; `None` if it does not answer.
    pub(crate) async fn version_of(&self, node: &str) -> Option<String> {
        let printed = self.run(&format!("-n {node} version --short")).await;
        let server = printed.stdout.split("Server:").nth(1)?.to_owned();
        let tag = server.lines().find_map(|line| line.trim().strip_prefix("Tag:"))?;
        Some(tag.trim().to_owned())
    }

    /// Changes with every boot; `None` if the node does not answer.
    pub(crate) async fn boot_id(&self, node: &str) -> Option<String> {
        let printed = self.run(&format!("-n {node} read /proc/sys/kernel/random/boot_id")).await;
        (printed.code == Some(0)).then(|| printed.stdout.trim().to_owned())
    }

    /// Waits until a node is up: it has booted to the end and is ready. Before
    /// that it answers already, but not everything is as it will be.
    pub(crate) async fn up(&self, node: &str) {
        let line = format!("-n {node} get machinestatus -o yaml");
        self.becomes(&format!("{node} is up"), async || {
            let printed = self.run(&line).await;
            printed.stdout.contains("stage: running\n") && printed.stdout.contains("ready: true\n")
        })
        .await;
    }

    /// Waits until a node has booted anew, is up, and runs this version.
    pub(crate) async fn reboots_into(&self, node: &str, before: &str, version: &str) {
        self.becomes(&format!("{node} boots again"), async || {
            self.boot_id(node).await.is_some_and(|now| now != before)
        })
        .await;
        self.up(node).await;
        assert_eq!(self.version_of(node).await.as_deref(), Some(version), "{node}");
    }

    /// Waits for something.
    async fn becomes(&self, what: &str, is: impl AsyncFn() -> bool) {
        let waiting = async {
            while !is().await {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(waited.is_ok(), "talosctl {}: waited in vain: {what}", self.line);
    }
}

/// Where a real tool is: named by a variable, or in the cache that
/// `cargo xtask tools` fills.
pub(crate) fn tool(name: &str) -> PathBuf {
    let upper = name.to_ascii_uppercase().replace(['-', '.'], "_");
    if let Some(path) = environment(&format!("TALOS_OPERATOR_TOOL_{upper}")) {
        return path.into();
    }
    let binary = if name.starts_with("talosctl") { "talosctl" } else { name };
    let cached = cache().and_then(|cache| newest_in(&cache, name, binary));
    cached.unwrap_or_else(|| panic!("{name} is not there: run `cargo xtask tools`"))
}

fn cache() -> Option<PathBuf> {
    let cache = environment("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || environment("HOME").map(|home| PathBuf::from(home).join(".cache"));
    Some(cache.or_else(home)?.join("talos-operator/tools"))
}

fn newest_in(cache: &Path, name: &str, binary: &str) -> Option<PathBuf> {
    let folders = std::fs::read_dir(cache).ok()?.filter_map(Result::ok);
    folders
        .filter(|folder| folder.file_name().to_string_lossy().starts_with(&format!("{name}-")))
        .map(|folder| folder.path().join(binary))
        .filter(|path| path.is_file())
        .max_by_key(|path| path.metadata().and_then(|file| file.modified()).ok())
}

#[expect(clippy::disallowed_methods, reason = "this is how the test command names the tools")]
fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}
