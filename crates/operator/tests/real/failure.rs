//! A run that fails, and the seed's way out of it; one bad cluster beside it.

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
