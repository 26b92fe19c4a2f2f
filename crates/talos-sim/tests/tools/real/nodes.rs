//! The nodes of a simulated cluster at a real API server, with the real
//! controllers, scheduler and kubectl.

use envtest::Component;
use serde_json::Value;
use talos_sim::model::NodeTruth;
use testkit::workloads::{DATABASE, web_held};

use crate::bench::{Bench, NODES};

/// A pod that mounts its own volume.
fn database() -> String {
    let image = "image: 'example.com/db:1'";
    let mounted = format!("{image}, volumeMounts: [{{name: data, mountPath: /data}}]");
    DATABASE.replace(image, &mounted)
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_register_and_show_their_static_pods() {
    let bench = Bench::start_real(&NODES[1], 1).await;
    let kubectl = bench.kubectl();
    kubectl.says("get nodes -o wide", &["cp-3", "Talos (v1.13.9)", &bench.node("worker-1")]).await;
    let node = kubectl.get("node cp-1").await;
    assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "v1.34.2");
    assert_eq!(node["spec"]["taints"][0]["key"], "node-role.kubernetes.io/control-plane");

    // The mirror pods show the node's static pods.
    let talosctl = bench.talosctl("1.13");
    let cp = bench.node("cp-1");
    let wanted = talosctl.get(&format!("-n {cp} staticpods kube-apiserver")).await;
    let image = &wanted[0]["spec"]["spec"]["containers"][0]["image"];
    let pod = kubectl.get("-n kube-system pod kube-apiserver-cp-1").await;
    assert_eq!(pod["spec"]["containers"][0]["image"], *image, "{pod:#}");
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!(annotations["kubernetes.io/config.source"], "http");
    assert_eq!(
        annotations["kubernetes.io/config.hash"],
        annotations["kubernetes.io/config.mirror"]
    );
    assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], node["metadata"]["uid"]);
    // Deleting one does not end the static pod: the mirror pod is recreated.
    let uid = pod["metadata"]["uid"].clone();
    kubectl.ok("-n kube-system delete pod kube-apiserver-cp-1").await;
    kubectl.ok("-n kube-system wait --for=create pod/kube-apiserver-cp-1 --timeout=300s").await;
    let again = kubectl.get("-n kube-system pod kube-apiserver-cp-1").await;
    assert_ne!(again["metadata"]["uid"], uid);

    // Leases are renewed.
    let lease = "-n kube-node-lease lease worker-1";
    let renewed = kubectl.get(lease).await["spec"]["renewTime"].clone();
    kubectl.until(lease, |lease| lease["spec"]["renewTime"] != renewed).await;

    // A cordon is synchronised in both directions.
    let worker = bench.node("worker-1");
    kubectl.ok("cordon worker-1").await;
    talosctl
        .until(&format!("-n {worker} get nodestatuses -w -o yaml"), &["unschedulable: true"])
        .await;
    kubectl.ok("uncordon worker-1").await;
    talosctl
        .until(&format!("-n {worker} get nodestatuses -w -o yaml"), &["unschedulable: false"])
        .await;
    bench.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_meets_a_budget_and_a_volume_moves() {
    let bench = Bench::start_real(&NODES[2], 2).await;
    let kubectl = bench.kubectl();
    kubectl.ok_with("apply -f -", &web_held()).await;
    kubectl.ok_with("apply -f -", &database()).await;
    kubectl.ok("rollout status deployment/web --timeout=300s").await;
    kubectl.ok("rollout status statefulset/db --timeout=300s").await;
    let pod = kubectl.get("pod db-0").await;
    let node = pod["spec"]["nodeName"].as_str().expect("a node").to_owned();
    let volumes = kubectl.get("volumeattachments").await;
    assert_eq!(volumes["items"][0]["spec"]["nodeName"], node.as_str(), "{volumes:#}");
    assert_eq!(volumes["items"][0]["status"]["attached"], true, "{volumes:#}");

    // The pods of the deployment are spread, so one of them is also on this node.
    let drain = format!("drain {node} --ignore-daemonsets");
    kubectl
        .fails(
            &format!("{drain} --timeout=20s"),
            &["Cannot evict pod as it would violate the pod's disruption budget"],
        )
        .await;
    kubectl.ok("patch pdb web -p '{\"spec\":{\"minAvailable\":1}}'").await;
    kubectl.says(&format!("{drain} --timeout=300s"), &[&format!("node/{node} drained")]).await;
    kubectl.ok("rollout status deployment/web --timeout=300s").await;
    kubectl.ok("rollout status statefulset/db --timeout=300s").await;
    let pods = kubectl.get("pods").await;
    for pod in pods["items"].as_array().expect("pods") {
        assert_ne!(pod["spec"]["nodeName"], node.as_str(), "{pod}");
    }
    let moved = |list: &Value| {
        let items = list["items"].as_array().expect("a list");
        items.len() == 1 && items[0]["spec"]["nodeName"] != node.as_str()
    };
    kubectl.until_list("volumeattachments", moved).await;

    // Without its claim, the volume goes too.
    let volume = kubectl.ok("get pvc data-db-0 -o jsonpath={.spec.volumeName}").await;
    kubectl.ok("delete statefulset db").await;
    kubectl.ok("delete pvc data-db-0").await;
    kubectl.ok(&format!("wait --for=delete persistentvolume/{volume} --timeout=300s")).await;
    let volumes = kubectl.get("persistentvolumes").await;
    assert_eq!(volumes["items"], serde_json::json!([]));
    bench.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_reboots_or_is_silent_is_not_ready() {
    let bench = Bench::start_real(&NODES[0], 1).await;
    let kubectl = bench.kubectl();
    let talosctl = bench.talosctl("1.12");
    let worker = bench.node("worker-1");
    kubectl.ok_with("apply -f -", &web_held()).await;
    kubectl.ok("rollout status deployment/web --timeout=300s").await;
    let boot = kubectl.get("node worker-1").await["status"]["nodeInfo"]["bootID"].clone();
    let mut watch = kubectl.follow("get node worker-1 -w");
    watch.until(&["worker-1", " Ready"]).await;
    talosctl.ok(&format!("-n {worker} reboot --wait --timeout 5m")).await;
    watch.until(&["NotReady"]).await;
    watch.until(&["worker-1", " Ready"]).await;
    kubectl.until("node worker-1", |node| node["status"]["nodeInfo"]["bootID"] != boot).await;
    let restarted = |pods: &Value| {
        let pods = pods["items"].as_array().expect("pods");
        !pods.is_empty()
            && pods.iter().all(|pod| {
                let container = &pod["status"]["containerStatuses"][0];
                container["restartCount"] == 1 && container["ready"] == true
            })
    };
    kubectl.until_list("pods -l app=web", restarted).await;
    bench.wait_until_up().await;

    // A node that is cut off: the controllers notice, and its pods count as unready.
    bench.cluster.inject("worker-1", "partition").await.expect("a fault");
    watch.until(&["NotReady"]).await;
    let ready = |pods: &Value, wanted: &str| {
        let pods = pods["items"].as_array().expect("pods");
        !pods.is_empty()
            && pods.iter().all(|pod| {
                let conditions = pod["status"]["conditions"].as_array().expect("conditions");
                conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == wanted)
            })
    };
    kubectl.until_list("pods -l app=web", |pods| ready(pods, "False")).await;
    bench.cluster.clear("worker-1", "partition").await.expect("the fault was cleared");
    watch.until(&["worker-1", " Ready"]).await;
    kubectl.until_list("pods -l app=web", |pods| ready(pods, "True")).await;
    // The same with a kubelet that answers and reports its node as not ready.
    bench.cluster.inject("worker-1", "not-ready").await.expect("a fault");
    watch.until(&["NotReady"]).await;
    bench.cluster.clear("worker-1", "not-ready").await.expect("the fault was cleared");
    watch.until(&["worker-1", " Ready"]).await;
    kubectl.until_list("pods -l app=web", |pods| ready(pods, "True")).await;
    bench.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_survive_an_api_server_outage() {
    let mut bench = Bench::start_real(&NODES[1], 1).await;
    let mut plane = bench.plane.take().expect("a control plane");
    let killing = tokio::task::spawn_blocking(move || {
        plane.runs.kill(Component::ApiServer).expect("killed");
        plane
    });
    let mut plane = killing.await.expect("no panic");
    // Meanwhile a node goes down and comes back.
    let talosctl = bench.talosctl("1.13");
    let worker = bench.node("worker-1");
    let before = talosctl.boot_id(&worker).await;
    let line = format!("-n {worker} reboot --wait --timeout 5m");
    let restarting = async {
        let back = move |it: NodeTruth<'_>| it.boot_id() != before && it.is_running();
        bench.until_node("is back", &worker, back).await;
        let restarting = tokio::task::spawn_blocking(move || {
            plane.runs.restart(Component::ApiServer).expect("restarted");
            // The controllers exit during a long outage, so they are restarted.
            plane.runs.restart(Component::ControllerManager).expect("restarted");
            plane.runs.restart(Component::Scheduler).expect("restarted");
            plane
        });
        restarting.await.expect("no panic")
    };
    let (_, plane) = tokio::join!(talosctl.ok(&line), restarting);
    bench.plane = Some(plane);
    bench.wait_until_up().await;
    let kubectl = bench.kubectl();
    kubectl.ok_with("apply -f -", &web_held()).await;
    kubectl.ok("rollout status deployment/web --timeout=300s").await;
    let lease = "-n kube-node-lease lease cp-2";
    let renewed = kubectl.get(lease).await["spec"]["renewTime"].clone();
    kubectl.until(lease, |lease| lease["spec"]["renewTime"] != renewed).await;
    bench.cluster.stop().await;
}
