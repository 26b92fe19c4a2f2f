//! Commands that change nothing, and refusals.

use crate::bench::{Bench, has_files};

#[test]
fn commands_that_only_read() {
    let bench = Bench::start(3, 1, "1.13.12", "1.34.2");
    let health = bench.run("health --profile test").code(0);
    let health = health.says(&["test is healthy", "3 members agree", "worker-1  Ready"]);
    assert_eq!(health.stderr, "");
    let json = bench.run("health --profile test.yaml -o json").code(0);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["well"], true);

    bench.run("version --talosconfig talosconfig").code(0).says(&[
        "talos-operator 0.1.0",
        "cluster test: Kubernetes 1.34.2",
        "worker-1",
        "1.13.12",
    ]);
    let json = bench.run("version --talosconfig talosconfig -o json").code(0);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["nodes"].as_array().unwrap().len(), 4);
    bench.run("version --client").code(0).says(&["talos-operator 0.1.0"]);

    let snapshot = bench.run("snapshot --profile test.yaml -o json").code(0);
    let json: serde_json::Value = serde_json::from_str(&snapshot.stdout).unwrap();
    assert!(json["bytes"].as_u64().unwrap() > 0, "{snapshot:?}");
    assert!(has_files(&bench.path("backups")));
    bench.run("snapshot --talosconfig talosconfig --dir here --keep 1").code(0).says(&["sha256"]);
    assert!(has_files(&bench.path("here")));

    let plan = bench.run("plan --profile test.yaml --talos-to 1.14.4").code(0);
    let plan = plan.says(&[
        "Cluster     test, 3 control planes and 1 worker",
        "Talos       1.13.12 → 1.14.4",
        "talos-operator upgrade os --profile test.yaml --talos 1.14.4",
    ]);
    assert_eq!(plan.stderr, "");
    let json =
        bench.run("plan --talosconfig talosconfig --kubeconfig kubeconfig --talos 1.14.4 -o json");
    let json: serde_json::Value = serde_json::from_str(&json.code(0).stdout).unwrap();
    assert_eq!(json["outcome"], "planned");
    // The profile says what runs, so there is nothing to do.
    bench.run("plan --profile test").code(1).says(&["nothing to do"]);
    bench.run("upgrade both --profile test").code(0).says(&["nothing to do"]);
    bench
        .run("upgrade os --profile test --talos 1.99.0 --yes")
        .code(1)
        .says(&["Talos 1.99.0 is not in the support matrix", "use a newer talos-operator"]);
    bench.run("upgrade os --profile test --talos 1.12.11 --yes").code(1).says(&["is older than"]);
    bench.run("upgrade os --profile test --talos 1.14.4").code(1).says(&[
        "Talos       1.13.12 → 1.14.4",
        "no terminal to ask on",
        "--yes",
    ]);

    bench.run("status --profile test").code(1).says(&["there is no run in test.state"]);
    bench.run("resume --profile test").code(1).says(&["there is no run"]);
    bench.run("pause --profile test").code(1).says(&["no process is driving"]);
    bench.run("rollback worker-9 --profile test").code(1).says(&["there is no node worker-9"]);
    bench.run("rollback worker-1 --profile test").code(1).says(&["no upgrade of worker-1"]);
    bench.run("rollback --kubernetes --profile test").code(1).says(&["runs the same version"]);
    assert!(bench.talos().iter().all(|version| version == "1.13.12"));
}

#[test]
fn an_unreachable_cluster_is_reported() {
    let bench = Bench::start(1, 0, "1.13.9", "1.34.2");
    bench.run("health --talosconfig nowhere").code(1).says(&["nowhere", "no such file"]);
    bench
        .run("health --talosconfig talosconfig --context other")
        .code(1)
        .says(&["there is no such context", "--context"]);
    bench
        .run("version --talosconfig talosconfig --kubeconfig nowhere")
        .code(1)
        .says(&["nowhere", "--kubeconfig"]);
    bench.inject("cp-1", "partition");
    bench.run("version --talosconfig talosconfig").code(1).says(&["cannot observe the cluster"]);
    bench.run("upgrade os --profile test --talos 1.14.4 --yes").code(1).says(&["cannot observe"]);
}

#[test]
fn the_state_of_a_cluster_without_a_profile_is_in_the_home_folder() {
    let bench = Bench::start(1, 0, "1.13.9", "1.34.2");
    let upgrade = "upgrade os --talosconfig talosconfig --talos 1.13.12 --accept-outage --yes";
    bench.run(upgrade).code(0).says(&["done: Talos 1.13.9 → 1.13.12"]);
    assert!(bench.path(".local/state/talos-operator/test/run.jsonl").exists());
    bench.run("status --talosconfig talosconfig").code(0).says(&["State       done"]);
    bench.run("status --state .local/state/talos-operator/test").code(0).says(&["done"]);
}
