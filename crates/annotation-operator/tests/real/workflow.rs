//! The seed's workflow, with its kubectl commands as written.

use serde_json::Value;
use testkit::annotation;
use testkit::cluster::simulated;

use crate::watcher::Watcher;
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn the_full_upgrade_workflow() {
    let world = World::start("workflow").await;
    let cluster = simulated("my-cluster", 2, "1.12.11", "1.34.2").await;
    world.register("my-cluster", &cluster).await;
    let watcher = Watcher::start(&world, "my-cluster").await;
    let operator = world.operator("first");
    let what = "kubernetescluster my-cluster";

    // 1. The available version is shown, and nothing starts by itself.
    let shown =
        world.until(what, "shown", |it| annotation(it, "talos-available") == "1.13.9").await;
    assert_eq!(annotation(&shown, "talos-current"), "1.12.11");
    assert_eq!(annotation(&shown, "talos-status"), "idle");
    assert_eq!(annotation(&shown, "talos-message"), "Upgrade available: 1.12.11 → 1.13.9");
    assert_eq!(annotation(&shown, "kubernetes-current"), "1.34.2");
    assert_eq!(shown["status"]["phase"], "Ready");

    // 2 and 3: the commands of the seed, with the versions of this test.
    world
        .shell(
            "kubectl annotate kubernetescluster my-cluster \\
               upgrade.vitistack.io/talos-target=\"1.13.9\"
             kubectl wait kubernetescluster my-cluster \\
               --for=jsonpath='{.metadata.annotations.upgrade\\.vitistack\\.io/talos-status}'=in-progress \\
               --timeout=10m",
        )
        .await;
    let running = world.get(what).await;
    assert_eq!(running["status"]["phase"], "UpgradingTalos");
    world
        .shell(
            "kubectl wait kubernetescluster my-cluster \\
               --for=jsonpath='{.metadata.annotations.upgrade\\.vitistack\\.io/talos-status}'=completed \\
               --timeout=30m",
        )
        .await;
    let done = world.get(what).await;
    assert_eq!(done["status"]["phase"], "Ready");
    assert_eq!(annotation(&done, "talos-current"), "1.13.9");
    assert_eq!(annotation(&done, "talos-progress"), "5/5");
    assert_eq!(annotation(&done, "talos-target"), "", "a target that is reached is removed");

    // 4 to 6.
    world
        .shell(
            "kubectl annotate kubernetescluster my-cluster \\
               upgrade.vitistack.io/kubernetes-target=\"1.35.0\"
             kubectl wait kubernetescluster my-cluster \\
               --for=jsonpath='{.metadata.annotations.upgrade\\.vitistack\\.io/kubernetes-status}'=completed \\
               --timeout=30m",
        )
        .await;
    let phase =
        world.shell("kubectl get kubernetescluster my-cluster -o jsonpath='{.status.phase}'").await;
    assert_eq!(phase, "Ready");
    let done = world.get(what).await;
    assert_eq!(annotation(&done, "kubernetes-current"), "1.35.0");
    let runs = world.shell("kubectl get upgraderuns").await;
    assert_eq!(runs.matches("Completed").count(), 2, "{runs}");
    // Events are sent, and the lease is released, after the annotations are written.
    let has = |list: &Value, reason: &str| {
        list["items"].as_array().is_some_and(|it| it.iter().any(|it| it["reason"] == reason))
    };
    for reason in ["TalosUpgradeStarted", "TalosUpgradeCompleted", "KubernetesUpgradeCompleted"] {
        world.until("events", reason, |it| has(it, reason)).await;
    }
    world.until("leases", "without the lease of the cluster", |it| !holds_a_cluster(it)).await;
    // Every state of the object was legal, and all documented states were seen.
    let seen = watcher.finish(&world).await;
    assert_eq!(seen.talos, ["idle", "in-progress", "completed"]);
    assert_eq!(seen.kubernetes.last().map(String::as_str), Some("completed"));
    assert_eq!(seen.phase, ["Ready", "UpgradingTalos", "Ready", "UpgradingKubernetes", "Ready"]);
    assert!(seen.progress.iter().any(|text| text == "2/5"), "{seen:#?}");
    operator.stop().await;
    cluster.stop().await;
}

/// Whether a list of leases has one that a cluster is held by.
fn holds_a_cluster(leases: &Value) -> bool {
    let leases = leases["items"].as_array().map_or(&[][..], Vec::as_slice);
    let names = leases.iter().filter_map(|it| it["metadata"]["name"].as_str());
    names.into_iter().any(|name| name.contains("upgrade-"))
}
