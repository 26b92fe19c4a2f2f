//! `cargo xtask bench fleet`: builds the operator and what measures it, and
//! lets that work. Whoever wants it to end waits until that has cleaned up.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::tools;

/// The real tools that a hub is made of.
const TOOLS: [&str; 5] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"];

/// How large, and for how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many clusters, size by size
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "10,100,1000")]
    clusters: Vec<usize>,

    /// For how many seconds nothing is done and everything counted [default: one round of looks]
    #[arg(long, value_name = "SECONDS")]
    quiet: Option<u64>,

    /// How often, in seconds, the operator looks at a cluster that rests; 300 is its default
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    look_every: u64,
}

/// Builds, and measures.
pub(crate) fn run(args: &Args) -> Result<()> {
    let paths = tools::ensure(&TOOLS)?;
    let built = Command::new("cargo")
        .args(["build", "--release", "--locked", "--package", "talos-operator"])
        .args(["--bin", "talos-operator", "--example", "bench_fleet"])
        .status()
        .context("cargo does not start")?;
    if !built.success() {
        bail!("the operator cannot be built");
    }
    let folder = release_folder()?;
    let clusters: Vec<String> = args.clusters.iter().map(ToString::to_string).collect();
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupt))
            .context("listening for Ctrl-C")?;
    }
    let child = Command::new(folder.join("examples/bench_fleet"))
        .args(["measure", "--commit", &commit()])
        .args(["--clusters", &clusters.join(",")])
        .args(["--quiet", &args.quiet.unwrap_or(args.look_every).to_string()])
        .args(["--look-every", &args.look_every.to_string()])
        .arg("--operator")
        .arg(folder.join("talos-operator"))
        .envs(paths.into_iter().map(|(name, path)| (tools::variable(name), path)))
        .spawn()
        .context("the benchmark does not start")?;
    let status = wait(child, &interrupt)?;
    if !status.success() {
        bail!("the benchmark ended with {status}");
    }
    Ok(())
}

/// Waits for its end; a signal that came to this process alone is passed on.
fn wait(mut child: Child, interrupt: &AtomicBool) -> Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait().context("waiting for the benchmark")? {
            return Ok(status);
        }
        if interrupt.swap(false, Ordering::Relaxed) {
            let id = child.id().to_string();
            Command::new("kill").args(["-TERM", &id]).status().context("passing a signal on")?;
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Where cargo puts what is built for release: this program is beside it.
fn release_folder() -> Result<PathBuf> {
    let program = std::env::current_exe().context("where is this program?")?;
    let target = program.parent().and_then(Path::parent).context("a program in a folder")?;
    Ok(target.join("release"))
}

/// The state of the checkout.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).stderr(Stdio::null()).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        output.status.success().then_some(text)
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else {
        return "unknown".to_owned();
    };
    match git(&["status", "--porcelain", "--untracked-files=no"]) {
        Some(changes) if changes.is_empty() => commit,
        _ => format!("{commit} with changes"),
    }
}
