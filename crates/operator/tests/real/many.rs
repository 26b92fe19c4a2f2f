//! Many clusters at once, bad neighbours among them.

use crate::watcher::Watcher;
use crate::world::{World, annotation, kubernetes_cluster, simulated};

async fn set(world: &World, name: &str) {
    world
        .shell(&format!(
            "kubectl annotate kubernetescluster {name} upgrade.vitistack.io/talos-target=1.13.9"
        ))
        .await;
}

/// Bad neighbours delay nobody; handing over is quick, and the other goes on.
#[tokio::test(flavor = "multi_thread")]
async fn many_clusters_at_once_and_two_replicas() {
    const MANY: usize = 6;
    let world = World::start().await;
    // Keys that are none, keys of nobody, and no keys at all.
    world.keys("broken-1", "nonsense: [", "also nonsense").await;
    let nobody = "context: x\ncontexts:\n  x:\n    endpoints: [192.0.2.1]\n";
    world.keys("broken-2", nobody, "{}").await;
    for name in ["broken-1", "broken-2", "broken-3"] {
        world.apply(&kubernetes_cluster(name).to_string()).await;
        set(&world, name).await;
    }
    let mut clusters = Vec::new();
    for index in 0..MANY {
        let name = format!("many-{index}");
        let cluster = simulated(&name, 1, "1.12.11", "1.34.2").await;
        world.register(&name, &cluster).await;
        set(&world, &name).await;
        clusters.push(cluster);
    }
    let watcher = Watcher::start(world.kubectl(), "many-0");
    let (first, second) = (world.operator("first"), world.operator("second"));
    let what = "kubernetescluster many-0";
    world.until(what, "under way", |it| annotation(it, "talos-status") == "in-progress").await;
    // One leaves in the middle of it.
    first.stop().await;
    for index in 0..MANY {
        let what = format!("kubernetescluster many-{index}");
        world.until(&what, "done", |it| annotation(it, "talos-status") == "completed").await;
    }
    let runs = world.shell("kubectl get upgraderuns --no-headers").await;
    assert_eq!(runs.matches("Completed").count(), MANY, "{runs}");
    for name in ["broken-1", "broken-2", "broken-3"] {
        let what = format!("kubernetescluster {name}");
        let told =
            world.until(&what, "told", |it| !annotation(it, "talos-message").is_empty()).await;
        let text = told.to_string();
        assert!(!text.contains("nonsense"), "rule 14: {text}");
    }
    watcher.finish();
    second.stop().await;
    for cluster in clusters {
        cluster.stop().await;
    }
    world.stop().await;
}
