//! The built binary as an operator: two processes with the shipped service account and
//! the flags of the shipped Deployment, on a real API server. The replica that drives the
//! run is killed with SIGKILL at every kind of journal entry, and the other one resumes.

#![cfg(unix)]

mod first_minute;
mod replica;

use std::collections::BTreeSet;

use replica::{Replica, eventually};
use serde_json::Value;
use talos_sim::model::NodeTruth;
use testkit::cluster::simulated;
use testkit::{Hub, annotation};

const CLUSTER: &str = "my-cluster";

/// The kinds of entries in a run: what happened, and with which step.
fn kinds(run: &Value) -> BTreeSet<String> {
    let journal = run["status"]["journal"].as_array().cloned().unwrap_or_default();
    let entries = journal.iter().filter_map(|it| serde_json::from_str::<Value>(it.as_str()?).ok());
    entries
        .map(|entry| {
            let step = entry["step"].as_str().and_then(|step| step.rsplit('/').next());
            format!("{} {}", entry["record"].as_str().unwrap_or_default(), step.unwrap_or_default())
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_by_force_at_every_kind_of_entry_another_replica_continues() {
    let tenant = Hub::shared().await.tenant("binary").await;
    let cluster = simulated(CLUSTER, 1, "1.12.11", "1.34.2").await;
    tenant.register(CLUSTER, &cluster).await;
    let mut replicas =
        vec![Replica::start(&tenant, "replica-0"), Replica::start(&tenant, "replica-1")];
    for replica in &replicas {
        replica.is_ready().await;
    }
    tenant.annotated(CLUSTER, "talos-current", "1.12.11").await;
    let mut runs = tenant.watch("upgraderuns");
    tenant.annotate(CLUSTER, &["talos-target=1.13.9"]).await;

    // Rules 8 and 9. The watch shows every entry. At the first entry of each kind the
    // replica that wrote it is killed, however far it has got by then.
    let (mut met, mut kills) = (BTreeSet::new(), 0);
    loop {
        let run = runs.next().await;
        let before = met.len();
        met.extend(kinds(&run));
        let runner = run["status"]["runner"].as_str().unwrap_or_default();
        if met.len() > before
            && let Some(at) = replicas.iter().position(|it| it.name == runner)
        {
            kills += 1;
            replicas.remove(at).kill();
            replicas.push(Replica::start(&tenant, &format!("replica-{}", kills + 1)));
        }
        assert_ne!(run["status"]["phase"], "Halted", "{run:#}");
        if run["status"]["phase"] == "Completed" {
            break;
        }
    }
    for kind in [
        "began ",
        "started snapshot-etcd",
        "finished snapshot-etcd",
        "started cordon",
        "finished cordon",
        "started drain",
        "finished drain",
        "started upgrade",
        "finished upgrade",
        "started verify",
        "finished verify",
        "started uncordon",
        "finished uncordon",
        "completed ",
    ] {
        assert!(met.contains(kind), "{kind} in {met:?}");
    }
    // Two kinds may come in one state, or before the other replica takes over.
    assert!(kills >= 5, "{kills} kills at {met:?}");

    let done = tenant.annotated(CLUSTER, "talos-status", "completed").await;
    assert_eq!(annotation(&done, "talos-current"), "1.13.9");
    let list = tenant.get("upgraderuns").await;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "the same run: {list:#}");
    // Every node went down once, whichever replica did it.
    let counted = cluster.driver().visit(|inside| {
        inside.world.truths().map(|node| NodeTruth::downs(&node)).collect::<Vec<_>>()
    });
    assert_eq!(counted.await.expect("it runs"), vec![1; 4]);

    // The replicas that are left count the cluster in their metrics.
    for line in [
        "talos_operator_clusters{product=\"Talos\",status=\"completed\"} 1",
        "talos_operator_runs_active 0",
    ] {
        eventually(line, || {
            let counted = |it: &Replica| it.ask("/metrics").lines().any(|it| it == line);
            replicas.iter().any(counted).then_some(())
        })
        .await;
    }
    // Rule 14: no keys in the logs.
    for replica in replicas {
        let log = replica.terminate().await;
        assert!(!log.contains("PRIVATE KEY") && !log.contains("client-key-data"), "{log}");
    }
    cluster.stop().await;
}
