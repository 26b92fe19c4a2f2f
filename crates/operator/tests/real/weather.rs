//! What happens around a run: the hub's API server goes away and comes back, a
//! Secret is rotated, another cluster is broken, many are upgraded at once.

use talos_sim::pki::Identity;

use crate::watcher::Watcher;
use crate::world::{World, annotation, kubernetes_cluster, simulated};

const CLUSTER: &str = "kubernetescluster my-cluster";

async fn set(world: &World, name: &str) {
    world
        .shell(&format!(
            "kubectl annotate kubernetescluster {name} upgrade.vitistack.io/talos-target=1.13.9"
        ))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_outlives_a_restart_of_the_api_server_and_new_keys() {
    let world = World::start().await;
    let cluster = simulated("my-cluster", 2, "1.12.11", "1.34.2").await;
    world.register("my-cluster", &cluster).await;
    let operator = world.operator("first");
    world.until(CLUSTER, "shown", |it| annotation(it, "talos-current") == "1.12.11").await;
    set(&world, "my-cluster").await;
    world
        .until(CLUSTER, "under way", |it| {
            annotation(it, "talos-status") == "in-progress"
                && !annotation(it, "talos-progress").is_empty()
        })
        .await;
    world.restart_api_server().await;
    // Other keys, of the same cluster: a new certificate for the same person.
    let fresh = cluster
        .talosconfig_for(&Identity::new("os:admin", talos_sim::clock::wall_time()))
        .expect("a talosconfig");
    assert_ne!(fresh, cluster.talosconfig());
    world.keys("my-cluster", &fresh, cluster.kubeconfig()).await;
    let told =
        world.until(CLUSTER, "done", |it| annotation(it, "talos-status") == "completed").await;
    assert_eq!(annotation(&told, "talos-current"), "1.13.9");
    let runs = world.shell("kubectl get upgraderuns --no-headers").await;
    assert!(runs.contains("Completed") && runs.lines().count() == 1, "one run: {runs}");
    operator.stop().await;
    cluster.stop().await;
    world.stop().await;
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
