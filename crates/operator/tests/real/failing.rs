//! A node that fails is named; recovery is by removing and setting the target.

use crate::watcher::Watcher;
use crate::world::{World, annotation, simulated};

const CLUSTER: &str = "kubernetescluster my-cluster";

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_names_its_node_and_is_tried_again_when_asked() {
    let world = World::start().await;
    let cluster = simulated("my-cluster", 1, "1.12.11", "1.34.2").await;
    cluster.inject("worker-1", "boot-back").await.expect("a fault");
    world.register("my-cluster", &cluster).await;
    let watcher = Watcher::start(world.kubectl(), "my-cluster");
    let operator = world.operator("first");
    world.until(CLUSTER, "shown", |it| annotation(it, "talos-current") == "1.12.11").await;
    let set = "kubectl annotate kubernetescluster my-cluster \
               upgrade.vitistack.io/talos-target=\"1.13.9\"";
    world.shell(set).await;
    let told =
        world.until(CLUSTER, "failed", |it| annotation(it, "talos-status") == "failed").await;
    let message = annotation(&told, "talos-message");
    assert!(message.starts_with("Talos upgrade failed: "), "{message}");
    assert!(message.contains("worker-1"), "{message}");
    assert_eq!(told["status"]["phase"], "UpgradeFailed");
    let runs = world.shell("kubectl get upgraderuns --no-headers").await;
    assert!(runs.contains("Halted") && runs.lines().count() == 1, "{runs}");

    // Nobody tries again behind a person's back (rule 5), not even a replica
    // that knows nothing yet.
    operator.stop().await;
    let operator = world.operator("second");
    let line = "kubectl wait kubernetescluster my-cluster --timeout=20s \
        --for=jsonpath='{.metadata.annotations.upgrade\\.vitistack\\.io/talos-status}'=in-progress";
    assert!(!world.try_shell(line).await.status.success(), "it stays failed");

    // As documented: remove the target, set it again.
    cluster.clear("worker-1", "boot-back").await.expect("cleared");
    let remove = "kubectl annotate kubernetescluster my-cluster \
                  upgrade.vitistack.io/talos-target-";
    world.shell(&format!("{remove}\n{set}")).await;
    let told =
        world.until(CLUSTER, "done", |it| annotation(it, "talos-status") == "completed").await;
    assert_eq!(annotation(&told, "talos-current"), "1.13.9");
    assert_eq!(annotation(&told, "talos-progress"), "4/4");
    world.until(CLUSTER, "ready", |it| it["status"]["phase"] == "Ready").await;
    let seen = watcher.finish();
    assert!(seen.phase.contains(&"UpgradeFailed".to_owned()), "{seen:#?}");
    operator.stop().await;
    cluster.stop().await;
    world.stop().await;
}
