//! `talos-operator demo`: a simulated cluster in this process, upgraded over real sockets by
//! the same commands that a user types.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser as _;
use talos_sim::cluster::{Cluster, Options, Shape};
use talos_sim::model::{Range, Timings};
use talos_sim::schedule;
use upgrade_core::version::Version;

use super::upgrade::upgrade;
use crate::Exit;
use crate::args::{Cli, Command, DemoArgs, Output};
use crate::error::CommandError;
use crate::printer::Printer;
use crate::render;
use crate::usage::Usage;

const TALOS: Version = Version::new(1, 12, 11);
const KUBERNETES: Version = Version::new(1, 34, 2);
const TALOS_TO: &str = "1.13.12";
const KUBERNETES_TO: &str = "1.36.6";

/// A node that is switched on again needs a moment.
const RECOVERY: Duration = Duration::from_secs(5);

/// Workloads to evict: two replicas behind a PodDisruptionBudget, and some without one.
const WORKLOADS: &str = include_str!("demo.yaml");

/// Shows an upgrade.
pub async fn demo(args: &DemoArgs, printer: Printer) -> Result<Exit, CommandError> {
    if let Some(fault) = &args.fault {
        schedule::parse_fault(fault).map_err(|error| {
            Usage::new(error.to_string(), "see `talos-operator sim faults --kinds`")
        })?;
    }
    let folder = tempfile::Builder::new().prefix("talos-operator-demo-").tempdir();
    let folder = folder.map_err(|error| {
        CommandError::caused_by(&error, "free space for temporary files, or set TMPDIR")
    })?;
    // It is kept for the report, the journal and the snapshots.
    let folder = folder.keep();
    let cluster = start(args, &folder).await?;
    let profile = folder.join("demo.yaml");
    write(&profile, &profile_text(args.speed))?;
    let report = args.run.report.clone().unwrap_or_else(|| folder.join("report.html"));
    printer.stderr(&welcome(&cluster, args));
    if let Some(fault) = &args.fault {
        let injected = cluster.inject(&args.on, fault).await;
        injected
            .map_err(|why| Usage::new(why, "name a node of cp-1 to cp-3, worker-1 to worker-3"))?;
    }
    let words = ["upgrade", "both", "--talos", TALOS_TO, "--kubernetes", KUBERNETES_TO, "--yes"];
    let mut exit = carry_out(&words, &profile, &report, args, printer).await?;
    if exit == Exit::Refused && args.fault.is_some() {
        exit = roll_back(&cluster, &profile, &folder, args, printer).await?;
    }
    cluster.stop().await;
    printer.stderr(&format!("report, journal and snapshots are in {}\n", folder.display()));
    Ok(exit)
}

async fn start(args: &DemoArgs, folder: &Path) -> Result<Cluster, CommandError> {
    let shape = Shape {
        name: "demo".to_owned(),
        control_planes: 3,
        workers: 3,
        talos: TALOS,
        kubernetes: KUBERNETES,
        seed: 7,
    };
    let workloads = talos_sim::kubernetes::read_workloads(WORKLOADS).map_err(|error| {
        CommandError::caused_by(&error, "this is a bug in talos-operator; please report it")
    })?;
    let options = Options {
        shape: Some(shape),
        folder: Some(folder.join("cluster")),
        speed: args.speed,
        timings: Timings { pull: Range::secs(20, 40), ..Timings::default() },
        workloads,
        ..Options::default()
    };
    let started = Cluster::start(options).await;
    started.map_err(|error| CommandError::caused_by(&error, "see `talos-operator sim --help`"))
}

/// A profile as a user would write one, with deadlines scaled to the cluster's time.
fn profile_text(speed: f64) -> String {
    let scaled = |seconds: f64| (seconds / speed).ceil().max(20.0);
    format!(
        "# the cluster of the demo\nname: demo\ntalosconfig: ./cluster/talosconfig\ntalos:\n  \
         version: \"{TALOS}\"            # running version; updated after a run\n  \
         kubernetes_version: \"{KUBERNETES}\"\npolicy:\n  workers: {{max_unavailable: 1}}\n  \
         snapshot: {{dir: ./backups, keep: 3}}\n  retries: {{attempts: 2, backoff: 2s}}\n  \
         timeouts: {{pull: {long}s, install: {long}s, reboot: {reboot}s, verify: {reboot}s, gate: {long}s}}\n",
        long = scaled(900.0),
        reboot = scaled(1200.0),
    )
}

fn welcome(cluster: &Cluster, args: &DemoArgs) -> String {
    let mut text = format!(
        "A simulated cluster of {} nodes at {} times real time: Talos nodes over real mTLS and \
         gRPC\non loopback, a Kubernetes API and an Image Factory.\n",
        cluster.nodes().len(),
        args.speed
    );
    if let Some(fault) = &args.fault {
        let _ = writeln!(text, "Injected fault on {}: {fault}.", args.on);
    }
    text
}

/// Runs a command line as if it had been typed.
async fn carry_out(
    words: &[&str],
    profile: &Path,
    report: &Path,
    args: &DemoArgs,
    printer: Printer,
) -> Result<Exit, CommandError> {
    let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    for (flag, path) in [("--profile", profile), ("--report", report)] {
        words.extend([flag.to_owned(), path.display().to_string()]);
    }
    if args.run.output.output == Output::Json {
        words.extend(["-o", "json"].map(str::to_owned));
    }
    printer.stderr(&render::typed(&words));
    let typed = std::iter::once("talos-operator".to_owned()).chain(words);
    let cli = Cli::try_parse_from(typed).map_err(|error| Usage::from(&error))?;
    match &cli.command {
        Command::Upgrade(args) => upgrade(args, printer).await,
        _ => Ok(Exit::BadUsage),
    }
}

/// After a halt: clears the fault and rolls back the upgraded nodes.
async fn roll_back(
    cluster: &Cluster,
    profile: &Path,
    folder: &Path,
    args: &DemoArgs,
    printer: Printer,
) -> Result<Exit, CommandError> {
    if let Some(fault) = &args.fault {
        let kind = fault.split('=').next().unwrap_or(fault);
        // The fault may have ended by itself.
        let _ = cluster.clear(&args.on, kind).await;
        tokio::time::sleep(RECOVERY).await;
    }
    printer.stderr(
        "\nThe run halted, as it should. Now the fault is cleared, and the upgraded nodes are rolled \
         back:\n",
    );
    let report: PathBuf = folder.join("rollback.html");
    let back = TALOS.to_string();
    let words = ["upgrade", "os", "--talos", &back, "--rollback", "--yes"];
    carry_out(&words, profile, &report, args, printer).await
}

fn write(path: &Path, text: &str) -> Result<(), CommandError> {
    std::fs::write(path, text).map_err(|error| {
        let message = format!("cannot write {}: {error}", path.display());
        CommandError::refused(message, "free space for temporary files")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;

    #[test]
    fn the_profile_and_the_workloads_are_valid() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("demo.yaml");
        write(&path, &profile_text(40.0)).unwrap();
        let profile = Profile::load(&path).unwrap();
        assert_eq!(profile.talos, Some(TALOS));
        assert!(!talos_sim::kubernetes::read_workloads(WORKLOADS).unwrap().is_empty());
    }
}
