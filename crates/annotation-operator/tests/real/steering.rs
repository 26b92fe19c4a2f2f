//! What annotations and Machines do, judged by what happens to the nodes. One operator
//! for all clusters.

use serde_json::{Value, json};
use talos_sim::cluster::Cluster;
use talos_sim::model::NodeRole;
use testkit::annotation;
use testkit::cluster::simulated;

use crate::nodes::Follower;
use crate::world::{World, reason};

/// A cluster whose nodes are watched.
struct Followed<'a> {
    world: &'a World,
    name: &'static str,
    cluster: Cluster,
    nodes: Follower,
}

impl<'a> Followed<'a> {
    async fn new(world: &'a World, name: &'static str, workers: usize) -> Self {
        let cluster = simulated(name, workers, "1.12.11", "1.34.2").await;
        let nodes = Follower::of(&cluster);
        world.register(name, &cluster).await;
        let followed = Self { world, name, cluster, nodes };
        followed.until("talos-status", "idle").await;
        followed
    }

    /// Waits for an annotation's value.
    async fn until(&self, key: &str, value: &str) -> Value {
        self.world.annotated(self.name, key, value).await
    }

    /// Waits for a message that names this node, or does not name it any more.
    async fn names(&self, node: &str, names: bool) {
        let what = format!("kubernetescluster {}", self.name);
        let why = format!("{node}: {names}");
        let holds = |it: &Value| annotation(it, "talos-message").contains(node) == names;
        self.world.until(&what, &why, holds).await;
    }

    async fn object(&self) -> Value {
        self.world.get(&format!("kubernetescluster {}", self.name)).await
    }

    async fn annotate(&self, annotations: &[&str]) {
        self.world.annotate(self.name, annotations).await;
    }

    /// Waits for the phase of its newest run.
    async fn run(&self, phase: &str) {
        let run = self.world.run_of(self.name).await.expect("a run");
        let run = run["metadata"]["name"].as_str().expect("a name").to_owned();
        let what = format!("upgraderun {run}");
        self.world.until(&what, phase, |it| it["status"]["phase"] == phase).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn annotations_steer_what_happens_to_nodes() {
    let world = World::start("steering").await;
    let operator = world.operator("first");
    // Nothing happens to this one while the others are upgraded.
    let alone = Followed::new(&world, "alone", 1).await;
    alone.annotate(&["do-not-reconcile=anna", "talos-target=1.13.9"]).await;
    tokio::join!(pace(&world), rollback(&world), reset(&world), machines(&world));
    left_alone(alone).await;
    operator.stop().await;
}

/// `order` and `max-unavailable`.
async fn pace(world: &World) {
    let pace = Followed::new(world, "pace", 4).await;
    let request = ["order=control-planes-first", "max-unavailable=2", "talos-target=1.13.9"];
    pace.annotate(&request).await;
    pace.until("talos-status", "completed").await;
    let story = pace.nodes.story().await;
    story.all_went_down(1);
    story.went_first("cp-", "worker-");
    // Rules 1 and 6.
    assert_eq!((story.control_planes_away, story.workers_away), (1, 2), "{story:#?}");
    pace.cluster.stop().await;
}

/// An upgrade in the default order, then a rollback.
async fn rollback(world: &World) {
    let back = Followed::new(world, "back", 2).await;
    back.annotate(&["talos-target=1.13.9"]).await;
    back.until("talos-status", "completed").await;
    let story = back.nodes.story().await;
    story.all_went_down(1);
    story.went_first("worker-", "cp-");
    assert_eq!((story.control_planes_away, story.workers_away), (1, 1), "{story:#?}");

    // Rule 13: an older version is refused unless the user asks for a rollback.
    back.annotate(&["talos-target=1.12.11"]).await;
    let object = back.until("talos-status", "failed").await;
    assert_eq!(reason(&object, "TalosUpgrade"), "InvalidTarget");
    // The annotation that would allow it is named.
    let message = annotation(&object, "talos-message");
    assert!(message.contains("upgrade.vitistack.io/rollback=true"), "{message}");
    back.nodes.story().await.all_went_down(1);
    back.annotate(&["rollback=true"]).await;
    let object = back.until("talos-status", "completed").await;
    assert_eq!(annotation(&object, "talos-current"), "1.12.11");
    assert_eq!(annotation(&object, "talos-target"), "");
    assert_eq!(annotation(&object, "rollback"), "", "it counts once");
    let story = back.nodes.story().await;
    story.all_went_down(2);
    assert!(story.versions.values().all(|version| version == "1.12.11"), "{story:#?}");
    assert_eq!(story.control_planes_away, 1, "{story:#?}");
    back.cluster.stop().await;
}

/// `talos-reset-upgrade-state` clears a failure, and nothing is retried.
async fn reset(world: &World) {
    let reset = Followed::new(world, "reset", 1).await;
    reset.cluster.inject("worker-1", "boot-back").await.expect("a fault");
    reset.annotate(&["talos-target=1.13.9", "kubernetes-target=1.35.0"]).await;
    let object = reset.until("talos-status", "failed").await;
    assert_eq!(object["status"]["phase"], "UpgradeFailed");
    assert_eq!(annotation(&object, "kubernetes-status"), "blocked");
    reset.annotate(&["talos-reset-upgrade-state=true"]).await;
    let object = reset.until("talos-status", "idle").await;
    assert_eq!(object["status"]["phase"], "Ready");
    for gone in ["talos-target", "kubernetes-target", "talos-reset-upgrade-state"] {
        assert_eq!(annotation(&object, gone), "", "{gone}");
    }
    reset.run("Cancelled").await;
    let story = reset.nodes.story().await;
    assert_eq!((story.downs["worker-1"], story.boots()), (1, 1), "rule 5: {story:#?}");
    // The next target starts a new run.
    reset.cluster.clear("worker-1", "boot-back").await.expect("no fault");
    reset.annotate(&["talos-target=1.13.9"]).await;
    reset.until("talos-status", "completed").await;
    let story = reset.nodes.story().await;
    assert_eq!((story.downs["worker-1"], story.boots()), (2, 5), "{story:#?}");
    reset.cluster.stop().await;
}

/// Nodes come from Machines as well as from Talos. A node that is known only from its
/// Machine is never left out (rule 10).
async fn machines(world: &World) {
    let name = "machines";
    let cluster = Followed::new(world, name, 1).await;
    for node in cluster.cluster.nodes() {
        let control_plane = node.role == NodeRole::ControlPlane;
        let role = if control_plane { "control-plane" } else { "worker" };
        let host = &node.hostname;
        machine(world, name, &format!("{name}-{host}"), role, &[&node.address.to_string()]).await;
    }
    // A Machine of another cluster does not matter, whatever is wrong with it.
    machine(world, "another", "another-wrk0", "worker", &[]).await;
    // One without an address, and one with an address where nothing answers.
    let ghosts: [(&str, &[&str]); 2] = [("machines-wrk8", &[]), ("machines-wrk9", &["127.0.0.1"])];
    for (ghost, addresses) in ghosts {
        machine(world, name, ghost, "worker", addresses).await;
        // The operator watches Machines apart from clusters: it has to know this one
        // before it gets the target.
        cluster.names(ghost, true).await;
        cluster.annotate(&["talos-target=1.13.9"]).await;
        let object = cluster.until("talos-status", "failed").await;
        let message = annotation(&object, "talos-message");
        assert!(message.contains(ghost), "{message}");
        cluster.nodes.story().await.all_went_down(0);
        world.delete(&format!("machine {ghost}")).await;
        cluster.annotate(&["talos-target-"]).await;
        cluster.until("talos-status", "idle").await;
        cluster.names(ghost, false).await;
    }
    cluster.annotate(&["talos-target=1.13.9"]).await;
    let object = cluster.until("talos-status", "completed").await;
    assert_eq!(annotation(&object, "talos-progress"), "4/4", "a machine is one node");
    cluster.nodes.story().await.all_went_down(1);
    cluster.cluster.stop().await;
}

async fn machine(world: &World, cluster: &str, name: &str, role: &str, addresses: &[&str]) {
    let object = json!({
        "apiVersion": "vitistack.io/v1alpha1", "kind": "Machine",
        "metadata": {"name": name, "labels": {
            "vitistack.io/clusterid": cluster, "vitistack.io/node-role": role}},
        "spec": {"provider": "kubevirt"},
    });
    world.apply(&object).await;
    let status = json!({"publicIPAddresses": addresses});
    world.merge_status(&format!("machine {name}"), &status).await;
}

/// `do-not-reconcile`, before a run and during one.
async fn left_alone(alone: Followed<'_>) {
    let object = alone.object().await;
    assert_eq!(annotation(&object, "talos-status"), "idle");
    assert!(alone.world.run_of(alone.name).await.is_none());
    alone.nodes.story().await.all_went_down(0);

    alone.annotate(&["do-not-reconcile-"]).await;
    alone.until("talos-status", "in-progress").await;
    alone.annotate(&["do-not-reconcile=anna"]).await;
    alone.run("Paused").await;
    let paused = alone.nodes.story().await;
    assert!(paused.boots() < 4, "rule 12: nothing new starts: {paused:#?}");
    assert_eq!(annotation(&alone.object().await, "talos-status"), "in-progress");
    alone.annotate(&["do-not-reconcile-"]).await;
    alone.until("talos-status", "completed").await;
    alone.nodes.story().await.all_went_down(1);
    alone.cluster.stop().await;
}
