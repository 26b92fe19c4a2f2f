//! Several clusters and two replicas.

use testkit::annotation;
use testkit::cluster::simulated;

use crate::watcher::Watcher;
use crate::world::World;

const TARGET: &str = "talos-target=1.13.9";

/// Broken clusters delay no others. One of two replicas stops in the middle, and the
/// other continues.
#[tokio::test(flavor = "multi_thread")]
async fn many_clusters_at_once_and_two_replicas() {
    const MANY: usize = 6;
    let world = World::start("many").await;
    // Credentials that cannot be parsed, credentials for an address where nothing is, and none.
    world.keys("broken-1", "nonsense: [", "also nonsense").await;
    let unreachable = "context: x\ncontexts:\n  x:\n    endpoints: [192.0.2.1]\n";
    world.keys("broken-2", unreachable, "{}").await;
    for name in ["broken-1", "broken-2", "broken-3"] {
        world.cluster(name).await;
        world.annotate(name, &[TARGET]).await;
    }
    let mut clusters = Vec::new();
    for index in 0..MANY {
        let name = format!("many-{index}");
        let cluster = simulated(&name, 1, "1.12.11", "1.34.2").await;
        world.register(&name, &cluster).await;
        world.annotate(&name, &[TARGET]).await;
        clusters.push(cluster);
    }
    let watcher = Watcher::start(&world, "many-0").await;
    let (first, second) = (world.operator("first"), world.operator("second"));
    world.annotated("many-0", "talos-status", "in-progress").await;
    // One replica stops in the middle.
    first.stop().await;
    for index in 0..MANY {
        world.annotated(&format!("many-{index}"), "talos-status", "completed").await;
    }
    let runs = world.shell("kubectl get upgraderuns --no-headers").await;
    assert_eq!(runs.matches("Completed").count(), MANY, "{runs}");
    for name in ["broken-1", "broken-2", "broken-3"] {
        let what = format!("kubernetescluster {name}");
        let object =
            world.until(&what, "told", |it| !annotation(it, "talos-message").is_empty()).await;
        let text = object.to_string();
        assert!(!text.contains("nonsense"), "rule 14: {text}");
    }
    watcher.finish(&world).await;
    second.stop().await;
    for cluster in clusters {
        cluster.stop().await;
    }
}
