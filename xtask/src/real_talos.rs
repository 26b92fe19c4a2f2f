//! `cargo xtask real-talos`: real node code as a test tier.
//!
//! Real `machined`, `apid`, `trustd`, containerd, etcd, kubelets and control planes, built from
//! their Go modules, as three control planes and two workers. Each node has its own network, mount,
//! process, host name and control group namespaces, all inside outer ones without a route out. What
//! is not real: kernel, disks, boot loader and installer (a stand-in decides what the next boot
//! runs).

mod cleanup;
mod cluster;
mod compare;
mod host;
mod keeper;
mod observer;
mod parts;
mod read;
mod root;
mod run;
mod scenarios;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use self::cluster::Cluster;
use self::keeper::Place;
use self::parts::Parts;
use crate::cargo::checkout;
use crate::tools::host::{note, print_line};

/// The nodes of a cluster end within seconds; the rest is a reserve for a busy machine.
const END: Duration = Duration::from_mins(2);
const PAUSE: Duration = Duration::from_millis(100);

/// What to do with real nodes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,

    /// The cluster's folder [default: target/real-talos of this checkout]
    #[arg(long, value_name = "FOLDER", global = true)]
    dir: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Build the missing parts of the nodes
    Build,
    /// Start a new cluster for manual use, until Ctrl-C
    Up {
        /// Return when it is ready, and leave it running
        #[arg(long)]
        detach: bool,
    },
    /// Stop the cluster, even if another terminal started it, and clean up after a killed command
    Down,
    /// Start a cluster, run the scenarios with our binary, stop it
    Test {
        /// Only scenarios with this in their name
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,

        /// Use the running cluster, and leave it running
        #[arg(long)]
        running: bool,

        /// Test this talos-operator instead of building one
        #[arg(long, value_name = "FILE")]
        binary: Option<PathBuf>,
    },
    /// Read the same resources from real and simulated nodes, and list the differences
    Compare {
        /// Use the running cluster, and leave it running
        #[arg(long)]
        running: bool,

        /// Use the simulator of this talos-operator instead of building one
        #[arg(long, value_name = "FILE")]
        binary: Option<PathBuf>,
    },
    /// The process that ends the nodes when the command is killed; not for manual use
    #[command(hide = true)]
    Keep,
}

/// Runs the command.
pub(crate) fn run(Args { command, dir }: Args) -> Result<()> {
    let folder = dir.unwrap_or_else(|| checkout().join("target/real-talos"));
    host::check()?;
    match command {
        Command::Build => Parts::ensure().map(|_| ()),
        Command::Up { detach } => up(&folder, detach),
        Command::Down => down(&folder),
        Command::Test { only, running, binary } => test(&folder, only.as_deref(), running, binary),
        Command::Compare { running, binary } => compare(&folder, running, binary),
        Command::Keep => {
            keeper::keep(&folder, Parts::ensure()?.tool("node-kit")?, &cluster::cgroup(&folder))
        }
    }
}

/// The tests alone, for `cargo xtask nightly`.
pub(crate) fn nightly() -> Result<()> {
    host::check()?;
    test(&checkout().join("target/real-talos"), None, false, None)
}

fn up(folder: &Path, detach: bool) -> Result<()> {
    let interrupt = interrupted()?;
    let cluster = Cluster::start(folder, Parts::ensure()?, Arc::clone(&interrupt))?;
    invite(&cluster)?;
    if detach {
        note("stop it with: cargo xtask real-talos down");
        return cluster.detach();
    }
    note("stop it with Ctrl-C");
    while !interrupt.load(Ordering::Relaxed) {
        cluster.check()?;
        thread::sleep(PAUSE);
    }
    drop(cluster);
    note("real-talos: the nodes are gone; their logs are kept");
    Ok(())
}

fn down(folder: &Path) -> Result<()> {
    if Place::new(folder).take_down(END)? {
        note("real-talos: the nodes are gone; their logs are kept");
    } else {
        note(&format!("real-talos: nothing is running in {}", folder.display()));
    }
    Ok(())
}

fn test(folder: &Path, only: Option<&str>, running: bool, binary: Option<PathBuf>) -> Result<()> {
    let interrupt = interrupted()?;
    let parts = Parts::ensure()?;
    let binary = run::binary(binary)?;
    if running {
        let cluster = Cluster::attach(folder, parts, interrupt)?;
        return scenarios::on(&cluster, &binary, only);
    }
    scenarios::all(folder, &parts, &interrupt, &binary, only)
}

fn compare(folder: &Path, running: bool, binary: Option<PathBuf>) -> Result<()> {
    let interrupt = interrupted()?;
    let parts = Parts::ensure()?;
    let binary = run::binary(binary)?;
    let cluster = if running {
        Cluster::attach(folder, parts, interrupt)?
    } else {
        Cluster::start(folder, parts, interrupt)?
    };
    compare::run(&cluster, &binary)
}

/// A flag that Ctrl-C sets.
pub(crate) fn interrupted() -> Result<Arc<AtomicBool>> {
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupt))
            .context("listening for Ctrl-C")?;
    }
    Ok(interrupt)
}

/// Prints where the keys are, and how to use them.
fn invite(cluster: &Cluster) -> Result<()> {
    let inside = cluster.invitation()?;
    let (talosconfig, kubeconfig) = (cluster.talosconfig(), cluster.kubeconfig());
    let (talosconfig, kubeconfig) = (talosconfig.display(), kubeconfig.display());
    print_line(&format!("talosconfig: {talosconfig}"));
    print_line(&format!("kubeconfig:  {kubeconfig}"));
    print_line(&format!("logs:        {}", cluster.folder.join("log").display()));
    let tool = |name: &str| cluster.parts.tool(name).map(|path| path.display().to_string());
    note(&format!("try: {inside} {} get nodes --kubeconfig {kubeconfig}", tool("kubectl")?));
    note(&format!(
        "try: {inside} {} health --talosconfig {talosconfig} --nodes 10.5.0.11",
        tool("talosctl-1.14")?
    ));
    note(&format!("try: {inside} target/debug/talos-operator health --talosconfig {talosconfig}"));
    Ok(())
}
