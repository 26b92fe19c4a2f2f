//! Some nodes and not others: named, held, and with a version of their own.

use serde_json::Value;

use crate::bench::{Bench, step};

#[test]
fn one_node_first_then_the_others() {
    let bench = Bench::start(1, 3, "1.12.11", "1.34.2");
    let upgrade = "upgrade os --profile test --talos 1.13.12 --yes";
    bench
        .run(&format!("{upgrade} --node worker-9"))
        .code(1)
        .says(&["there is no node worker-9", "the nodes are cp-1, worker-1, worker-2, worker-3"]);
    let boots = bench.boots();
    // The only control plane is not among them, so its API stays up and no outage has to be accepted.
    bench.run(&format!("{upgrade} --node worker-2")).code(0).says(&[
        "1.12.11 → 1.13.12, on 1 of 4 nodes",
        "held, and left as they are: cp-1, worker-1, worker-3",
    ]);
    assert_eq!(bench.talos(), ["1.12.11", "1.12.11", "1.13.12", "1.12.11"]);
    let after = bench.boots();
    let rebooted: Vec<bool> = boots.iter().zip(&after).map(|(a, b)| a != b).collect();
    assert_eq!(rebooted, [false, false, true, false], "rule 12");
    // The profile says what the cluster runs, and one node is not the cluster.
    assert!(bench.read("test.yaml").contains("\"1.12.11\""), "{}", bench.read("test.yaml"));
    bench.run("status --profile test").code(0).says(&["Held        cp-1, worker-1, worker-3"]);
    // Held in the profile, by name; the others are done.
    bench.edit("policy:\n", "nodes:\n  worker-3: {hold: true}\npolicy:\n");
    bench.run(&format!("{upgrade} --node worker-3")).code(1).says(&["held in the profile"]);
    bench.run(&format!("{upgrade} --accept-outage")).code(0);
    assert_eq!(bench.talos(), ["1.13.12", "1.13.12", "1.13.12", "1.12.11"]);
    assert!(bench.read("test.yaml").contains("\"1.13.12\""), "all but those it speaks of");
    // And back again, one node; what the profile holds stays even then.
    let back = "upgrade os --profile test --talos 1.12.11 --rollback --node worker-1 --yes";
    bench.run(back).code(0);
    assert_eq!(bench.talos(), ["1.13.12", "1.12.11", "1.13.12", "1.12.11"]);
    // One that is held goes back if it is named.
    bench.edit("worker-3: {hold", "worker-2: {hold");
    bench.run("rollback worker-2 --profile test --yes").code(0).says(&["is held in the profile"]);
    assert_eq!(bench.talos(), ["1.13.12", "1.12.11", "1.12.11", "1.12.11"]);
}

#[test]
fn nodes_with_versions_of_their_own_and_a_hold_during_a_pause() {
    let bench = Bench::start(3, 2, "1.13.9", "1.34.2");
    bench.edit(
        "policy:\n",
        "nodes:\n  cp-3: {hold: true}\n  worker-2: {version: 1.13.10}\npolicy:\n",
    );
    let run = bench.spawn("upgrade os --profile test --talos 1.13.12 --yes");
    bench.wait_for("install", step("started", "/install"));
    run.signal("INT");
    run.finish().code(3).says(&[
        "control planes run different versions afterwards",
        "Talos 1.13.10 is for these nodes only: worker-2",
    ]);
    // Rule 12: a hold counts for a run that was paused, too.
    bench.edit("cp-3: {hold: true}", "cp-3: {hold: true}\n  worker-1: {hold: true}");
    let refused = bench.run("resume --profile test").code(1);
    refused.says(&["the profile holds worker-1", "--new-plan"]);
    bench.edit("\n  worker-1: {hold: true}", "");
    bench.run("resume --profile test").code(0);
    assert_eq!(bench.talos(), ["1.13.12", "1.13.12", "1.13.9", "1.13.12", "1.13.10"]);
    // Kubernetes would leave the held control plane behind.
    let k8s = "upgrade k8s --profile test --kubernetes 1.35.10 --yes";
    bench.run(k8s).code(1).says(&["control plane cp-3 is held", "release cp-3"]);
    bench.edit("cp-3: {hold: true}", "worker-1: {hold: true}");
    bench.run(k8s).code(0).says(&["Kubernetes  1.34.2 → 1.35.10, on 4 of 5 nodes"]);
    bench.run("health --profile test").code(0);
}

/// The workers of each wave that reboots some, with their pools.
fn waves(plan: &Value) -> Vec<Vec<(String, Option<String>)>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let waves = list(&plan["hops"][0]["waves"]).into_iter();
    waves
        .filter(|wave| wave["group"] == "workers")
        .map(|wave| {
            let lanes = list(&wave["lanes"]).into_iter();
            lanes.map(|lane| (text(&lane["node"]).expect("a node"), text(&lane["pool"]))).collect()
        })
        .collect()
}

#[test]
fn pools_by_the_label_that_the_profile_names() {
    // Rule 6.
    let bench = Bench::start(3, 4, "1.13.9", "1.34.2");
    for node in ["worker-1", "worker-2"] {
        bench.label(node, "example.com/pool", "gpu");
    }
    // The usual label says nothing here.
    bench.label("worker-3", "vitistack.io/nodepool", "gpu");
    let limits = "{max_unavailable: 2, pools: {gpu: 1}, pool_label: example.com/pool}";
    bench.edit("policy:\n", &format!("policy:\n  workers: {limits}\n"));
    let printed = bench.run("plan --profile test --talos-to 1.13.12 -o json").code(0);
    let printed: Value = serde_json::from_str(&printed.stdout).expect("JSON");
    let plan = &printed["plan"];
    assert_eq!(plan["policy"]["workers"]["pool_label"], "example.com/pool");
    assert_eq!(plan["hops"][0]["pool_limits"], serde_json::json!({"gpu": 1}));
    let mut workers: Vec<_> = waves(plan).concat();
    workers.sort();
    let gpu = || Some("gpu".to_owned());
    let expected = [("1", gpu()), ("2", gpu()), ("3", None), ("4", None)];
    assert_eq!(workers, expected.map(|(number, pool)| (format!("worker-{number}"), pool)));
    for wave in waves(plan) {
        assert!(wave.iter().filter(|(_, pool)| pool.is_some()).count() <= 1, "{wave:?}");
    }
}
