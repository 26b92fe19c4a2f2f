//! The real talosctl changes nodes: configuration, images, reboots, upgrades by the legacy and the
//! lifecycle API, rollbacks.

use talos_sim::model::{EMPTY_SCHEMATIC, World};

use crate::bench::{Bench, NODES};
use crate::talosctl::Talosctl;

fn installer(tag: &str) -> String {
    format!("factory.talos.dev/metal-installer/{EMPTY_SCHEMATIC}:{tag}")
}

#[tokio::test(flavor = "multi_thread")]
async fn talosctl_1_12_upgrades_1_12_by_the_legacy_api() {
    let bench = Bench::start(&NODES[0], 2).await;
    upgrades(&bench, &bench.talosctl("1.12"), "v1.12.11", "v1.13.9", "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn talosctl_1_13_upgrades_1_12_by_the_legacy_api() {
    let bench = Bench::start(&NODES[0], 2).await;
    upgrades(&bench, &bench.talosctl("1.13"), "v1.12.11", "v1.13.9", "--drain=false").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn talosctl_1_13_upgrades_1_13_by_the_lifecycle_api() {
    let bench = Bench::start(&NODES[1], 2).await;
    upgrades(&bench, &bench.talosctl("1.13"), "v1.13.9", "v1.14.1", "--drain=false").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn talosctl_1_14_upgrades_1_13_by_the_lifecycle_api() {
    let bench = Bench::start(&NODES[1], 2).await;
    upgrades(&bench, &bench.talosctl("1.14"), "v1.13.9", "v1.14.1", "--drain=false").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn talosctl_1_12_upgrades_1_13_by_the_legacy_api() {
    let bench = Bench::start(&NODES[1], 2).await;
    upgrades(&bench, &bench.talosctl("1.12"), "v1.13.9", "v1.14.1", "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_talosctl_changes_each_line() {
    for nodes in &NODES {
        let bench = Bench::start(nodes, 1).await;
        for talosctl in bench.each_talosctl() {
            configures(&bench, &talosctl).await;
            pulls(&talosctl).await;
            gives_leadership_away(&bench, &talosctl).await;
            downgrades_etcd(&bench, &talosctl, if *nodes == NODES[2] { 7 } else { 6 }).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_talosctl_reboots_each_line() {
    let benches = [
        Bench::start(&NODES[0], 2).await,
        Bench::start(&NODES[1], 2).await,
        Bench::start(&NODES[2], 2).await,
    ];
    for bench in &benches {
        for talosctl in bench.each_talosctl() {
            let node = bench.node("worker-1");
            let before = talosctl.boot_id(&node).await;
            let both = format!("-n {node},{} reboot --wait", bench.node("worker-2"));
            talosctl.says(&both, &["post check passed"]).await;
            talosctl.reboots_into(&node, &before, &tag(bench, &talosctl).await).await;
            talosctl.up(&bench.node("worker-2")).await;
        }
    }
}

/// A version that the workers of these tests keep.
async fn tag(bench: &Bench, talosctl: &Talosctl<'_>) -> String {
    talosctl.version_of(&bench.node("cp-1")).await
}

async fn upgrades(bench: &Bench, talosctl: &Talosctl<'_>, from: &str, to: &str, flags: &str) {
    let node = bench.node("worker-2");
    let boot_id = async || talosctl.boot_id(&node).await;
    assert_eq!(talosctl.version_of(&node).await, from);
    let upgrade = |image: &str| format!("-n {node} upgrade --wait --image {image} {flags}");
    talosctl.fails(&upgrade(&installer("v1.99.0")), &["not found"]).await;
    // Too old for the running Kubernetes: the installer refuses.
    // With the legacy API the node is already in its sequence, and reboots.
    let before = boot_id().await;
    talosctl.fails(&upgrade(&installer("v1.9.0")), &["exit code 2"]).await;
    if flags.is_empty() || from == "v1.12.11" {
        talosctl.reboots_into(&node, &before, from).await;
    }
    talosctl.up(&node).await;

    let before = boot_id().await;
    talosctl.says(&upgrade(&installer(to)), &["post check passed"]).await;
    talosctl.reboots_into(&node, &before, to).await;
    let schematic = talosctl.get(&format!("extensions -n {node}")).await;
    assert_eq!(schematic[0]["spec"]["metadata"]["version"], EMPTY_SCHEMATIC);
    let before = boot_id().await;
    talosctl.ok(&format!("-n {node} rollback")).await;
    talosctl.reboots_into(&node, &before, from).await;

    // One that does not boot falls back by itself: the node comes up again with its old version.
    // talosctl does not notice (this is why rule 5 exists).
    bench.cluster.inject("worker-2", "boot-back").await.expect("a fault");
    let before = boot_id().await;
    talosctl.says(&upgrade(&installer(to)), &["post check passed"]).await;
    talosctl.reboots_into(&node, &before, from).await;
}

async fn configures(bench: &Bench, talosctl: &Talosctl<'_>) {
    let worker = bench.node("worker-1");
    let config = talosctl.ok(&format!("-n {worker} get mc v1alpha1 -o jsonpath={{.spec}}")).await;
    // Each talosctl sets the same label to its own value.
    let value = format!("v{}", talosctl.line.replace('.', "-"));
    let label = format!("door: {value}");
    let changed = match config.split_once("        door: ") {
        Some((before, after)) => {
            let after = after.split_once('\n').map_or("", |(_, rest)| rest);
            format!("{before}        {label}\n{after}")
        }
        None => {
            config.replacen("machine:", &format!("machine:\n    nodeLabels:\n        {label}"), 1)
        }
    };
    let file = bench.file("changed.yaml", &changed);
    let apply = format!("-n {worker} apply-config -f {}", file.display());
    talosctl.says(&format!("{apply} --dry-run"), &[&format!("+        {label}")]).await;
    assert!(!talosctl.ok(&format!("-n {worker} get mc -o yaml")).await.contains(&label));
    talosctl.says(&format!("{apply} --mode no-reboot"), &["without a reboot"]).await;
    talosctl.says(&format!("-n {worker} get mc -o yaml"), &[&label]).await;

    let patch =
        format!(r#"{{"machine":{{"sysctls":{{"vm.swappiness":"{}"}}}}}}"#, &talosctl.line[2..]);
    let patched = ["patched MachineConfigs.config.talos.dev/v1alpha1", "without a reboot"];
    talosctl.says(&format!("-n {worker} patch mc --mode no-reboot -p {patch}"), &patched).await;
    talosctl.says(&format!("-n {worker} get mc -o yaml"), &["vm.swappiness"]).await;

    let nonsense = bench.file("nonsense.yaml", "version: v1alpha1\nmachine: {type: toaster}\n");
    let apply = format!("-n {worker} apply-config -f {}", nonsense.display());
    talosctl.fails(&apply, &["code = InvalidArgument"]).await;
}

async fn pulls(talosctl: &Talosctl<'_>) {
    let image = "registry.k8s.io/kube-scheduler:v1.34.3";
    talosctl.ok(&format!("image pull {image}")).await;
    talosctl.says("image list", &[image]).await;
    talosctl.fails("image pull ghcr.io/nobody/nothing:v1", &["not found"]).await;
}

/// Lowers etcd by a minor and cancels that.
async fn downgrades_etcd(bench: &Bench, talosctl: &Talosctl<'_>, runs: u64) {
    let lower = format!("3.{}", runs - 1);
    let success = |what: &str| format!("downgrade {what} success, cluster version 3.{runs}");
    let validate = format!("etcd downgrade validate {lower}");
    talosctl.says(&validate, &[&success("validate")]).await;
    talosctl.says(&format!("etcd downgrade enable {lower}"), &[&success("enable")]).await;
    let is_at = |minor| move |world: &World| world.etcd_truth().cluster_minor == minor;
    bench.until("etcd at the lower minor", is_at(runs - 1)).await;
    talosctl.says("etcd status", &[&format!("{lower}.0")]).await;
    talosctl.fails(&validate, &["invalid downgrade target version"]).await;
    talosctl.says("etcd downgrade cancel", &["downgrade cancel success"]).await;
    bench.until("etcd at its own minor", is_at(runs)).await;
    talosctl.fails("etcd downgrade validate 3.4", &["only supported to 3.5"]).await;
}

async fn gives_leadership_away(bench: &Bench, talosctl: &Talosctl<'_>) {
    let before = leader(bench, talosctl).await;
    talosctl.ok(&format!("-n {before} etcd forfeit-leadership")).await;
    let last = before.clone();
    bench
        .until("another leader", move |world| {
            let leader = world.etcd_truth().leader;
            leader.is_some() && leader != world.find(&last)
        })
        .await;
    assert_ne!(leader(bench, talosctl).await, before);
}

/// The node whose etcd member leads.
async fn leader(bench: &Bench, talosctl: &Talosctl<'_>) -> String {
    let nodes = ["cp-1", "cp-2", "cp-3"].map(|name| bench.node(name)).join(",");
    let status = talosctl.ok(&format!("-n {nodes} etcd status")).await;
    let rows = status.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let led = rows.filter(|row| row.iter().skip(2).any(|word| *word == row[1]));
    led.map(|row| row[0].to_owned()).next().unwrap_or_else(|| panic!("no leader: {status}"))
}
