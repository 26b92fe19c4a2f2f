//! A run continues when operators are killed, the API server restarts, or keys rotate.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use talos_sim::clock::wall_time;
use talos_sim::pki::Identity;
use testkit::cluster::simulated;
use testkit::{Hub, annotation};

use crate::nodes::Follower;
use crate::world::World;

/// The kind of a journal's last entry: what happened, and with which step.
fn last_kind(run: &Value) -> Option<String> {
    let journal = run["status"]["journal"].as_array()?;
    let entry: Value = serde_json::from_str(journal.last()?.as_str()?).expect("an entry");
    let step = entry["step"].as_str().and_then(|step| step.rsplit('/').next());
    Some(format!("{} {}", entry["record"].as_str()?, step.unwrap_or_default()))
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_every_kind_of_entry() {
    // Rule 8.
    let world = World::start("killed").await;
    // From Talos 1.13 on, install and reboot are two separate calls.
    let cluster = simulated("killed", 1, "1.13.9", "1.34.2").await;
    let nodes = Follower::of(&cluster);
    world.register("killed", &cluster).await;
    let mut operator = world.operator("same");
    world.annotated("killed", "talos-status", "idle").await;
    world.annotate("killed", &["talos-target=1.14.1"]).await;
    let mut met = BTreeSet::new();
    let mut runs = world.watch("upgraderuns");
    let run = loop {
        let run = runs.next().await;
        if run["status"]["phase"] == "Completed" {
            break run;
        }
        assert_ne!(run["status"]["phase"], "Halted", "{run:#}");
        if let Some(kind) = last_kind(&run)
            && met.insert(kind)
        {
            // A pod that restarts keeps its name, and its lease.
            operator.kill();
            operator = world.operator("same");
        }
    };
    assert!(met.len() > 8, "{met:?}");
    // Nothing disruptive was repeated: each node rebooted once. After each restart
    // the operator checked what had happened instead.
    let object = world.annotated("killed", "talos-status", "completed").await;
    assert_eq!(annotation(&object, "talos-current"), "1.14.1");
    nodes.story().await.all_went_down(1);
    assert_eq!(run["status"]["progress"], "4/4");
    operator.stop().await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_replica_takes_over() {
    // It restarts the API server, so it has a hub to itself.
    let hub = Hub::start().await;
    let world = World::on(&hub, "taken").await;
    let cluster = simulated("taken", 2, "1.12.11", "1.34.2").await;
    world.register("taken", &cluster).await;
    let nodes = Follower::of(&cluster);
    let first = world.operator("first");
    world.annotated("taken", "talos-status", "idle").await;
    world.annotate("taken", &["talos-target=1.13.9"]).await;
    let runner = |who: &'static str| {
        let world = &world;
        async move {
            let what = format!("driven by {who}");
            world.until("upgraderuns", &what, |it| it["items"][0]["status"]["runner"] == who).await;
        }
    };
    runner("first").await;
    // Killed: the second waits until the lease expires (rule 9).
    let second = world.operator("second");
    first.kill();
    runner("second").await;
    // The API server of the hub restarts.
    hub.restart_api_server().await;
    // The keys rotate.
    let identity = Identity::new("os:admin", wall_time());
    let talosconfig = cluster.talosconfig_for(&identity).expect("a talosconfig");
    world.keys("taken", &talosconfig, cluster.kubeconfig()).await;
    // Asked to stop: it releases its lease at once.
    let third = world.operator("third");
    tokio::time::sleep(Duration::from_secs(1)).await;
    second.stop().await;
    let object = world.annotated("taken", "talos-status", "completed").await;
    assert_eq!(annotation(&object, "talos-current"), "1.13.9");
    nodes.story().await.all_went_down(1);
    let run = world.run_of("taken").await.expect("a run");
    let runners: BTreeSet<&str> = run["status"]["history"]
        .as_array()
        .expect("a history")
        .iter()
        .filter_map(|it| it["runner"].as_str())
        .collect();
    assert!(runners.contains("first") && runners.contains("second"), "{runners:?}");
    third.stop().await;
    cluster.stop().await;
}
