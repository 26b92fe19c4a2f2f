//! `cargo xtask cluster`: a real control plane for experiments.
//!
//! A thin layer over the crate that the tests use: it shows progress, handles Ctrl-C and finds the
//! programs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use envtest::{
    Access, Component, ControlPlane, Error, Event, Health, Inspection, Options, Running, Tools,
    inspect, take_down,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::cargo::checkout;
use crate::tools::{self, host};

/// The polling interval of a running control plane: short enough for Ctrl-C to feel immediate.
const PAUSE: Duration = Duration::from_millis(100);

/// What to do with the cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Start it, or continue the previous one, until Ctrl-C
    Up {
        #[command(flatten)]
        place: Place,

        /// The first of four ports, the API server's [default: free ones]
        #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
        port_base: Option<u16>,

        /// Return when it is ready, and leave it running
        #[arg(long)]
        detach: bool,
    },
    /// Stop it, even if another terminal started it; its data stays
    Down {
        #[command(flatten)]
        place: Place,
    },
    /// Show its components and their state
    Status {
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Debug, clap::Args)]
struct Place {
    /// Its folder [default: target/cluster of this checkout]
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

impl Place {
    fn folder(self) -> PathBuf {
        self.dir.unwrap_or_else(|| checkout().join("target/cluster"))
    }
}

/// Runs the command.
pub(crate) fn run(Args { command }: Args) -> Result<()> {
    match command {
        Command::Up { place, port_base, detach } => up(&place.folder(), port_base, detach),
        Command::Down { place } => down(&place.folder()),
        Command::Status { place } => status(&place.folder()),
    }
}

fn up(folder: &Path, port_base: Option<u16>, detach: bool) -> Result<()> {
    let tools = find_tools()?;
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupt))
            .context("listening for Ctrl-C")?;
    }
    let mut options = Options::new(folder, tools.clone());
    options.port_base = port_base;
    options.interrupt = Some(Arc::clone(&interrupt));
    options.observer = Some(Box::new(show));

    let began = host::now();
    let mut plane = match ControlPlane::start(options) {
        Ok(plane) => plane,
        Err(Error::AlreadyRunning { .. }) => {
            let found = inspect(folder, &tools)?.context("it stopped meanwhile")?;
            host::note("it is already running");
            invite(&found.access, &tools.kubectl, folder, true);
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    host::note(&format!("ready in {:.1?}: {}", began.elapsed(), plane.url()));
    invite(&plane.access(), &tools.kubectl, folder, detach);
    if detach {
        return Ok(plane.detach()?);
    }
    while !interrupt.load(Ordering::Relaxed) {
        // Dropping it stops the components that are left.
        plane.check()?;
        thread::sleep(PAUSE);
    }
    plane.stop()?;
    host::note(&format!("stopped; its data is kept in {}", folder.display()));
    Ok(())
}

fn down(folder: &Path) -> Result<()> {
    let stopped = take_down(folder)?;
    let folder = folder.display();
    if stopped.is_empty() {
        host::note(&format!("nothing is running in {folder}"));
    } else {
        let names: Vec<&str> = stopped.into_iter().map(Component::name).collect();
        host::note(&format!("stopped {}; the data is kept in {folder}", names.join(", ")));
    }
    Ok(())
}

fn status(folder: &Path) -> Result<()> {
    let Some(found) = inspect(folder, &find_tools()?)? else {
        bail!("there is no cluster in {}: `cargo xtask cluster up` makes one", folder.display());
    };
    let rows: Vec<[String; 5]> = found.components.iter().map(row).collect();
    host::print_table(["COMPONENT", "STATE", "PROCESS", "ADDRESS", "LOG"], &rows);
    let Inspection { access: Access { kubeconfig, .. }, owner, .. } = &found;
    if let Some(owner) = owner {
        host::note(&format!("watched by process {owner}"));
    }
    if !found.is_ready() {
        bail!("some components are not ready");
    }
    host::note(&format!("kubeconfig: {}", kubeconfig.display()));
    Ok(())
}

fn row(Running { component, url, log, pid, health }: &Running) -> [String; 5] {
    let health = match health {
        Health::Ready => "ready".to_owned(),
        Health::Unready(reason) => reason.clone(),
        Health::Stopped => "stopped".to_owned(),
    };
    let pid = pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
    [component.to_string(), health, pid, url.clone(), log.display().to_string()]
}

/// Builds what is missing.
pub(crate) fn find_tools() -> Result<Tools> {
    let names = Component::ALL.map(Component::name);
    let mut paths = tools::ensure(&[&names[..], &["kubectl"]].concat())?;
    let mut path = |name: &str| paths.remove(name).with_context(|| format!("no {name}"));
    Ok(Tools {
        etcd: path("etcd")?,
        kube_apiserver: path("kube-apiserver")?,
        kube_controller_manager: path("kube-controller-manager")?,
        kube_scheduler: path("kube-scheduler")?,
        kubectl: path("kubectl")?,
    })
}

/// Prints the kubeconfig as the result, and how to use it as advice.
fn invite(access: &Access, kubectl: &Path, folder: &Path, detached: bool) {
    let Access { url, kubeconfig, token, authority } = access;
    let (kubeconfig, kubectl) = (kubeconfig.display(), kubectl.display());
    host::print_line(&kubeconfig.to_string());
    host::note(&format!("try: {kubectl} --kubeconfig {kubeconfig} get namespaces"));
    host::note(&format!(
        "give it nodes with: talos-operator sim --kubernetes-api {url} \\\n    \
         --kubernetes-token-file {} \\\n    --kubernetes-ca-file {}",
        token.display(),
        authority.display(),
    ));
    if detached {
        let folder = folder.display();
        host::note(&format!("stop it with: cargo xtask cluster down --dir {folder}"));
    } else {
        host::note("stop it with Ctrl-C");
    }
}

fn show(event: Event<'_>) {
    match event {
        Event::Started { component, pid } => {
            host::note(&format!("{component:24} started, process {pid}"));
        }
        Event::Waiting { component, reason } => host::note(&format!("{component:24} {reason}")),
        Event::Ready { component, took } => {
            host::note(&format!("{component:24} ready after {took:.1?}"));
        }
        Event::PortTaken => host::note("a port was taken in the meantime; trying others"),
        Event::Stopping { component } => host::note(&format!("{component:24} stopping")),
        _ => {}
    }
}
