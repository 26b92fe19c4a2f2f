//! A real talosctl.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;
use testkit::{PATIENCE, Printed};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::bench::Bench;

/// A talosctl of a release line, with a cluster's talosconfig.
pub(crate) struct Talosctl<'a> {
    pub(crate) path: PathBuf,
    pub(crate) line: String,
    pub(crate) bench: &'a Bench,
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
        output.expect("talosctl runs").into()
    }

    /// Runs a command that must succeed, and returns its output.
    pub(crate) async fn ok(&self, line: &str) -> String {
        let printed = self.run(line).await;
        assert_eq!(printed.code, Some(0), "talosctl {} {line}: {printed:#?}", self.line);
        printed.stdout
    }

    /// Runs a command that must succeed, and checks that its output contains all of these.
    pub(crate) async fn says(&self, line: &str, wanted: &[&str]) {
        let printed = self.run(line).await;
        assert_eq!(printed.code, Some(0), "talosctl {} {line}: {printed:#?}", self.line);
        self.contains(line, &printed, wanted);
    }

    /// Runs a command that must fail, and checks that it prints all of these.
    pub(crate) async fn fails(&self, line: &str, wanted: &[&str]) {
        let printed = self.run(line).await;
        assert_ne!(printed.code, Some(0), "talosctl {} {line}: {printed:#?}", self.line);
        self.contains(line, &printed, wanted);
    }

    fn contains(&self, line: &str, printed: &Printed, wanted: &[&str]) {
        for wanted in wanted {
            let found = printed.stdout.contains(wanted) || printed.stderr.contains(wanted);
            assert!(found, "talosctl {} {line}: no `{wanted}` in {printed:#?}", self.line);
        }
    }

    /// The resources printed by `get ... -o json`.
    pub(crate) async fn get(&self, what: &str) -> Vec<Value> {
        let text = self.ok(&format!("get {what} -o json")).await;
        let values = serde_json::Deserializer::from_str(&text).into_iter();
        values.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{what}: {error}: {text}"))
    }

    /// Runs a command that does not end, until it has printed all of these. In the YAML of a watch
    /// they must be in the same document.
    pub(crate) async fn until(&self, line: &str, wanted: &[&str]) {
        let mut child = self.command(line).stdout(Stdio::piped()).spawn().expect("talosctl runs");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut seen = Vec::new();
        let reading = async {
            let mut document = String::new();
            while let Some(line) = lines.next_line().await.expect("text") {
                if line.starts_with("node: ") {
                    document.clear();
                }
                document.push_str(&line);
                document.push('\n');
                seen.push(line);
                if wanted.iter().all(|wanted| document.contains(wanted)) {
                    return true;
                }
            }
            false
        };
        let found = tokio::time::timeout(PATIENCE, reading).await.unwrap_or(false);
        let _ = child.kill().await;
        assert!(found, "talosctl {} {line}: no {wanted:?} in {seen:#?}", self.line);
    }

    /// The version that a node runs.
    pub(crate) async fn version_of(&self, node: &str) -> String {
        let printed = self.ok(&format!("-n {node} version --short")).await;
        let server = printed.split("Server:").nth(1).unwrap_or_default();
        let tag = server.lines().find_map(|line| line.trim().strip_prefix("Tag:"));
        tag.unwrap_or_else(|| panic!("no version of {node} in {printed}")).trim().to_owned()
    }

    /// Changes with every boot.
    pub(crate) async fn boot_id(&self, node: &str) -> String {
        let printed = self.ok(&format!("-n {node} read /proc/sys/kernel/random/boot_id")).await;
        printed.trim().to_owned()
    }

    /// Waits until a node is up: it has finished booting and is ready. Before that it already
    /// answers, but not everything is in its final state.
    pub(crate) async fn up(&self, node: &str) {
        self.bench.until_node("is up", node, |it| it.is_reachable() && it.is_ready()).await;
        // A watch: with a real API server a node that has just booted may be reported as not ready
        // once more.
        let line = format!("-n {node} get machinestatus -w -o yaml");
        self.until(&line, &["stage: running\n", "ready: true\n"]).await;
    }

    /// Waits until a node has rebooted, is up, and runs this version.
    pub(crate) async fn reboots_into(&self, node: &str, before: &str, version: &str) {
        let last = before.to_owned();
        self.bench.until_node("boots again", node, move |it| it.boot_id() != last).await;
        self.up(node).await;
        assert_ne!(self.boot_id(node).await, before, "{node}");
        assert_eq!(self.version_of(node).await, version, "{node}");
    }
}
