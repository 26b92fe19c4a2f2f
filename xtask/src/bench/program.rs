//! A benchmark that is a separate program: built together with the binary that it measures, and run
//! to its end. An interrupt waits until it has cleaned up.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::cargo::{cargo, target_folder};

/// Builds the binary and the example that measures it, optimised; returns their folder.
pub(super) fn build(example: &str) -> Result<PathBuf> {
    let built = cargo()
        .args(["build", "--profile", "dist", "--locked", "--package", "talos-operator"])
        .args(["--bin", "talos-operator", "--example", example])
        .status()
        .context("cannot start cargo")?;
    if !built.success() {
        bail!("cannot build talos-operator");
    }
    Ok(target_folder()?.join("dist"))
}

/// The example as a command.
pub(super) fn command(folder: &Path, example: &str) -> Command {
    Command::new(folder.join("examples").join(example))
}

/// Runs it to its end.
pub(super) fn run(mut command: Command) -> Result<()> {
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupt))
            .context("listening for Ctrl-C")?;
    }
    let child = command.spawn().context("cannot start the benchmark")?;
    let status = wait(child, &interrupt)?;
    if !status.success() {
        bail!("the benchmark ended with {status}");
    }
    Ok(())
}

/// Waits for its end; a signal that reached only this process is passed on.
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

/// The state of the checkout.
pub(super) fn commit() -> String {
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
