//! The real talosctl 1.12, 1.13 and 1.14 read from nodes of each of these lines.

use serde_json::Value;
use talos_sim::model::EMPTY_SCHEMATIC;
use testkit::tool;
use tokio::process::Command;

use crate::bench::{Bench, NODES};
use crate::talosctl::Talosctl;

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_1_12() {
    reads(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_1_13() {
    reads(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_1_14() {
    reads(2).await;
}

async fn reads(line: usize) {
    let bench = Bench::start(&NODES[line], 1).await;
    for talosctl in bench.each_talosctl() {
        machine(&bench, &talosctl, &NODES[line].tag()).await;
        resources(&bench, &talosctl).await;
        streams(&bench, &talosctl).await;
        etcd(&bench, &talosctl).await;
        let images = talosctl.ok("image list").await;
        assert!(images.contains("registry.k8s.io/kube-apiserver:v1.34.2"), "{images}");
    }
}

async fn machine(bench: &Bench, talosctl: &Talosctl<'_>, tag: &str) {
    let (first, worker) = (bench.node("cp-1"), bench.node("worker-1"));
    let version = talosctl.ok(&format!("-n {first},{worker} version")).await;
    let server = version.split("Server:").nth(1).unwrap_or_default();
    assert_eq!(server.matches(&format!("Tag:         {tag}\n")).count(), 2, "{version}");
    for node in [&first, &worker] {
        assert!(version.contains(&format!("NODE:        {node}\n")), "{version}");
    }
    // By name too, since the nodes know each other's.
    assert_eq!(talosctl.version_of("worker-1").await, tag);

    let services = talosctl.ok(&format!("-n {first},{worker} services")).await;
    let running = |node: &str, service: &str| {
        services.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.starts_with(&[node, service, "Running"])
        })
    };
    assert!(running(&first, "etcd") && running(&worker, "kubelet"), "{services}");
    assert!(!running(&worker, "etcd"), "{services}");
    talosctl.says("service kubelet", &["STATE    Running", "HEALTH   OK"]).await;

    let boot_id = talosctl.ok("read /proc/sys/kernel/random/boot_id").await;
    assert_eq!(boot_id.trim().split('-').count(), 5, "{boot_id}");
    talosctl.says("read /etc/os-release", &[&format!("VERSION_ID={tag}")]).await;
    talosctl.says("memory", &["TOTAL"]).await;
    talosctl.says("mounts", &["/var"]).await;
    talosctl.says("containers", &["kubelet"]).await;
    talosctl.says("health --wait-timeout 1m", &["etcd to be healthy: OK"]).await;
}

async fn resources(bench: &Bench, talosctl: &Talosctl<'_>) {
    let members = talosctl.get("members").await;
    let field = |value: &Value, path: &str| value.pointer(path).cloned().unwrap_or_default();
    let names: Vec<Value> = members.iter().map(|member| field(member, "/spec/hostname")).collect();
    assert_eq!(names, ["cp-1", "cp-2", "cp-3", "worker-1"]);
    assert_eq!(field(&members[3], "/spec/machineType"), "worker");
    assert_eq!(field(&members[0], "/spec/addresses/0"), bench.node("cp-1"));
    assert_eq!(field(&members[0], "/node"), bench.node("cp-1"));

    talosctl.says("get members", &["HOSTNAME", "MACHINE TYPE", "ADDRESSES"]).await;
    talosctl.says("get machinestatus -o yaml", &["stage: running", "ready: true"]).await;
    let worker = bench.node("worker-1");
    let nodename = talosctl.get(&format!("-n {worker} nodename")).await;
    assert_eq!(field(&nodename[0], "/spec/nodename"), "worker-1");
    let extensions = talosctl.get("extensions").await;
    assert_eq!(field(&extensions[0], "/spec/metadata/name"), "schematic");
    assert_eq!(field(&extensions[0], "/spec/metadata/version"), EMPTY_SCHEMATIC);
    let kubelet = talosctl.get("services kubelet").await;
    assert_eq!(field(&kubelet[0], "/spec/healthy"), true);
    talosctl.says("get links -o yaml", &["id: lo", "operationalState:"]).await;
    talosctl.says("get mc v1alpha1 -o yaml", &["type: controlplane"]).await;
    talosctl.says("get rd", &["machinestatuses.runtime.talos.dev"]).await;
    // Several nodes in one call.
    let several = format!("get machinestatus -n {},{worker}", bench.node("cp-2"));
    talosctl.says(&several, &[&bench.node("cp-2"), &worker]).await;
}

async fn streams(bench: &Bench, talosctl: &Talosctl<'_>) {
    talosctl.until("get machinestatus -w", &["running"]).await;
    talosctl.until("events --tail 3", &["MachineStatusEvent"]).await;
    talosctl.says("dmesg", &["booting Talos"]).await;
    let worker = bench.node("worker-1");
    let both = format!("-n {},{worker} logs kubelet", bench.node("cp-1"));
    talosctl.says(&both, &[&format!("{worker}: "), "worker-1"]).await;
}

async fn etcd(bench: &Bench, talosctl: &Talosctl<'_>) {
    let members = talosctl.ok("etcd members").await;
    for name in ["cp-1", "cp-2", "cp-3"] {
        assert!(members.contains(name), "{members}");
    }
    let [one, two, three] = ["cp-1", "cp-2", "cp-3"].map(|name| bench.node(name));
    let status = talosctl.ok(&format!("-n {one},{two},{three} etcd status")).await;
    assert_eq!(status.lines().count(), 4, "{status}");
    assert_eq!(talosctl.ok("etcd alarm list").await.trim(), "");
    talosctl.ok("etcd defrag").await;

    let file = format!("snapshot-{}.db", talosctl.line);
    talosctl.says(&format!("etcd snapshot {file}"), &["snapshot info: hash"]).await;
    let checked = Command::new(tool("etcdutl"))
        .args(["snapshot", "status", &file, "--write-out", "json"])
        .current_dir(bench.folder.path())
        .output()
        .await
        .expect("etcdutl runs");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let checked: Value = serde_json::from_slice(&checked.stdout).expect("JSON");
    assert!(checked["totalKey"].as_u64() > Some(0), "{checked}");
}
