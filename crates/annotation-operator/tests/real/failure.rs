//! A run that fails, and the retry that the seed describes; another cluster is broken.

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt};
use talos_sim::cluster::Cluster;
use testkit::annotation;
use testkit::cluster::simulated;
use upgrade_core::jiff::SignedDuration;

use crate::world::{World, node_of, operator_with};

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_names_its_node_and_is_retried_by_setting_the_target_again() {
    let world = World::start("fails").await;
    let cluster = simulated("fails", 1, "1.12.11", "1.34.2").await;
    world.register("fails", &cluster).await;
    // The keys of another cluster are broken: its object says so, and no other
    // cluster waits for it.
    world.keys("broken", "contexts: {}", "not a kubeconfig").await;
    world.cluster("broken").await;
    let operator = world.operator("first");
    world.annotated("fails", "talos-status", "idle").await;
    cluster.inject("worker-1", "boot-back").await.expect("a fault");
    world.annotate("fails", &["talos-target=1.13.9"]).await;
    world.annotate("broken", &["talos-target=1.13.9"]).await;
    let object = world.annotated("fails", "talos-status", "failed").await;
    assert!(annotation(&object, "talos-message").contains("worker-1"), "{object:#}");
    assert_eq!(object["status"]["phase"], "UpgradeFailed");
    let run = world.run_of("fails").await.expect("a run");
    assert_eq!(run["status"]["phase"], "Halted");
    let worker = node_of(&run, "worker-1");
    assert_eq!((&worker["state"], &worker["failure"]), (&"failed".into(), &"boot-back".into()));
    world.annotated("broken", "talos-status", "failed").await;
    let refused = world.run_of("broken").await.expect("a run");
    assert_eq!(refused["status"]["phase"], "Halted");
    assert_eq!(refused["spec"]["hash"], "", "it cannot be observed, so there is no plan");

    // The commands of the seed.
    cluster.clear("worker-1", "boot-back").await.expect("no fault");
    world
        .shell(
            "# Remove the target annotation
             kubectl annotate kubernetescluster fails \\
               upgrade.vitistack.io/talos-target-
             # Set it again to retry
             kubectl annotate kubernetescluster fails \\
               upgrade.vitistack.io/talos-target=\"1.13.9\"",
        )
        .await;
    let object = world.annotated("fails", "talos-status", "completed").await;
    assert_eq!(annotation(&object, "talos-current"), "1.13.9");
    assert_eq!(annotation(&object, "talos-progress"), "4/4");
    assert_eq!(object["status"]["phase"], "Ready");
    let again = world.run_of("fails").await.expect("a run");
    assert_ne!(again["metadata"]["name"], run["metadata"]["name"]);
    let plan: serde_json::Value =
        serde_json::from_str(again["spec"]["plan"].as_str().expect("text")).expect("a plan");
    assert_eq!(plan["parent"], run["spec"]["hash"], "rule 9: the plan names the one it replaces");
    operator.stop().await;
    cluster.stop().await;
}

/// The nodes of a simulated cluster that are cordoned.
async fn cordoned(cluster: &Cluster) -> Vec<String> {
    let keys = Kubeconfig::from_yaml(cluster.kubeconfig()).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(keys, &KubeConfigOptions::default()).await;
    let client = Client::try_from(config.expect("a configuration")).expect("a client");
    let nodes: Api<Node> = Api::all(client);
    let nodes = nodes.list(&ListParams::default()).await.expect("nodes");
    let cordoned =
        |node: &&Node| node.spec.as_ref().is_some_and(|it| it.unschedulable == Some(true));
    nodes.iter().filter(cordoned).map(ResourceExt::name_any).collect()
}

/// Rule 7: a node was down when its run halted, and stays cordoned. The next run
/// uncordons it, although a run without a plan came in between.
#[tokio::test(flavor = "multi_thread")]
async fn a_cordon_that_a_failed_run_left_is_lifted_by_the_next() {
    let world = World::start("left").await;
    let cluster = simulated("left", 1, "1.12.11", "1.34.2").await;
    world.register("left", &cluster).await;
    cluster.inject("worker-1", "never-returns").await.expect("a fault");
    let (settings, mut impatient) = world.settings("first");
    let timeouts = &mut impatient.policy.timeouts;
    timeouts.install = SignedDuration::from_secs(20);
    timeouts.reboot = SignedDuration::from_secs(10);
    let operator = operator_with((settings, impatient));
    world.annotate("left", &["talos-target=1.13.9"]).await;
    let object = world.annotated("left", "talos-status", "failed").await;
    assert!(annotation(&object, "talos-message").contains("worker-1"), "{object:#}");
    let run = world.run_of("left").await.expect("a run");
    assert_eq!(node_of(&run, "worker-1")["cordoned"], true, "{run:#}");
    assert_eq!(cordoned(&cluster).await, ["worker-1"]);
    operator.stop().await;

    // A run that cannot reach the cluster has no plan, and knows of no cordon.
    world.keys("left", "contexts: {}", "not a kubeconfig").await;
    let operator = world.operator("second");
    world.annotate("left", &["talos-target-"]).await;
    world.annotate("left", &["talos-target=1.13.9"]).await;
    let listed = "upgraderuns -l upgrade.vitistack.io/cluster=left";
    let refused = |it: &serde_json::Value| {
        let runs = it["items"].as_array().map_or(&[][..], Vec::as_slice);
        runs.iter().any(|run| run["spec"]["hash"] == "" && run["status"]["phase"] == "Halted")
    };
    world.until(listed, "refused", refused).await;
    assert_eq!(cordoned(&cluster).await, ["worker-1"]);

    cluster.clear("worker-1", "never-returns").await.expect("no fault");
    world.keys("left", cluster.talosconfig(), cluster.kubeconfig()).await;
    world.annotate("left", &["talos-target-"]).await;
    world.annotate("left", &["talos-target=1.13.9"]).await;
    world.annotated("left", "talos-status", "completed").await;
    assert!(cordoned(&cluster).await.is_empty(), "rule 7");
    operator.stop().await;
    cluster.stop().await;
}
