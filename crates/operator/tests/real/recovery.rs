//! What happened while the operator was away, or the hub failed in the middle of
//! something, is found and gone on with.

use serde_json::{Value, json};

use crate::nodes::Follower;
use crate::world::{World, annotation, simulated};

async fn runs(world: &World, name: &str) -> Vec<Value> {
    let listed = world.get(&format!("upgraderuns -l upgrade.vitistack.io/cluster={name}")).await;
    listed["items"].as_array().cloned().unwrap_or_default()
}

/// The seed's way out of a failure, with nobody there to see it.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_for_meanwhile_is_heard() {
    let world = World::start().await;
    let cluster = simulated("absent", 1, "1.12.11", "1.34.2").await;
    let nodes = Follower::of(&cluster);
    world.register("absent", &cluster).await;
    cluster.inject("worker-1", "boot-back").await.expect("a fault");
    let operator = world.operator("first");
    world.annotated("absent", "talos-status", "idle").await;
    world.annotate("absent", &["talos-target=1.13.9"]).await;
    world.annotated("absent", "talos-status", "failed").await;
    operator.stop().await;
    cluster.clear("worker-1", "boot-back").await.expect("no fault");

    // Other annotations come and go: that is no word to try again (rule 5).
    world.annotate("absent", &["pause=anna"]).await;
    world.annotate("absent", &["pause-", "kubernetes-target=1.35.0"]).await;
    let operator = world.operator("second");
    let told = world.annotated("absent", "kubernetes-status", "blocked").await;
    assert_eq!(annotation(&told, "talos-status"), "failed");
    assert_eq!(runs(&world, "absent").await.len(), 1);
    assert_eq!(nodes.story().await.boots(), 1, "one that came back on its old version");
    operator.stop().await;

    world.annotate("absent", &["talos-target-", "kubernetes-target-"]).await;
    world.annotate("absent", &["talos-target=1.13.9"]).await;
    let operator = world.operator("third");
    let told = world.annotated("absent", "talos-status", "completed").await;
    assert_eq!(annotation(&told, "talos-current"), "1.13.9");
    assert_eq!(runs(&world, "absent").await.len(), 2);
    let story = nodes.story().await;
    assert_eq!((story.downs["worker-1"], story.boots()), (2, 5), "{story:#?}");
    operator.stop().await;
    cluster.stop().await;

    half_a_run_is_gone_on_with(&world).await;
    world.stop().await;
}

/// The hub takes a run but not its first status.
async fn half_a_run_is_gone_on_with(world: &World) {
    let cluster = simulated("half", 1, "1.12.11", "1.34.2").await;
    let nodes = Follower::of(&cluster);
    world.register("half", &cluster).await;
    let role = world.get("clusterrole talos-operator").await;
    let rules = role["rules"].as_array().expect("rules");
    let at = rules.iter().position(|it| it["resources"][0] == "upgraderuns/status").expect("one");
    let take = json!([{"op": "remove", "path": format!("/rules/{at}")}]);
    world
        .shell(&format!(
            "kubectl patch clusterrole talos-operator --type=json -p '{take}'
             while kubectl auth can-i patch upgraderuns --subresource=status --quiet \\
               --as=system:serviceaccount:vitistack-system:talos-operator; do sleep 1; done"
        ))
        .await;
    world.annotate("half", &["talos-target=1.13.9"]).await;
    let operator = world.operator("fourth");
    let listed = "upgraderuns -l upgrade.vitistack.io/cluster=half";
    let made = |it: &Value| it["items"].as_array().is_some_and(|runs| !runs.is_empty());
    world.until(listed, "made", made).await;
    // It is tried again, and not made again.
    operator.stop().await;
    let operator = world.operator("fifth");
    let told = "kubernetescluster half";
    world.until(told, "begun", |it| annotation(it, "talos-status") == "in-progress").await;
    let half = runs(world, "half").await;
    assert!(half.len() == 1 && half[0]["status"].is_null(), "{half:#?}");
    assert_eq!(nodes.story().await.boots(), 0, "rule 8: nothing that is not written down");
    let rbac = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/20-rbac.yaml");
    world.shell(&format!("kubectl apply --server-side --force-conflicts -f {rbac}")).await;
    world.annotated("half", "talos-status", "completed").await;
    nodes.story().await.all_went_down(1);
    let done = runs(world, "half").await;
    assert_eq!(done.len(), 1, "{done:#?}");
    assert_eq!(done[0]["status"]["phase"], "Completed");
    assert_eq!(done[0]["status"]["progress"], "4/4");
    operator.stop().await;

    // One without a plan: why there is none was never written.
    let uid = world.get("kubernetescluster half").await["metadata"]["uid"].clone();
    let empty = json!({
        "apiVersion": "upgrade.vitistack.io/v1alpha1", "kind": "UpgradeRun",
        "metadata": {"name": "half-empty", "namespace": "default",
            "labels": {"upgrade.vitistack.io/cluster": "half"}},
        "spec": {"cluster": {"name": "half", "uid": uid}, "product": "Kubernetes",
            "from": "", "to": "1.34.3", "rollback": false, "hash": "", "plan": ""},
    });
    world.apply(&empty.to_string()).await;
    world.annotate("half", &["kubernetes-target=1.34.3"]).await;
    let operator = world.operator("sixth");
    let told = world.annotated("half", "kubernetes-status", "completed").await;
    assert_eq!(annotation(&told, "kubernetes-current"), "1.34.3");
    let mut phases: Vec<String> = runs(world, "half")
        .await
        .iter()
        .map(|run| run["status"]["phase"].as_str().unwrap_or_default().to_owned())
        .collect();
    phases.sort();
    assert_eq!(phases, ["Cancelled", "Completed", "Completed"]);
    nodes.story().await.all_went_down(1);
    operator.stop().await;
    cluster.stop().await;
}
