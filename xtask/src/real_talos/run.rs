//! Our binary, run against real nodes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use super::cluster::Cluster;
use crate::cargo;
use crate::tools::host;

/// The deadline of the longest run: every node reboots, every kubelet restarts.
const LIMIT: Duration = Duration::from_mins(45);
const POLL: Duration = Duration::from_millis(100);

/// The binary under test: the given one, or a new build.
pub(super) fn binary(named: Option<PathBuf>) -> Result<PathBuf> {
    if let Some(path) = named {
        return path.canonicalize().with_context(|| format!("reading {}", path.display()));
    }
    host::note("real-talos: building talos-operator");
    cargo::run(&["build", "--quiet", "--package", "talos-operator"])?;
    let path = cargo::target_folder()?.join("debug/talos-operator");
    if !path.is_file() {
        bail!("cargo did not build {}", path.display());
    }
    Ok(path)
}

/// The outcome of a run.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) out: String,
    pub(super) err: String,
    /// Milliseconds since 1970.
    pub(super) at: u64,
    pub(super) took: Duration,
}

impl Ended {
    /// Fails unless it ended successfully.
    pub(super) fn succeeded(self) -> Result<Self> {
        if self.status.success() {
            return Ok(self);
        }
        bail!("it ended with {}:\n{}", self.status, last_lines(&self.err, &self.out))
    }

    /// Fails unless it was refused or failed, with all of these in its output.
    pub(super) fn failed_saying(self, words: &[&str]) -> Result<Self> {
        let said = format!("{}\n{}", self.out, self.err);
        if self.status.code() != Some(1) {
            bail!(
                "it ended with {}, and 1 was expected:\n{}",
                self.status,
                last_lines(&self.err, &self.out)
            );
        }
        match words.iter().find(|word| !said.contains(**word)) {
            None => Ok(self),
            Some(word) => bail!("it did not say {word:?}:\n{}", last_lines(&self.err, &self.out)),
        }
    }
}

fn last_lines(err: &str, out: &str) -> String {
    let lines: Vec<&str> = out.lines().chain(err.lines()).collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

/// A run in progress.
pub(super) struct Running {
    child: Child,
    out: PathBuf,
    err: PathBuf,
    began: std::time::Instant,
}

/// Starts our binary with the cluster's keys. Its output goes into files named after the scenario.
pub(super) fn start(
    cluster: &Cluster,
    binary: &Path,
    name: &str,
    arguments: &[&str],
) -> Result<Running> {
    let log = |ending: &str| cluster.folder.join("log").join(format!("{name}.{ending}"));
    let (out, err) = (log("out"), log("err"));
    let mut command: Command = cluster.inside(binary)?;
    command.args(arguments).arg("--talosconfig").arg(cluster.talosconfig());
    command.arg("--state").arg(cluster.folder.join("state"));
    if ["plan", "upgrade", "rollback"].contains(&arguments[0]) {
        command.arg("--catalogue").arg(cluster.catalogue());
    }
    let child = command
        .stdout(File::create(&out)?)
        .stderr(File::create(&err)?)
        .stdin(Stdio::null())
        .spawn()
        .context("starting talos-operator")?;
    Ok(Running { child, out, err, began: host::now() })
}

/// Runs it to its end.
pub(super) fn finish(
    cluster: &Cluster,
    binary: &Path,
    name: &str,
    arguments: &[&str],
) -> Result<Ended> {
    start(cluster, binary, name, arguments)?.wait(cluster)
}

impl Running {
    /// Its output so far, stderr and stdout.
    pub(super) fn said(&self) -> String {
        [&self.out, &self.err].map(|path| fs::read_to_string(path).unwrap_or_default()).concat()
    }

    /// Kills it with SIGKILL once it has printed `words`; fails if it ends before.
    pub(super) fn kill_after(mut self, cluster: &Cluster, words: &str) -> Result<()> {
        while !self.said().contains(words) {
            if let Some(status) = self.child.try_wait()? {
                bail!(
                    "it ended with {status} before it said {words:?}:\n{}",
                    last_lines(&self.said(), "")
                );
            }
            self.limit(cluster)?;
            thread::sleep(POLL);
        }
        self.child.kill().context("killing talos-operator")?;
        self.child.wait()?;
        Ok(())
    }

    pub(super) fn wait(mut self, cluster: &Cluster) -> Result<Ended> {
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            self.limit(cluster)?;
            thread::sleep(POLL);
        };
        let at = milliseconds();
        let [out, err] =
            [&self.out, &self.err].map(|path| fs::read_to_string(path).unwrap_or_default());
        Ok(Ended { status, out, err, at, took: self.began.elapsed() })
    }

    fn limit(&mut self, cluster: &Cluster) -> Result<()> {
        let interrupted = cluster.check().err();
        if interrupted.is_none() && self.began.elapsed() < LIMIT {
            return Ok(());
        }
        self.child.kill().ok();
        self.child.wait().ok();
        match interrupted {
            Some(error) => Err(error),
            None => bail!("it did not end within {LIMIT:?}:\n{}", last_lines(&self.said(), "")),
        }
    }
}

/// The observer's clock.
#[expect(clippy::disallowed_methods, reason = "compared with what another program measured")]
fn milliseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
