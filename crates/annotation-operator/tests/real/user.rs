//! Valid and invalid annotations of the user, before and during a run.

use testkit::annotation;
use testkit::cluster::simulated;

use crate::world::{World, reason};

/// The next valid target is shown as available, and the message names it.
fn names_the_next(cluster: &serde_json::Value, product: &str, version: &str) {
    assert_eq!(annotation(cluster, &format!("{product}-available")), version, "{cluster:#}");
    let message = annotation(cluster, &format!("{product}-message"));
    assert!(message.contains(version), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_users_word() {
    let world = World::start("user").await;
    let cluster = simulated("words", 2, "1.12.11", "1.34.2").await;
    world.register("words", &cluster).await;
    let operator = world.operator("first");
    world.annotated("words", "talos-status", "idle").await;

    // The admission policy refuses what is not a version.
    let refused = "kubectl annotate kubernetescluster words \
                   upgrade.vitistack.io/talos-target=latest";
    let refused = world.try_shell(refused).await;
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && stderr.contains("not a version"), "{stderr}");

    // Invalid targets: the documented status, the next valid target, and no run.
    for target in ["1.11.6", "1.99.0"] {
        world.annotate("words", &[&format!("talos-target={target}")]).await;
        let object = world
            .until("kubernetescluster words", target, |it| {
                reason(it, "TalosUpgrade") == "InvalidTarget"
                    && annotation(it, "talos-message").contains(target)
            })
            .await;
        assert_eq!(annotation(&object, "talos-status"), "failed");
        assert_eq!(object["status"]["phase"], "UpgradeFailed");
        names_the_next(&object, "talos", "1.13.9");
    }
    world.annotate("words", &["talos-target-", "kubernetes-target=1.36.3"]).await;
    let object = world.annotated("words", "kubernetes-status", "failed").await;
    names_the_next(&object, "kubernetes", "1.35.0");
    world
        .until("kubernetescluster words", "invalid", |it| {
            reason(it, "KubernetesUpgrade") == "InvalidTarget"
        })
        .await;
    world.annotate("words", &["kubernetes-target-", "talos-target=1.12.11"]).await;
    let object = world.annotated("words", "talos-status", "completed").await;
    names_the_next(&object, "talos", "1.13.9");
    world.annotate("words", &["talos-target-"]).await;
    let object = world.annotated("words", "kubernetes-status", "idle").await;
    assert_eq!(object["status"]["phase"], "Ready");
    assert!(world.run_of("words").await.is_none(), "nothing was started");

    // A pause holds before a run and during one; the other target waits.
    world.annotate("words", &["pause=anna", "talos-target=1.13.9"]).await;
    world
        .until("kubernetescluster words", "held", |it| {
            reason(it, "TalosUpgrade") == "Blocked"
                && annotation(it, "talos-message").contains("anna")
        })
        .await;
    world.annotate("words", &["pause-", "kubernetes-target=1.35.0"]).await;
    world.annotated("words", "talos-status", "in-progress").await;
    world.annotated("words", "kubernetes-status", "blocked").await;
    world.annotate("words", &["pause=anna"]).await;
    let run = |phase: &'static str| {
        let world = &world;
        async move {
            world.until("upgraderuns", phase, |it| it["items"][0]["status"]["phase"] == phase).await
        }
    };
    let paused = run("Paused").await;
    let entries = paused["items"][0]["status"]["journal"].as_array().map(Vec::len);
    // The run is written first, then the cluster's object.
    let object = world
        .until("kubernetescluster words", "paused", |it| reason(it, "TalosUpgrade") == "Paused")
        .await;
    assert!(annotation(&object, "talos-message").contains("anna"), "{object:#}");
    assert_eq!(annotation(&object, "talos-status"), "in-progress");
    let conditions = object["status"]["conditions"].as_array().expect("conditions");
    let of = |kind: &str| conditions.iter().find(|it| it["type"] == kind).expect("one").clone();
    assert_eq!(of("KubernetesUpgrade")["reason"], "Blocked");
    assert_eq!(of("KubernetesUpgrade")["message"], "Waiting for Talos upgrade to complete");

    // The target is removed: the run is cancelled, and the cluster is idle again.
    world.annotate("words", &["pause-", "talos-target-", "kubernetes-target-"]).await;
    let ended = run("Cancelled").await;
    assert!(ended["items"][0]["status"]["journal"].as_array().map(Vec::len) >= entries);
    let object = world.annotated("words", "talos-status", "idle").await;
    assert_eq!(object["status"]["phase"], "Ready");
    assert_eq!(annotation(&object, "talos-target"), "");
    operator.stop().await;
    cluster.stop().await;
}
