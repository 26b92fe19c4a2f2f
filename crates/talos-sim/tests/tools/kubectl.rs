//! A real kubectl.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use testkit::{PATIENCE, Printed};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

use crate::bench::Bench;

/// A kubectl with this cluster's kubeconfig.
pub(crate) struct Kubectl<'a> {
    pub(crate) path: PathBuf,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) bench: &'a Bench,
}

impl Kubectl<'_> {
    /// The same with another kubeconfig.
    pub(crate) fn with_kubeconfig(self, kubeconfig: PathBuf) -> Self {
        Self { kubeconfig, ..self }
    }

    fn command(&self, line: &str) -> Command {
        let folder = self.bench.folder.path();
        let mut command = Command::new(&self.path);
        command
            .args(words(line))
            .env("HOME", folder)
            .env("KUBECONFIG", &self.kubeconfig)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs a command to its end, with this standard input.
    pub(crate) async fn run_with(&self, line: &str, input: &str) -> Printed {
        let mut child = self.command(line).spawn().expect("kubectl runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        let running = async {
            // A kubectl that does not read its input has already failed.
            let _ = stdin.write_all(input.as_bytes()).await;
            drop(stdin);
            child.wait_with_output().await.expect("kubectl ends")
        };
        let output = tokio::time::timeout(PATIENCE, running).await;
        let output = output.unwrap_or_else(|_| panic!("kubectl {line}: too slow"));
        output.into()
    }

    /// Runs a command to its end.
    pub(crate) async fn run(&self, line: &str) -> Printed {
        self.run_with(line, "").await
    }

    /// Runs a command that must succeed, and returns its output.
    pub(crate) async fn ok(&self, line: &str) -> String {
        self.ok_with(line, "").await
    }

    /// The same with this standard input.
    pub(crate) async fn ok_with(&self, line: &str, input: &str) -> String {
        let printed = self.run_with(line, input).await;
        assert_eq!(printed.code, Some(0), "kubectl {line}: {printed:#?}");
        printed.stdout
    }

    /// Runs a command that must succeed, and checks that it prints all of these.
    pub(crate) async fn says(&self, line: &str, wanted: &[&str]) {
        let printed = self.run(line).await;
        assert_eq!(printed.code, Some(0), "kubectl {line}: {printed:#?}");
        contains(line, &printed, wanted);
    }

    /// Runs a command that must fail, and checks that it prints all of these.
    pub(crate) async fn fails(&self, line: &str, wanted: &[&str]) {
        self.fails_with(line, "", wanted).await;
    }

    /// The same with this standard input.
    pub(crate) async fn fails_with(&self, line: &str, input: &str, wanted: &[&str]) {
        let printed = self.run_with(line, input).await;
        assert_ne!(printed.code, Some(0), "kubectl {line}: {printed:#?}");
        contains(line, &printed, wanted);
    }

    /// The object printed by `get ... -o json`.
    pub(crate) async fn get(&self, what: &str) -> Value {
        let text = self.ok(&format!("get {what} -o json")).await;
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{what}: {error}: {text}"))
    }

    /// Watches an object until a condition holds.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        self.watch(what, |objects| objects.values().any(&holds), &holds).await
    }

    /// Watches a list until a condition holds.
    pub(crate) async fn until_list(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let list = |objects: &Objects| json!({"items": objects.values().collect::<Vec<_>>()});
        self.watch(what, |objects| holds(&list(objects)), &holds).await
    }

    /// Watches until `may` holds, then checks once whether `holds` does: the state that a watch has
    /// reported of a list may be incomplete.
    async fn watch(
        &self,
        what: &str,
        may: impl Fn(&Objects) -> bool,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let line = format!("get {what} -o json --watch --output-watch-events");
        let mut watch = self.follow(&line);
        let mut objects = Objects::new();
        let watching = async {
            while let Some(event) = watch.next_json().await {
                let object = event["object"].clone();
                let uid = object["metadata"]["uid"].to_string();
                if event["type"] == "DELETED" {
                    objects.remove(&uid);
                } else {
                    objects.insert(uid, object);
                }
                if may(&objects) {
                    let found = self.get(what).await;
                    if holds(&found) {
                        return Some(found);
                    }
                }
            }
            None
        };
        let found = tokio::time::timeout(PATIENCE, watching).await.ok().flatten();
        found.unwrap_or_else(|| panic!("kubectl {line}: timed out: {objects:#?}"))
    }

    /// Starts a command that keeps running, and returns its lines.
    pub(crate) fn follow(&self, line: &str) -> Following {
        let mut child = self.command(line).spawn().expect("kubectl runs");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Following { line: line.to_owned(), lines, seen: Vec::new(), _child: child }
    }
}

/// The objects that a watch has reported, by UID.
type Objects = BTreeMap<String, Value>;

/// A running kubectl. It ends when this is dropped.
pub(crate) struct Following {
    line: String,
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
    seen: Vec<String>,
    _child: tokio::process::Child,
}

impl Following {
    /// The next JSON value that it prints; `None` at the end.
    async fn next_json(&mut self) -> Option<Value> {
        let mut text = String::new();
        while let Ok(Some(line)) = self.lines.next_line().await {
            text.push_str(&line);
            // Only the last line of a value is not indented.
            if line.ends_with('}') && !line.starts_with(' ') {
                let value = serde_json::from_str(&text);
                return Some(value.unwrap_or_else(|error| panic!("{error}: {text}")));
            }
        }
        None
    }

    /// Waits for a line that contains all of these.
    pub(crate) async fn until(&mut self, wanted: &[&str]) {
        let reading = async {
            while let Ok(Some(line)) = self.lines.next_line().await {
                let found = wanted.iter().all(|wanted| line.contains(wanted));
                self.seen.push(line);
                if found {
                    return true;
                }
            }
            false
        };
        let found = tokio::time::timeout(PATIENCE, reading).await.unwrap_or(false);
        assert!(found, "kubectl {}: no {wanted:?} in {:#?}", self.line, self.seen);
    }
}

fn contains(line: &str, printed: &Printed, wanted: &[&str]) {
    for wanted in wanted {
        let found = printed.stdout.contains(wanted) || printed.stderr.contains(wanted);
        assert!(found, "kubectl {line}: no `{wanted}` in {printed:#?}");
    }
}

/// The words of a line; quotes keep spaces.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in line.split('\'').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}
