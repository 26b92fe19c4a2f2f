//! The built binary as an operator: two processes with the shipped account and
//! the flags of the shipped Deployment, on a real API server. Whoever drives is
//! killed the hard way at every kind of journal entry, the other goes on.

#![cfg(unix)]

mod hub;
mod replica;

use std::collections::BTreeSet;

use hub::Hub;
use replica::Replica;
use serde_json::Value;

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

#[test]
fn killed_by_force_at_every_kind_of_entry_another_replica_goes_on() {
    let hub = Hub::start();
    let cluster = hub.cluster(CLUSTER, "1.12.11", "1.34.2");
    let mut replicas = vec![Replica::start(&hub, "replica-0"), Replica::start(&hub, "replica-1")];
    for replica in &replicas {
        replica.is_ready();
    }
    let current = |it: &Value| hub::annotation(it, "talos-current") == "1.12.11";
    hub.until(&format!("kubernetescluster/{CLUSTER}"), "seen", current);
    let runs = hub.watch_runs();
    hub.kubectl(&[
        "annotate",
        "kubernetescluster",
        CLUSTER,
        "upgrade.vitistack.io/talos-target=1.13.9",
    ]);

    // Rules 8 and 9. A watch brings every entry; at the first of its kind whoever
    // wrote it is killed, wherever it has got to meanwhile.
    let (mut met, mut kills) = (BTreeSet::new(), 0);
    loop {
        let run = runs.next();
        let before = met.len();
        met.extend(kinds(&run));
        let runner = run["status"]["runner"].as_str().unwrap_or_default();
        if met.len() > before
            && let Some(at) = replicas.iter().position(|it| it.name == runner)
        {
            kills += 1;
            replicas.remove(at).kill();
            replicas.push(Replica::start(&hub, &format!("replica-{}", kills + 1)));
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
    // Two kinds may come with one look, or before the dead are noticed.
    assert!(kills >= 5, "{kills} kills at {met:?}");

    let done = hub.until(&format!("kubernetescluster/{CLUSTER}"), "done", |it| {
        hub::annotation(it, "talos-status") == "completed"
    });
    assert_eq!(hub::annotation(&done, "talos-current"), "1.13.9");
    let text = hub.kubectl(&["get", "upgraderuns", "-o", "json"]);
    let list: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "the same run: {list:#}");
    // Every node was upgraded once, whoever did it.
    assert_eq!(cluster.downs(), vec![1; 4]);

    // The object is told by whoever is left.
    for line in [
        "talos_operator_clusters{product=\"Talos\",status=\"completed\"} 1",
        "talos_operator_runs_active 0",
    ] {
        hub::eventually(line, || {
            let told = |it: &Replica| it.ask("/metrics").lines().any(|it| it == line);
            replicas.iter().any(told).then_some(())
        });
    }
    // Rule 14: keys are nowhere in what was said.
    for replica in replicas {
        let log = replica.terminate();
        assert!(!log.contains("PRIVATE KEY") && !log.contains("client-key-data"), "{log}");
    }
}
