//! The seed's workflow, its commands as they are written.

use crate::watcher::Watcher;
use crate::world::{World, annotation, simulated};

#[tokio::test(flavor = "multi_thread")]
async fn the_full_upgrade_workflow() {
    let world = World::start().await;
    let cluster = simulated("my-cluster", 2, "1.12.11", "1.34.2").await;
    world.register("my-cluster", &cluster).await;
    let watcher = Watcher::start(world.kubectl(), "my-cluster");
    let operator = world.operator("first");
    let what = "kubernetescluster my-cluster";

    // 1. What could be had is shown, and nothing begins by itself.
    let shown =
        world.until(what, "shown", |it| annotation(it, "talos-available") == "1.13.9").await;
    assert_eq!(annotation(&shown, "talos-current"), "1.12.11");
    assert_eq!(annotation(&shown, "talos-status"), "idle");
    assert_eq!(annotation(&shown, "talos-message"), "Upgrade available: 1.12.11 → 1.13.9");
    assert_eq!(annotation(&shown, "kubernetes-current"), "1.34.2");
    assert_eq!(shown["status"]["phase"], "Ready");

    // 2 and 3, as the seed has them, with the versions of this test.
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
    assert_eq!(annotation(&done, "talos-target"), "", "a target that is reached goes");

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
    let events = world.shell("kubectl get events -o jsonpath='{.items[*].reason}'").await;
    for reason in ["TalosUpgradeStarted", "TalosUpgradeCompleted", "KubernetesUpgradeCompleted"] {
        assert!(events.contains(reason), "{events}");
    }
    let leases = world.shell("kubectl get leases -n vitistack-system -o name").await;
    assert!(!leases.contains("upgrade-"), "a lease that is not needed is given back: {leases}");
    // Everything that the object showed on the way was legal, and nothing of the
    // documented states was left out.
    let seen = watcher.finish();
    assert_eq!(seen.talos, ["idle", "in-progress", "completed"]);
    assert_eq!(seen.kubernetes.last().map(String::as_str), Some("completed"));
    assert_eq!(seen.phase, ["Ready", "UpgradingTalos", "Ready", "UpgradingKubernetes", "Ready"]);
    assert!(seen.progress.iter().any(|text| text == "2/5"), "{seen:#?}");
    operator.stop().await;
    cluster.stop().await;
    world.stop().await;
}
