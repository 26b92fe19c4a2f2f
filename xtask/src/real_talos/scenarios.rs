//! The scenarios on real nodes, in an order in which each leaves the state that the next one needs.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail, ensure};
use semver::Version;

use super::cleanup::{self, End};
use super::cluster::{Cluster, NODES, refused};
use super::compare;
use super::observer::{self, Allowed, Observer};
use super::parts::{INSTALLER_EXIT, Parts, succeed};
use super::run::{self, Ended};
use crate::report::Report;
use crate::tools::host::note;

/// An image host that does not exist: every node asks the hub's registry for every image.
const IMAGES: &str = "images.test";

/// One member of each kind may be down, and budgets hold.
const ROLLING: Allowed = Allowed { down: 1, budgets: true };

/// A scenario.
struct Scenario {
    name: &'static str,
    run: fn(&Bench<'_>) -> Result<()>,
}

/// All on one cluster, from its start on: each scenario continues from the state of the previous
/// ones.
const FIRST: [Scenario; 12] = [
    Scenario { name: "health", run: health },
    Scenario { name: "compare", run: like_simulated },
    Scenario { name: "plan", run: plan },
    Scenario { name: "snapshot", run: snapshot },
    Scenario { name: "image-missing", run: image_missing },
    Scenario { name: "installer-fails", run: installer_fails },
    Scenario { name: "node-off", run: node_off },
    Scenario { name: "learner", run: learner },
    Scenario { name: "upgrade-os-killed-and-resumed", run: upgrade_os },
    Scenario { name: "rollback-node", run: rollback_node },
    Scenario { name: "rollback-os", run: rollback_os },
    Scenario { name: "upgrade-both", run: upgrade_both },
];

/// On a second cluster, as generated.
const SECOND: [Scenario; 1] = [Scenario { name: "upgrade-k8s", run: upgrade_k8s }];

/// Ways to end the command of a cluster; each scenario starts its own cluster.
const ENDS: [(&str, End); 3] = [
    ("cleanup-interrupted", End::Interrupt),
    ("cleanup-killed", End::Kill),
    ("cleanup-killed-with-keeper", End::KillBoth),
];

/// The environment of a scenario.
struct Bench<'a> {
    cluster: &'a Cluster,
    binary: &'a Path,
}

impl Bench<'_> {
    fn run(&self, name: &str, arguments: &[&str]) -> Result<Ended> {
        run::finish(self.cluster, self.binary, name, arguments)
    }

    /// Runs the binary while the observer watches.
    fn observed(&self, name: &str, arguments: &[&str], allowed: Allowed) -> Result<Ended> {
        let observer = Observer::start(self.cluster, name)?;
        let ended = self.run(name, arguments);
        let samples = observer.end()?;
        let ended = ended?.succeeded()?;
        let judged = observer::judge(&samples, Some(ended.at), allowed)?;
        note(&format!("    {name}: {:.0?}; {judged}", ended.took));
        Ok(ended)
    }

    fn newest_talos(&self) -> &Version {
        &self.cluster.parts.talos[1]
    }

    /// Fails unless every node runs this Talos version and is ready.
    fn every_node_runs(&self, version: &Version) -> Result<()> {
        for node in NODES {
            self.runs(node.name, version)?;
        }
        self.all_is_well()
    }

    fn runs(&self, node: &str, version: &Version) -> Result<()> {
        let output = self.cluster.talosctl(node, &["version", "--short"])?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        // The client prints its own version before the node's.
        let server = said.split_once("Server:").map_or("", |(_, server)| server);
        ensure!(
            server.split_whitespace().any(|word| word == format!("v{version}")),
            "{node} does not run {version}: {said}"
        );
        Ok(())
    }

    fn all_is_well(&self) -> Result<()> {
        let problems = [self.cluster.unready_nodes(), self.cluster.unready_control_planes()];
        if let Some(problem) = problems.into_iter().flatten().next() {
            bail!("{problem}");
        }
        Ok(())
    }

    fn boots(&self) -> Result<Vec<u64>> {
        NODES.iter().map(|node| self.cluster.boots(node.name)).collect()
    }
}

/// All scenarios, each group on its own cluster.
pub(super) fn all(
    folder: &Path,
    parts: &Parts,
    interrupt: &Arc<AtomicBool>,
    binary: &Path,
    only: Option<&str>,
) -> Result<()> {
    let mut failed = Vec::new();
    let mut report = Report::default();
    for (name, end) in ENDS {
        if is_chosen(name, only) && !interrupt.load(Ordering::Relaxed) {
            judge(name, report.stage(name, || cleanup::run(folder, end)), &mut failed);
        }
    }
    for group in [&FIRST[..], &SECOND[..]] {
        let chosen: Vec<&Scenario> =
            group.iter().filter(|scenario| is_chosen(scenario.name, only)).collect();
        if chosen.is_empty() {
            continue;
        }
        let cluster = report
            .stage("cluster", || Cluster::start(folder, parts.clone(), Arc::clone(interrupt)))?;
        some(&Bench { cluster: &cluster, binary }, &chosen, &mut report, &mut failed)?;
    }
    finish(&report, &failed)
}

/// The scenarios on a running cluster.
pub(super) fn on(cluster: &Cluster, binary: &Path, only: Option<&str>) -> Result<()> {
    let mut failed = Vec::new();
    let mut report = Report::default();
    let chosen: Vec<&Scenario> =
        FIRST.iter().chain(&SECOND).filter(|scenario| is_chosen(scenario.name, only)).collect();
    some(&Bench { cluster, binary }, &chosen, &mut report, &mut failed)?;
    finish(&report, &failed)
}

fn is_chosen(name: &str, only: Option<&str>) -> bool {
    only.is_none_or(|only| name.contains(only))
}

fn some(
    bench: &Bench<'_>,
    scenarios: &[&Scenario],
    report: &mut Report,
    failed: &mut Vec<String>,
) -> Result<()> {
    for scenario in scenarios {
        note(&format!("real-talos: {}", scenario.name));
        let done = report.stage(scenario.name, || {
            bench.cluster.settle()?;
            (scenario.run)(bench)
        });
        // Without a cluster, all later scenarios would fail too.
        bench.cluster.check()?;
        judge(scenario.name, done, failed);
    }
    Ok(())
}

fn judge(name: &str, done: Result<()>, failed: &mut Vec<String>) {
    match done {
        Ok(()) => note(&format!("real-talos: {name} passed")),
        Err(error) => {
            note(&format!("real-talos: {name} FAILED: {error:#}"));
            failed.push(format!("{name}: {error:#}"));
        }
    }
}

fn finish(report: &Report, failed: &[String]) -> Result<()> {
    report.print();
    if failed.is_empty() {
        return Ok(());
    }
    bail!("{} scenarios failed on real nodes:\n{}", failed.len(), failed.join("\n"))
}

fn health(bench: &Bench<'_>) -> Result<()> {
    let ended = bench.run("health", &["health"])?.succeeded()?;
    for node in NODES {
        ensure!(
            ended.out.contains(node.name),
            "health does not name {}:\n{}",
            node.name,
            ended.out
        );
    }
    Ok(())
}

/// Compares simulated nodes with real ones.
fn like_simulated(bench: &Bench<'_>) -> Result<()> {
    compare::run(bench.cluster, bench.binary)
}

fn plan(bench: &Bench<'_>) -> Result<()> {
    let (talos, [_, kubernetes]) = (bench.newest_talos(), &bench.cluster.parts.kubernetes);
    let (talos, kubernetes) = (talos.to_string(), kubernetes.to_string());
    let image = installer("siderolabs", &bench.cluster.parts.talos[0]);
    let arguments =
        ["plan", "--talos-to", &talos, "--kubernetes-to", &kubernetes, "--image", &image];
    let before = bench.boots()?;
    let ended = bench.run("plan", &arguments)?.succeeded()?;
    for node in NODES {
        ensure!(
            ended.out.contains(node.name),
            "the plan does not name {}:\n{}",
            node.name,
            ended.out
        );
    }
    ensure!(bench.boots()? == before, "a plan rebooted a node");
    Ok(())
}

fn snapshot(bench: &Bench<'_>) -> Result<()> {
    let folder = bench.cluster.folder.join("snapshots");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let place = folder.display().to_string();
    bench.run("snapshot", &["snapshot", "--dir", &place])?.succeeded()?;
    let file = fs::read_dir(&folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| fs::metadata(path).is_ok_and(|data| data.is_file() && data.len() > 100_000))
        .with_context(|| format!("no snapshot in {place}"))?;
    let etcdutl = bench.cluster.parts.tool("etcdutl")?;
    succeed(Command::new(etcdutl).args(["snapshot", "status"]).arg(&file))
        .context("etcdutl status")?;
    let restored = bench.cluster.folder.join("snapshots/restored");
    succeed(
        Command::new(etcdutl)
            .args(["snapshot", "restore"])
            .arg(&file)
            .arg("--data-dir")
            .arg(&restored),
    )
    .context("etcdutl restore")?;
    ensure!(restored.join("member/snap/db").is_file(), "etcdutl restored no database");
    Ok(())
}

/// The name of an installer on the hub's registry.
fn installer(kind: &str, version: &Version) -> String {
    format!("{IMAGES}/{kind}/installer:v{version}")
}

fn upgrade_os_arguments<'a>(talos: &'a str, image: &'a str) -> [&'a str; 7] {
    ["upgrade", "os", "--yes", "--talos", talos, "--image", image]
}

fn image_missing(bench: &Bench<'_>) -> Result<()> {
    let talos = bench.newest_talos();
    let image = installer("nothing-is-here", talos);
    let before = bench.boots()?;
    bench
        .run("image-missing", &upgrade_os_arguments(&talos.to_string(), &image))?
        .failed_saying(&["nothing-is-here"])?;
    ensure!(bench.boots()? == before, "a node rebooted although its image could not be pulled");
    bench.every_node_runs(&bench.cluster.parts.talos[0])
}

fn installer_fails(bench: &Bench<'_>) -> Result<()> {
    let talos = bench.newest_talos();
    let image = installer("failing", talos);
    let before = bench.boots()?;
    bench
        .run("installer-fails", &upgrade_os_arguments(&talos.to_string(), &image))?
        .failed_saying(&[&INSTALLER_EXIT.to_string()])?;
    ensure!(bench.boots()? == before, "a node rebooted although its installer failed");
    let runs = installer_runs(bench)?;
    ensure!(runs == 1, "the failing installer ran {runs} times in total (rule 5)");
    // The effect of a failed installer is unknown until the node boots.
    let image = installer("siderolabs", talos);
    let refused = bench.run("installer-failed", &upgrade_os_arguments(&talos.to_string(), &image));
    refused?.failed_saying(&["armed"])?;
    ensure!(bench.boots()? == before, "a node rebooted although another image may be armed");
    for node in failed_installers(bench)? {
        reboot(bench, node)?;
    }
    bench.every_node_runs(&bench.cluster.parts.talos[0])
}

/// Boots a node by hand, and waits until it is back.
fn reboot(bench: &Bench<'_>, node: &str) -> Result<()> {
    let output = bench.cluster.talosctl(node, &["reboot", "--wait"])?;
    if let Some(reason) = refused(&output) {
        bail!("rebooting {node}: {reason}");
    }
    bench.cluster.until("the node is back", || Ok(bench.cluster.unready_nodes()))?;
    bench
        .cluster
        .until("control planes are complete", || Ok(bench.cluster.unready_control_planes()))
}

/// How often an installer container failed, according to the nodes' logs.
fn installer_runs(bench: &Bench<'_>) -> Result<usize> {
    NODES.iter().map(|node| failures_of(bench, node.name)).sum()
}

fn failed_installers(bench: &Bench<'_>) -> Result<Vec<&'static str>> {
    let mut found = Vec::new();
    for node in NODES {
        if failures_of(bench, node.name)? > 0 {
            found.push(node.name);
        }
    }
    Ok(found)
}

fn failures_of(bench: &Bench<'_>, node: &str) -> Result<usize> {
    let output = bench.cluster.talosctl(node, &["logs", "machined"])?;
    ensure!(refused(&output).is_none(), "the log of {node}");
    let log = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(log.matches(&format!("installer container exited with code {INSTALLER_EXIT}")).count())
}

fn node_off(bench: &Bench<'_>) -> Result<()> {
    let talos = bench.newest_talos();
    let image = installer("siderolabs", talos);
    let switched = bench.cluster.switch("worker2", "off");
    let off = bench.run("node-off", &upgrade_os_arguments(&talos.to_string(), &image));
    let health = bench.run("node-off-health", &["health"]);
    bench.cluster.switch("worker2", "on")?;
    bench.cluster.until("worker2 is back", || Ok(bench.cluster.unready_nodes()))?;
    switched?;
    off?.failed_saying(&["worker2"])?;
    health?.failed_saying(&["worker2"])?;
    bench.every_node_runs(&bench.cluster.parts.talos[0])
}

/// Across a real minor; killed in the middle and resumed.
fn upgrade_os(bench: &Bench<'_>) -> Result<()> {
    let talos = bench.newest_talos();
    let (version, image) = (talos.to_string(), installer("siderolabs", talos));
    let arguments = upgrade_os_arguments(&version, &image);
    let observer = Observer::start(bench.cluster, "upgrade-os-killed")?;
    let first = run::start(bench.cluster, bench.binary, "upgrade-os-killed", &arguments)?;
    let killed = first.kill_after(bench.cluster, "cp2: reboot started");
    let samples = observer.end()?;
    killed?;
    observer::judge(&samples, None, ROLLING)?;
    bench.observed("upgrade-os-resumed", &["resume"], ROLLING)?;
    bench.every_node_runs(talos)
}

fn upgrade_k8s(bench: &Bench<'_>) -> Result<()> {
    let [_, kubernetes] = &bench.cluster.parts.kubernetes;
    let version = kubernetes.to_string();
    let arguments = ["upgrade", "k8s", "--yes", "--kubernetes", &version];
    bench.observed("upgrade-k8s", &arguments, ROLLING)?;
    every_kubelet_runs(bench, kubernetes)
}

/// One node boots its other slot.
fn rollback_node(bench: &Bench<'_>) -> Result<()> {
    bench.observed("rollback-node", &["rollback", "worker2", "--yes"], ROLLING)?;
    let [oldest, newest] = &bench.cluster.parts.talos;
    for node in NODES {
        bench.runs(node.name, if node.name == "worker2" { oldest } else { newest })?;
    }
    bench.all_is_well()
}

/// Every node goes back one minor of Talos and of etcd, whose data is downgraded first.
fn rollback_os(bench: &Bench<'_>) -> Result<()> {
    let [oldest, _] = &bench.cluster.parts.talos;
    let (version, image) = (oldest.to_string(), installer("siderolabs", oldest));
    let arguments = [&upgrade_os_arguments(&version, &image)[..], &["--rollback"]].concat();
    bench.observed("rollback-os", &arguments, ROLLING)?;
    bench.every_node_runs(oldest)
}

fn every_kubelet_runs(bench: &Bench<'_>, version: &Version) -> Result<()> {
    let columns = "jsonpath={range .items[*]}{.status.nodeInfo.kubeletVersion}{\"\\n\"}{end}";
    let said = bench.cluster.kubectl(&["get", "nodes", "-o", columns])?;
    let right = said.lines().filter(|line| *line == format!("v{version}")).count();
    ensure!(right == NODES.len(), "kubelets run {}", said.replace('\n', " "));
    bench.all_is_well()
}

fn upgrade_both(bench: &Bench<'_>) -> Result<()> {
    let talos = bench.newest_talos();
    let [_, kubernetes] = &bench.cluster.parts.kubernetes;
    let (image, kubernetes_text) = (installer("siderolabs", talos), kubernetes.to_string());
    let talos_text = talos.to_string();
    let arguments = [
        "upgrade",
        "both",
        "--yes",
        "--talos",
        &talos_text,
        "--image",
        &image,
        "--kubernetes",
        &kubernetes_text,
    ];
    bench.observed("upgrade-both", &arguments, ROLLING)?;
    every_kubelet_runs(bench, kubernetes)?;
    bench.every_node_runs(talos)
}

/// A learner that never joins must keep etcd from being reported as healthy.
fn learner(bench: &Bench<'_>) -> Result<()> {
    bench.cluster.learner("add")?;
    let talos = bench.newest_talos();
    let image = installer("siderolabs", talos);
    let before = bench.boots()?;
    let refused = bench.run("learner", &upgrade_os_arguments(&talos.to_string(), &image));
    bench.cluster.learner("remove")?;
    refused?.failed_saying(&["etcd"])?;
    ensure!(bench.boots()? == before, "a node rebooted while etcd had a learner");
    Ok(())
}
