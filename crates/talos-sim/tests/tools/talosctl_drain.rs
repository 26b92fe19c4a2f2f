//! Nodes are drained before they go down: by the real talosctl, and by the nodes themselves where
//! talosctl uses the legacy API.

use serde_json::Value;
use talos_sim::cluster::Options;
use talos_sim::model::{EMPTY_SCHEMATIC, Range, Timings};
use testkit::cluster::SPEED;
use testkit::workloads::{WEB, WEB_BUDGET};
use upgrade_core::version::Version;

use crate::bench::{self, Bench, NODES};
use crate::kubectl::Kubectl;
use crate::talosctl::Talosctl;

/// Pods that are recreated elsewhere, one that is not, and a budget that allows no eviction.
fn workloads() -> String {
    let web = WEB.replace("replicas: 2", "replicas: 4");
    let budget = WEB_BUDGET.replace("minAvailable: 1", "minAvailable: 4");
    format!("{web}---\n{ALONE}---\n{budget}")
}

const ALONE: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: alone}
spec: {nodeName: worker-1, containers: [{name: alone, image: 'example.com/alone:1'}]}
";

fn upgrade(node: &str, tag: &str) -> String {
    let image = format!("factory.talos.dev/metal-installer/{EMPTY_SCHEMATIC}:{tag}");
    format!("-n {node} upgrade --image {image} --wait --timeout 3m")
}

/// A cluster at this speed, whose nodes are still down for more than a second of real time.
pub(crate) fn options(talos: &Version, speed: f64) -> Options {
    let (least, most) = if speed > SPEED { (150, 170) } else { (12, 14) };
    Options {
        speed,
        timings: Timings { reboot: Range::secs(least, most), ..bench::timings() },
        ..bench::options(talos, 2)
    }
}

/// Five simulated minutes are one real minute here, which leaves time to check.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_1_12_drains_itself() {
    let bench = Bench::with(options(&NODES[0], 5.0)).await;
    drains_itself(&bench, &bench.talosctl("1.12"), "v1.13.9").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_1_13_drains_itself_with_the_legacy_api() {
    let bench = Bench::with(options(&NODES[1], 5.0)).await;
    drains_itself(&bench, &bench.talosctl("1.12"), "v1.14.1").await;
}

/// Five simulated minutes are five real seconds here.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_drains_itself_times_out() {
    let bench = Bench::with(options(&NODES[0], 60.0)).await;
    loses_patience(&bench, &bench.talosctl("1.13")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn talosctl_1_13_drains() {
    let bench = Bench::start(&NODES[1], 2).await;
    drains(&bench, &bench.talosctl("1.13")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn talosctl_1_14_drains() {
    let bench = Bench::start(&NODES[1], 2).await;
    drains(&bench, &bench.talosctl("1.14")).await;
}

async fn create_workloads(kubectl: &Kubectl<'_>) {
    kubectl.ok_with("apply -f -", &workloads()).await;
    kubectl.ok("rollout status deployment/web --timeout=300s").await;
    kubectl.ok("wait --for=condition=Ready pod/alone --timeout=300s").await;
    kubectl.ok("wait --for=jsonpath={.status.currentHealthy}=4 pdb/web --timeout=300s").await;
}

async fn allow(kubectl: &Kubectl<'_>) {
    kubectl.ok("patch pdb web -p '{\"spec\":{\"minAvailable\":2}}'").await;
}

pub(crate) async fn drains_itself(bench: &Bench, talosctl: &Talosctl<'_>, to: &str) {
    let kubectl = bench.kubectl();
    create_workloads(&kubectl).await;
    let worker = bench.node("worker-1");
    let before = talosctl.boot_id(&worker).await;
    let held = pods_on(&kubectl, "worker-1").await;
    assert!(!held.is_empty(), "the scheduler spreads them");
    let line = upgrade(&worker, to);
    let relaxing = async {
        // The node cordons itself, and the budget blocks the drain.
        let cordoned = "{.metadata.annotations.talos\\.dev/cordoned}=true";
        kubectl.ok(&format!("wait --for=jsonpath={cordoned} node/worker-1 --timeout=300s")).await;
        assert_eq!(pods_on(&kubectl, "worker-1").await, held);
        assert_eq!(talosctl.boot_id(&worker).await, before);
        allow(&kubectl).await;
    };
    let (printed, ()) = tokio::join!(talosctl.run(&line), relaxing);
    assert_eq!(printed.code, Some(0), "{printed:#?}");
    assert!(printed.stderr.contains("task: cordonAndDrainNode action: STOP"), "{printed:#?}");
    talosctl.reboots_into(&worker, &before, to).await;
    moved_and_uncordoned(&kubectl).await;
    // No controller would have recreated this one.
    let alone = kubectl.get("pod alone").await;
    assert_eq!(alone["spec"]["nodeName"], "worker-1");
}

pub(crate) async fn loses_patience(bench: &Bench, talosctl: &Talosctl<'_>) {
    let kubectl = bench.kubectl();
    create_workloads(&kubectl).await;
    let worker = bench.node("worker-1");
    let before = talosctl.boot_id(&worker).await;
    let held = pods_on(&kubectl, "worker-1").await;
    talosctl.ok(&upgrade(&worker, "v1.13.9")).await;
    talosctl.reboots_into(&worker, &before, "v1.13.9").await;
    // They went down with the node and came back with it.
    assert_eq!(pods_on(&kubectl, "worker-1").await, held);
    let node = kubectl.get("node worker-1").await;
    assert_eq!(node["spec"]["unschedulable"], Value::Null, "{node}");
}

pub(crate) async fn drains(bench: &Bench, talosctl: &Talosctl<'_>) {
    let kubectl = bench.kubectl();
    create_workloads(&kubectl).await;
    let worker = bench.node("worker-1");
    let before = talosctl.boot_id(&worker).await;
    // The budget blocks the drain: the node stays up, cordoned.
    let held = pods_on(&kubectl, "worker-1").await;
    let reboot = format!("-n {worker} reboot --wait --timeout 3m --drain");
    let named = format!("pods/\"{}\" -n \"default\"", held[0].0);
    talosctl.fails(&format!("{reboot} --drain-timeout 3s"), &["error when evicting", &named]).await;
    kubectl.says("get node worker-1", &["Ready,SchedulingDisabled"]).await;
    assert_eq!(talosctl.boot_id(&worker).await, before);
    assert_eq!(pods_on(&kubectl, "worker-1").await, held);

    allow(&kubectl).await;
    talosctl.says(&reboot, &["post check passed"]).await;
    talosctl.reboots_into(&worker, &before, "v1.13.9").await;
    moved_and_uncordoned(&kubectl).await;
    // That one was evicted too: talosctl forces.
    kubectl.fails("get pod alone", &["NotFound"]).await;

    // An upgrade drains unless told otherwise.
    let second = bench.node("worker-2");
    let before = talosctl.boot_id(&second).await;
    let mut watch = kubectl.follow("get node worker-2 -w");
    talosctl.ok(&upgrade(&second, "v1.14.1")).await;
    watch.until(&["Ready,SchedulingDisabled"]).await;
    watch.until(&["NotReady"]).await;
    talosctl.reboots_into(&second, &before, "v1.14.1").await;
    kubectl.ok("wait --for=condition=Ready node/worker-2 --timeout=300s").await;
    assert_eq!(pods_on(&kubectl, "worker-2").await, []);
    assert_eq!(pods_on(&kubectl, "worker-1").await.len(), 4);
    // The older talosctl does not have the flag.
    bench.talosctl("1.12").fails(&reboot, &["unknown flag: --drain"]).await;
}

/// The pods of the deployment have left the first worker for good.
async fn moved_and_uncordoned(kubectl: &Kubectl<'_>) {
    kubectl.ok("wait --for=condition=Ready node/worker-1 --timeout=300s").await;
    let node = kubectl.get("node worker-1").await;
    assert_eq!(node["spec"]["unschedulable"], Value::Null, "{node}");
    kubectl.ok("rollout status deployment/web --timeout=300s").await;
    assert_eq!(pods_on(kubectl, "worker-1").await, []);
    assert_eq!(pods_on(kubectl, "worker-2").await.len(), 4);
}

/// The deployment's pods on a node: their names and UIDs.
async fn pods_on(kubectl: &Kubectl<'_>, node: &str) -> Vec<(String, String)> {
    let selected = format!("pods -l app=web --field-selector spec.nodeName={node}");
    let pods = kubectl.get(&selected).await;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pods = pods["items"].as_array().expect("pods").iter();
    pods.map(|pod| (text(&pod["metadata"]["name"]), text(&pod["metadata"]["uid"]))).collect()
}
