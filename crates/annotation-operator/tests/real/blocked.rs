//! A Kubernetes target that has to wait for Talos.

use testkit::annotation;
use testkit::cluster::simulated;

use crate::watcher::Watcher;
use crate::world::{World, reason};

const CLUSTER: &str = "kubernetescluster my-cluster";

/// It waits while Talos is too old, and while Talos is being upgraded.
#[tokio::test(flavor = "multi_thread")]
async fn kubernetes_waits_for_talos() {
    let world = World::start("blocked").await;
    let cluster = simulated("my-cluster", 1, "1.11.6", "1.34.1").await;
    world.register("my-cluster", &cluster).await;
    let watcher = Watcher::start(&world, "my-cluster").await;
    let operator = world.operator("first");
    world.until(CLUSTER, "shown", |it| annotation(it, "talos-current") == "1.11.6").await;

    world.annotate("my-cluster", &["kubernetes-target=1.35.0"]).await;
    let object = world
        .until(CLUSTER, "blocked", |it| annotation(it, "kubernetes-status") == "blocked")
        .await;
    let message = annotation(&object, "kubernetes-message");
    let documented = "Talos 1.11.6 does not support K8s 1.35.0. Upgrade Talos first.";
    assert!(message.starts_with(documented), "{message}");
    assert_eq!(reason(&object, "KubernetesUpgrade"), "Blocked");
    assert!(world.runs_of("my-cluster").await.is_empty());

    // Do what the message says: the Kubernetes upgrade then starts by itself.
    world.annotate("my-cluster", &["talos-target=1.12.0"]).await;
    let object = world
        .until(CLUSTER, "under way", |it| annotation(it, "talos-status") == "in-progress")
        .await;
    assert_eq!(annotation(&object, "kubernetes-status"), "blocked");
    let object = world
        .until(CLUSTER, "told why", |it| {
            reason(it, "TalosUpgrade") == "InProgress"
                && reason(it, "KubernetesUpgrade") == "Blocked"
        })
        .await;
    assert_eq!(condition(&object, "KubernetesUpgrade")["status"], "False");
    assert_eq!(condition(&object, "TalosUpgrade")["status"], "True");
    let object =
        world.until(CLUSTER, "done", |it| annotation(it, "kubernetes-status") == "completed").await;
    assert_eq!(annotation(&object, "talos-current"), "1.12.0");
    assert_eq!(annotation(&object, "kubernetes-current"), "1.35.0");
    world.until(CLUSTER, "ready", |it| it["status"]["phase"] == "Ready").await;
    let seen = watcher.finish(&world).await;
    assert_eq!(seen.talos.last().map(String::as_str), Some("completed"));
    assert!(seen.progress.iter().any(|text| text == "4/4"), "{seen:#?}");
    operator.stop().await;
    cluster.stop().await;
}

fn condition<'a>(object: &'a serde_json::Value, kind: &str) -> &'a serde_json::Value {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|it| it["type"] == kind));
    found.unwrap_or(&serde_json::Value::Null)
}
