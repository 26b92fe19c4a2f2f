//! Targets that make no sense, or have to wait: the documented status, a message
//! that names the next valid step, and nobody touches a node.

use crate::watcher::Watcher;
use crate::world::{World, annotation, simulated};

const CLUSTER: &str = "kubernetescluster my-cluster";

/// Product, target, and words of the message.
const BAD: &[(&str, &str, &[&str])] = &[
    // Older, equal to a part of it, unknown, and a Kubernetes too far.
    ("talos", "1.11.6", &["older than 1.12.11", "next valid target is 1.13.12"]),
    ("talos", "1.99.0", &["unknown", "next valid target is 1.13.12"]),
    ("kubernetes", "1.33.1", &["older than 1.34.2", "next valid target is 1.35.10"]),
    ("kubernetes", "1.36.3", &["one minor at a time", "next valid target is 1.35.10"]),
];

async fn annotate(world: &World, pair: &str) {
    let line = format!("kubectl annotate --overwrite {CLUSTER} upgrade.vitistack.io/{pair}");
    world.shell(&line).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_target_is_answered_and_touches_nobody() {
    let world = World::start().await;
    let cluster = simulated("my-cluster", 1, "1.12.11", "1.34.2").await;
    world.register("my-cluster", &cluster).await;
    let watcher = Watcher::start(world.kubectl(), "my-cluster");
    let operator = world.operator("first");
    world.until(CLUSTER, "shown", |it| annotation(it, "talos-current") == "1.12.11").await;

    // What can mean nothing does not even come in.
    let refused = "kubectl annotate kubernetescluster my-cluster \
                   upgrade.vitistack.io/talos-target=latest";
    let refused = world.try_shell(refused).await;
    assert!(!refused.status.success(), "the admission policy is in place");

    for (product, target, words) in BAD {
        annotate(&world, &format!("{product}-target={target}")).await;
        let (status, message) = (format!("{product}-status"), format!("{product}-message"));
        let told = world
            .until(CLUSTER, "failed", |it| {
                annotation(it, &status) == "failed"
                    && words.iter().all(|word| annotation(it, &message).contains(word))
            })
            .await;
        assert_eq!(annotation(&told, &format!("{product}-target")), *target, "it is the user's");
        annotate(&world, &format!("{product}-target-")).await;
        world.until(CLUSTER, "idle again", |it| annotation(it, &status) == "idle").await;
        world.until(CLUSTER, "ready again", |it| it["status"]["phase"] == "Ready").await;
    }

    // What runs already is reached.
    annotate(&world, "talos-target=1.12.11").await;
    world.until(CLUSTER, "no target", |it| annotation(it, "talos-target").is_empty()).await;

    let runs = world.shell("kubectl get upgraderuns -o name").await;
    assert_eq!(runs, "", "without a run nobody touches a node");
    let seen = watcher.finish();
    assert!(seen.talos.contains(&"failed".to_owned()), "{seen:#?}");
    operator.stop().await;
    cluster.stop().await;
    world.stop().await;
}

/// Both ways: by a Talos that is too old, and by one that is being upgraded.
#[tokio::test(flavor = "multi_thread")]
async fn kubernetes_waits_for_talos() {
    let world = World::start().await;
    let cluster = simulated("my-cluster", 1, "1.11.6", "1.34.1").await;
    world.register("my-cluster", &cluster).await;
    let watcher = Watcher::start(world.kubectl(), "my-cluster");
    let operator = world.operator("first");
    world.until(CLUSTER, "shown", |it| annotation(it, "talos-current") == "1.11.6").await;

    annotate(&world, "kubernetes-target=1.35.0").await;
    let told = world
        .until(CLUSTER, "blocked", |it| annotation(it, "kubernetes-status") == "blocked")
        .await;
    let message = annotation(&told, "kubernetes-message");
    let documented = "Talos 1.11.6 does not support K8s 1.35.0. Upgrade Talos first.";
    assert!(message.starts_with(documented), "{message}");
    assert_eq!(condition(&told, "KubernetesUpgrade")["reason"], "Blocked");
    assert_eq!(world.shell("kubectl get upgraderuns -o name").await, "");

    // The way out that the message names; Kubernetes goes on by itself.
    annotate(&world, "talos-target=1.12.0").await;
    let told = world
        .until(CLUSTER, "under way", |it| annotation(it, "talos-status") == "in-progress")
        .await;
    assert_eq!(annotation(&told, "kubernetes-status"), "blocked");
    let told = world
        .until(CLUSTER, "told why", |it| {
            condition(it, "KubernetesUpgrade")["message"]
                .as_str()
                .is_some_and(|text| text.contains("Waiting for Talos upgrade to complete"))
        })
        .await;
    assert_eq!(condition(&told, "KubernetesUpgrade")["status"], "False");
    assert_eq!(condition(&told, "TalosUpgrade")["status"], "True");
    let told =
        world.until(CLUSTER, "done", |it| annotation(it, "kubernetes-status") == "completed").await;
    assert_eq!(annotation(&told, "talos-current"), "1.12.0");
    assert_eq!(annotation(&told, "kubernetes-current"), "1.35.0");
    world.until(CLUSTER, "ready", |it| it["status"]["phase"] == "Ready").await;
    let seen = watcher.finish();
    assert_eq!(seen.talos.last().map(String::as_str), Some("completed"));
    assert!(seen.progress.iter().any(|text| text == "4/4"), "{seen:#?}");
    operator.stop().await;
    cluster.stop().await;
    world.stop().await;
}

fn condition<'a>(object: &'a serde_json::Value, kind: &str) -> &'a serde_json::Value {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|it| it["type"] == kind));
    found.unwrap_or(&serde_json::Value::Null)
}
