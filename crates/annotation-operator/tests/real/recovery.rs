//! The operator was away while the user acted, or the hub refused a write halfway:
//! it finds out, and resumes.

use std::time::Duration;

use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use testkit::cluster::simulated;
use testkit::{PATIENCE, annotation};

use crate::nodes::Follower;
use crate::world::World;

/// The user retries as the seed says, while no operator runs.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_for_meanwhile_is_heard() {
    let world = World::start("recovery").await;
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

    // Other annotations change: that does not start a retry (rule 5).
    world.annotate("absent", &["pause=anna"]).await;
    world.annotate("absent", &["pause-", "kubernetes-target=1.35.0"]).await;
    let operator = world.operator("second");
    let object = world.annotated("absent", "kubernetes-status", "blocked").await;
    assert_eq!(annotation(&object, "talos-status"), "failed");
    assert_eq!(world.runs_of("absent").await.len(), 1);
    assert_eq!(nodes.story().await.boots(), 1, "the node that came back on its old version");
    operator.stop().await;

    world.annotate("absent", &["talos-target-", "kubernetes-target-"]).await;
    world.annotate("absent", &["talos-target=1.13.9"]).await;
    let operator = world.operator("third");
    let object = world.annotated("absent", "talos-status", "completed").await;
    assert_eq!(annotation(&object, "talos-current"), "1.13.9");
    assert_eq!(world.runs_of("absent").await.len(), 2);
    let story = nodes.story().await;
    assert_eq!((story.downs["worker-1"], story.boots()), (2, 5), "{story:#?}");
    operator.stop().await;
    cluster.stop().await;

    half_a_run_is_resumed(&world).await;
}

/// The hub accepts a run, but not its first status.
async fn half_a_run_is_resumed(world: &World) {
    let cluster = simulated("half", 1, "1.12.11", "1.34.2").await;
    let nodes = Follower::of(&cluster);
    world.register("half", &cluster).await;
    // Taken away while it runs: a replica that lacks it at the start begins nothing.
    let operator = world.operator("fourth");
    world.annotated("half", "talos-status", "idle").await;
    let role = format!("clusterrole talos-operator-{}", world.namespace);
    let mut rules = world.get(&role).await["rules"].as_array().expect("rules").clone();
    let at = rules.iter().position(|it| it["resources"][0] == "upgraderuns/status").expect("one");
    rules.remove(at);
    world.merge(&role, &json!({"rules": rules})).await;
    may_not_write_the_status_of_runs(world).await;
    world.annotate("half", &["talos-target=1.13.9"]).await;
    let listed = "upgraderuns -l upgrade.vitistack.io/cluster=half";
    let made = |it: &Value| it["items"].as_array().is_some_and(|runs| !runs.is_empty());
    world.until(listed, "made", made).await;
    // It retries the status, and does not make a second run.
    let half = "kubernetescluster half";
    world.until(half, "begun", |it| annotation(it, "talos-status") == "in-progress").await;
    operator.stop().await;
    let operator = world.operator("fifth");
    let half = world.runs_of("half").await;
    assert!(half.len() == 1 && half[0]["status"].is_null(), "{half:#?}");
    assert_eq!(
        nodes.story().await.boots(),
        0,
        "rule 8: nothing happens that is not in the journal"
    );
    world.grant_shipped_rights().await;
    world.annotated("half", "talos-status", "completed").await;
    nodes.story().await.all_went_down(1);
    let done = world.runs_of("half").await;
    assert_eq!(done.len(), 1, "{done:#?}");
    assert_eq!(done[0]["status"]["phase"], "Completed");
    assert_eq!(done[0]["status"]["progress"], "4/4");
    operator.stop().await;

    // A run without a plan, and without a status that says why.
    let uid = world.get("kubernetescluster half").await["metadata"]["uid"].clone();
    let empty = json!({
        "apiVersion": "upgrade.vitistack.io/v1alpha1", "kind": "UpgradeRun",
        "metadata": {"name": "half-empty", "labels": {"upgrade.vitistack.io/cluster": "half"}},
        "spec": {"cluster": {"name": "half", "uid": uid}, "product": "Kubernetes",
            "from": "", "to": "1.34.3", "rollback": false, "hash": "", "plan": ""},
    });
    world.apply(&empty).await;
    world.annotate("half", &["kubernetes-target=1.34.3"]).await;
    let operator = world.operator("sixth");
    let object = world.annotated("half", "kubernetes-status", "completed").await;
    assert_eq!(annotation(&object, "kubernetes-current"), "1.34.3");
    let mut phases: Vec<String> = world
        .runs_of("half")
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

/// Waits until the API server knows that the account lost this right. There is nothing
/// to watch for that: the account asks.
async fn may_not_write_the_status_of_runs(world: &World) {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(world.client().await);
    let question = json!({"spec": {"resourceAttributes": {
        "namespace": world.namespace, "verb": "patch", "group": "upgrade.vitistack.io",
        "resource": "upgraderuns", "subresource": "status",
    }}});
    let question: SelfSubjectAccessReview = serde_json::from_value(question).expect("a review");
    let asking = async {
        loop {
            let review = reviews.create(&PostParams::default(), &question).await;
            if !review.expect("an answer").status.expect("a status").allowed {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("the right is gone");
}
