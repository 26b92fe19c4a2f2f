//! A run that fails, and the seed's way out of it; one bad cluster beside it.

use talos_sim::cluster::Cluster;
use upgrade_core::jiff::SignedDuration;

use crate::world::{World, annotation, kubernetes_cluster, simulated};

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_names_its_node_and_is_retried_by_setting_the_target_again() {
    let world = World::start().await;
    let cluster = simulated("fails", 1, "1.12.11", "1.34.2").await;
    world.register("fails", &cluster).await;
    // Somebody else's cluster has keys that make no sense: it is told, and
    // nobody else waits for it.
    world.keys("broken", "contexts: {}", "not a kubeconfig").await;
    world.apply(&kubernetes_cluster("broken").to_string()).await;
    let operator = world.operator("first");
    world.annotated("fails", "talos-status", "idle").await;
    cluster.inject("worker-1", "boot-back").await.expect("a fault");
    world.annotate("fails", &["talos-target=1.13.9"]).await;
    world.annotate("broken", &["talos-target=1.13.9"]).await;
    let told = world.annotated("fails", "talos-status", "failed").await;
    let message = annotation(&told, "talos-message");
    assert!(
        message.starts_with("Talos upgrade failed: node worker-1 came back on its old version"),
        "{message}"
    );
    assert_eq!(told["status"]["phase"], "UpgradeFailed");
    let run = world.run_of("fails").await.expect("a run");
    assert_eq!(run["status"]["phase"], "Halted");
    let told = world.annotated("broken", "talos-status", "failed").await;
    let message = annotation(&told, "talos-message");
    assert!(message.contains("the cluster cannot be seen"), "{message}");

    // As the seed has it.
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
    let told = world.annotated("fails", "talos-status", "completed").await;
    assert_eq!(annotation(&told, "talos-current"), "1.13.9");
    assert_eq!(annotation(&told, "talos-progress"), "4/4");
    assert_eq!(told["status"]["phase"], "Ready");
    let again = world.run_of("fails").await.expect("a run");
    assert_ne!(again["metadata"]["name"], run["metadata"]["name"]);
    let plan: serde_json::Value =
        serde_json::from_str(again["spec"]["plan"].as_str().expect("text")).expect("a plan");
    assert_eq!(plan["parent"], run["spec"]["hash"], "rule 9: the plan names the one it replaces");
    operator.stop().await;
    cluster.stop().await;
    world.stop().await;
}

/// The nodes of a simulated cluster that have a cordon.
async fn cordoned(world: &World, cluster: &Cluster) -> String {
    let keys = world.file("workload-kubeconfig");
    std::fs::write(&keys, cluster.kubeconfig()).expect("written");
    let wanted = "{.items[?(@.spec.unschedulable==true)].metadata.name}";
    let keys = keys.display();
    world.shell(&format!("kubectl --kubeconfig {keys} get nodes -o jsonpath='{wanted}'")).await
}

/// Rule 7: the cordon of a node that was away when its run halted is lifted by the
/// next run, although one that had no plan came between.
#[tokio::test(flavor = "multi_thread")]
async fn a_cordon_that_a_failed_run_left_is_lifted_by_the_next() {
    let world = World::start().await;
    let cluster = simulated("left", 1, "1.12.11", "1.34.2").await;
    world.register("left", &cluster).await;
    cluster.inject("worker-1", "never-returns").await.expect("a fault");
    let mut impatient = world.settings("first");
    let timeouts = &mut impatient.options.policy.timeouts;
    timeouts.install = SignedDuration::from_secs(20);
    timeouts.reboot = SignedDuration::from_secs(10);
    let operator = world.operator_with(impatient);
    world.annotate("left", &["talos-target=1.13.9"]).await;
    let told = world.annotated("left", "talos-status", "failed").await;
    let message = annotation(&told, "talos-message");
    assert!(message.contains("worker-1 stays cordoned"), "{message}");
    assert_eq!(cordoned(&world, &cluster).await, "worker-1");
    operator.stop().await;

    // A run that cannot even look has no plan, and knows of no cordon.
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
    assert_eq!(cordoned(&world, &cluster).await, "worker-1");

    cluster.clear("worker-1", "never-returns").await.expect("no fault");
    world.keys("left", cluster.talosconfig(), cluster.kubeconfig()).await;
    world.annotate("left", &["talos-target-"]).await;
    world.annotate("left", &["talos-target=1.13.9"]).await;
    world.annotated("left", "talos-status", "completed").await;
    assert_eq!(cordoned(&world, &cluster).await, "", "rule 7");
    operator.stop().await;
    cluster.stop().await;
    world.stop().await;
}
