//! The built binary as an operator: two processes with the shipped account and
//! the flags of the shipped Deployment, on a real API server. One is killed the
//! hard way in the middle of a run, the other goes on.

#![cfg(unix)]

mod hub;
mod replica;

use hub::Hub;
use replica::Replica;

const CLUSTER: &str = "my-cluster";

#[test]
fn killed_by_force_the_other_replica_goes_on() {
    let hub = Hub::start();
    let cluster = hub.cluster(CLUSTER, "1.12.11", "1.34.2");
    let mut replicas = vec![Replica::start(&hub, "one"), Replica::start(&hub, "two")];
    for replica in &replicas {
        replica.is_ready();
    }
    let current = |it: &serde_json::Value| hub::annotation(it, "talos-current") == "1.12.11";
    hub.until(&format!("kubernetescluster/{CLUSTER}"), "seen", current);
    hub.kubectl(&[
        "annotate",
        "kubernetescluster",
        CLUSTER,
        "upgrade.vitistack.io/talos-target=1.13.9",
    ]);

    // Rules 8 and 9: killed right after it wrote down that it reboots a node.
    let entry = |run: &serde_json::Value, words: &[&str]| {
        let journal = run["status"]["journal"].as_array().cloned().unwrap_or_default();
        journal
            .iter()
            .filter_map(|it| it.as_str())
            .any(|it| words.iter().all(|word| it.contains(word)))
    };
    let list = hub.until("upgraderuns", "at a node", |list| {
        entry(&list["items"][0], &["\"started\"", "worker-1/upgrade"])
    });
    let runner = list["items"][0]["status"]["runner"].as_str().expect("a runner").to_owned();
    let at = replicas.iter().position(|it| it.name == runner).expect("one of them drives");
    replicas.remove(at).kill();

    let done = hub.until(&format!("kubernetescluster/{CLUSTER}"), "done", |it| {
        hub::annotation(it, "talos-status") == "completed"
    });
    assert_eq!(hub::annotation(&done, "talos-current"), "1.13.9");
    let list = hub
        .until("upgraderuns", "ended", |list| list["items"][0]["status"]["phase"] == "Completed");
    let runs = list["items"].as_array().expect("a list");
    assert_eq!(runs.len(), 1, "the same run: {list:#}");
    assert_ne!(runs[0]["status"]["runner"], runner.as_str(), "another went on");
    // Every node was rebooted once, whoever did it.
    assert_eq!(cluster.boots(), vec![2; 4]);

    let left = replicas.remove(0);
    for line in [
        "talos_operator_runs_ended_total{product=\"Talos\",end=\"completed\"} 1",
        "talos_operator_clusters{product=\"Talos\",status=\"completed\"} 1",
        "talos_operator_runs_active 0",
    ] {
        // The object may show it a moment earlier than whoever counts.
        hub::eventually(line, || left.ask("/metrics").lines().any(|it| it == line).then_some(()));
    }
    // Rule 14: keys are nowhere in what was said.
    let log = left.terminate();
    assert!(!log.contains("PRIVATE KEY") && !log.contains("client-key-data"), "{log}");
}
