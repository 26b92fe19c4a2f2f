//! Whatever is killed, restarted or rotated: the run goes on.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use talos_sim::clock::wall_time;
use talos_sim::pki::Identity;

use crate::nodes::Follower;
use crate::world::{PATIENCE, World, annotation, simulated};

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
    let world = World::start().await;
    // Where installing and rebooting are two acts.
    let cluster = simulated("killed", 1, "1.13.9", "1.34.2").await;
    let nodes = Follower::of(&cluster);
    world.register("killed", &cluster).await;
    let mut operator = world.operator("same");
    world.annotated("killed", "talos-status", "idle").await;
    world.annotate("killed", &["talos-target=1.14.1"]).await;
    let mut met = BTreeSet::new();
    let begun = tokio::time::Instant::now();
    let run = loop {
        assert!(begun.elapsed() < PATIENCE * 2, "it never ends; met {met:?}");
        let Some(run) = world.run_of("killed").await else { continue };
        if run["status"]["phase"] == "Completed" {
            break run;
        }
        assert_ne!(run["status"]["phase"], "Halted", "{run:#}");
        if let Some(kind) = last_kind(&run)
            && met.insert(kind)
        {
            // A pod that is started again keeps its name, and its lease.
            operator.kill();
            operator = world.operator("same");
        }
    };
    assert!(met.len() > 8, "{met:?}");
    // No disruptive act was repeated: every node was booted once, and what was in
    // doubt was looked at.
    let told = world.annotated("killed", "talos-status", "completed").await;
    assert_eq!(annotation(&told, "talos-current"), "1.14.1");
    nodes.story().await.all_went_down(1);
    assert_eq!(run["status"]["progress"], "4/4");
    operator.stop().await;
    cluster.stop().await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_replica_takes_over() {
    let world = World::start().await;
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
    // Killed: the lease runs out first (rule 9).
    let second = world.operator("second");
    first.kill();
    runner("second").await;
    // The API server of the hub is restarted under it.
    world.restart_api_server().await;
    // The keys are made anew.
    let identity = Identity::new("os:admin", wall_time());
    let talosconfig = cluster.talosconfig_for(&identity).expect("a talosconfig");
    world.keys("taken", &talosconfig, cluster.kubeconfig()).await;
    // Asked to end: it hands over at once.
    let third = world.operator("third");
    tokio::time::sleep(Duration::from_secs(1)).await;
    second.stop().await;
    let told = world.annotated("taken", "talos-status", "completed").await;
    assert_eq!(annotation(&told, "talos-current"), "1.13.9");
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
    world.stop().await;
}
