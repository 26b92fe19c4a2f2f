//! `talos-operator sim`: a simulated cluster on this machine.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use talos_sim::address::Layout;
use talos_sim::clock::wall_time;
use talos_sim::cluster::{self, Cluster, Machines, Options, Shape, StartError};
use talos_sim::control::{self, Ask};
use talos_sim::kubernetes::{self, remote::RealApi};
use talos_sim::model::Timings;
use talos_sim::pki::Identity;
use talos_sim::schedule::{self, FAULTS, Planned};
use talos_sim::store;
use upgrade_core::text::chain;

use crate::Exit;
use crate::args::{
    FaultArgs, FaultsArgs, MachineArgs, RealArgs, SimArgs, SimCommand, StartArgs, TalosconfigArgs,
};
use crate::printer::Printer;
use crate::render;
use crate::usage::Usage;

/// Runs a simulated cluster, or changes a running one.
pub async fn sim(args: &SimArgs, printer: Printer) -> Result<Exit, Usage> {
    match &args.command {
        None => start(&args.start, printer).await,
        Some(SimCommand::Fault(args)) => fault(args, printer).await,
        Some(SimCommand::Faults(args)) => faults(args, printer).await,
        Some(SimCommand::Talosconfig(args)) => Ok(talosconfig(args, printer)),
    }
}

async fn start(args: &StartArgs, printer: Printer) -> Result<Exit, Usage> {
    let options = options(args)?;
    let cluster = match Cluster::start(options).await {
        Ok(cluster) => cluster,
        Err(error) => return Ok(refuse(printer, &error, next(&error))),
    };
    printer.stdout(&welcome(&cluster, args));
    stop_signal().await;
    printer.stderr("stopping\n");
    cluster.stop().await;
    Ok(Exit::Done)
}

fn options(args: &StartArgs) -> Result<Options, Usage> {
    // Starting reports a folder that cannot be read.
    let stored = cluster::stored_shape(&args.folder.dir).unwrap_or_default();
    let mut shape = stored.unwrap_or_else(|| {
        let newest = Shape::default();
        let talos = args.talos.clone().unwrap_or(newest.talos);
        let kubernetes = cluster::newest_kubernetes(&talos).unwrap_or(newest.kubernetes);
        Shape { talos, kubernetes, ..Shape::default() }
    });
    let StartArgs { control_planes, workers, talos, kubernetes, name, seed, .. } = args.clone();
    shape.control_planes = control_planes.unwrap_or(shape.control_planes);
    shape.workers = workers.unwrap_or(shape.workers);
    shape.talos = talos.unwrap_or(shape.talos);
    shape.kubernetes = kubernetes.unwrap_or(shape.kubernetes);
    shape.name = name.unwrap_or(shape.name);
    shape.seed = seed.unwrap_or(shape.seed);
    let usual = Timings::default();
    Ok(Options {
        shape: Some(shape),
        folder: Some(args.folder.dir.clone()),
        speed: args.speed,
        timings: Timings {
            pull: args.timings.pull.unwrap_or(usual.pull),
            install: args.timings.install.unwrap_or(usual.install),
            drain: args.timings.drain.unwrap_or(usual.drain),
            reboot: args.timings.reboot.unwrap_or(usual.reboot),
            rejoin: args.timings.rejoin.unwrap_or(usual.rejoin),
            ..usual
        },
        own_times: false,
        machines: machines(&args.machines),
        layout: if args.network.ports { Layout::Ports } else { Layout::Auto },
        subnet: args.network.subnet,
        faults: match &args.faults {
            Some(path) => read_faults(path)?,
            None => Vec::new(),
        },
        workloads: match &args.workloads {
            Some(path) => read_workloads(path)?,
            None => Vec::new(),
        },
        real_api: real_api(&args.real),
        discovery: args.discovery.map(Into::into).unwrap_or_default(),
        storage_network: args.network.storage_network,
    })
}

fn machines(args: &MachineArgs) -> Machines {
    let MachineArgs { platform, secure_boot, install_image } = args;
    let usual = Machines::default();
    Machines {
        platform: platform.clone().unwrap_or(usual.platform),
        secure_boot: *secure_boot,
        install_image: install_image.as_ref().map(ToString::to_string),
    }
}

fn real_api(args: &RealArgs) -> Option<RealApi> {
    let RealArgs { kubernetes_api, kubernetes_token_file, kubernetes_ca_file } = args.clone();
    // None comes without the others.
    Some(RealApi {
        url: kubernetes_api?,
        token_file: kubernetes_token_file?,
        ca_file: kubernetes_ca_file?,
    })
}

fn read_workloads(path: &Path) -> Result<Vec<serde_json::Value>, Usage> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        Usage::new(format!("--workloads: cannot read {shown}: {error}"), "name a readable file")
    })?;
    kubernetes::read_workloads(&text).map_err(|error| {
        Usage::new(
            format!("--workloads: {shown}: {error}"),
            "write objects as for `kubectl apply`, with `---` between them",
        )
    })
}

fn read_faults(path: &Path) -> Result<Vec<Planned>, Usage> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        Usage::new(format!("--faults: cannot read {shown}: {error}"), "name a readable file")
    })?;
    schedule::parse_file(&text).map_err(|error| {
        Usage::new(
            format!("--faults: {shown}: {error}"),
            "write a list like `- {node: cp-1, fault: boot-back, after: 5m}`",
        )
    })
}

fn welcome(cluster: &Cluster, args: &StartArgs) -> String {
    let Shape { name, control_planes, workers, talos, kubernetes, .. } = cluster.shape();
    let dir = args.folder.dir.display();
    let mut text = format!(
        "cluster {name}: {control_planes} control planes, {workers} workers, \
         Talos {} and Kubernetes {} at the start, {} times real time\n\n",
        talos.tag(),
        kubernetes.tag(),
        args.speed,
    );
    let width = cluster.nodes().iter().map(|node| node.hostname.len()).max().unwrap_or(0);
    for node in cluster.nodes() {
        let _ =
            writeln!(text, "  {:width$}  {}  apid on {}", node.hostname, node.address, node.apid);
    }
    let real = match cluster.real_api_url() {
        Some(url) => format!(", a proxy for {url}"),
        None => String::new(),
    };
    let _ = writeln!(text, "  {:width$}  Kubernetes API on {}{real}", "", cluster.kubernetes_url());
    let _ = writeln!(text, "  {:width$}  Image Factory on {}\n", "", cluster.factory_url());
    let first = cluster.nodes().first().map_or_else(String::new, |node| node.address.to_string());
    let last = cluster.nodes().last().map_or_else(String::new, |node| node.address.to_string());
    let _ = write!(
        text,
        "Try, in another terminal:
  export TALOSCONFIG={dir}/{talosconfig}
  talosctl -n {first} version
  talosctl -n {first} get members
  talosctl -n {first} etcd status
  talosctl -n {last} reboot --wait
  kubectl --kubeconfig {dir}/{kubeconfig} get nodes
  talos-operator sim fault {host} slow-pull --dir {dir}

Ctrl-C stops it; start it with the same --dir to continue.\n",
        talosconfig = store::TALOSCONFIG,
        kubeconfig = store::KUBECONFIG,
        host = cluster.nodes().last().map_or("all", |node| node.hostname.as_str()),
    );
    text
}

async fn stop_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    // Without signals, only a kill stops it.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Whether a folder holds a simulated cluster.
fn is_cluster(folder: &Path) -> bool {
    matches!(cluster::stored_shape(folder), Ok(Some(_)))
}

async fn fault(args: &FaultArgs, printer: Printer) -> Result<Exit, Usage> {
    let FaultArgs { node, fault, lasting, clear, folder } = args;
    schedule::parse_fault(fault).map_err(|error| {
        Usage::new(error.to_string(), "see `talos-operator sim faults --kinds`")
    })?;
    let node = (node != "all").then(|| node.clone());
    let ask = if *clear {
        Ask::Clear { node, fault: fault.clone() }
    } else {
        Ask::Inject { node, fault: fault.clone(), lasting: *lasting }
    };
    Ok(asked(&folder.folder(is_cluster), ask, printer).await)
}

async fn faults(args: &FaultsArgs, printer: Printer) -> Result<Exit, Usage> {
    if args.kinds {
        let mut text = String::new();
        for (_, name, meaning) in FAULTS {
            let _ = writeln!(text, "{name:22} {meaning}");
        }
        printer.stdout(&text);
        return Ok(Exit::Done);
    }
    Ok(asked(&args.folder.folder(is_cluster), Ask::Faults, printer).await)
}

async fn asked(dir: &Path, ask: Ask, printer: Printer) -> Exit {
    match control::ask(dir, ask).await {
        Ok(faults) if faults.is_empty() => printer.stderr("no active faults\n"),
        Ok(faults) => {
            let mut text = String::new();
            for fault in faults {
                let _ = writeln!(text, "{:12} {}", fault.node, fault.fault);
            }
            printer.stdout(&text);
        }
        Err(error) => {
            let next = "start one with `talos-operator sim`, and name its folder with --dir";
            return refuse(printer, &error, next);
        }
    }
    Exit::Done
}

fn talosconfig(args: &TalosconfigArgs, printer: Printer) -> Exit {
    let TalosconfigArgs { role, expired, out, folder } = args;
    let now = wall_time();
    let identity = Identity::new(role.clone(), now);
    let identity = if *expired { identity.expired(now) } else { identity };
    let text = match cluster::mint_talosconfig(&folder.folder(is_cluster), &identity) {
        Ok(text) => text,
        Err(error) => return refuse(printer, &error, next(&error)),
    };
    match out {
        None => printer.stdout(&text),
        Some(path) => {
            if let Err(error) = store::write(path, text.as_bytes()) {
                return refuse(printer, &error, "name a writable file with --out");
            }
        }
    }
    Exit::Done
}

fn next(error: &StartError) -> &'static str {
    match error {
        StartError::Store(_) => "name another folder with --dir",
        StartError::Address(_) => {
            "stop the process that uses it, or use another --dir and --subnet"
        }
        StartError::Differs { .. } => {
            "remove these flags to continue with that cluster, or name another folder with --dir"
        }
        StartError::Remote(error) => error.advice(),
        StartError::Workloads(_) => "correct the file of --workloads",
        StartError::Fault(_) => "correct the file of --faults",
        _ => "see `talos-operator sim --help`",
    }
}

/// Prints an error with its causes.
fn refuse(printer: Printer, error: &dyn Error, next: &str) -> Exit {
    printer.stderr(&render::usage(&Usage::new(chain(error), next)));
    Exit::Refused
}
