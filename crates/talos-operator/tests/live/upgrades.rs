//! Upgrades that go well: both upgrade calls, one, three and five control
//! planes, both orders, several hops of both products.

use std::process::Command;

use testkit::tool;

use crate::bench::{Bench, PROFILE, events, has_files};

/// What a page must not contain: anything that makes a browser send a request.
const FETCHES: [&str; 4] = ["http://", "https://", "src=", "<script"];

#[test]
fn talos_by_the_older_call_and_talosctl_agrees() {
    let bench = Bench::start(3, 1, "1.12.11", "1.34.2");
    let line = "upgrade os --profile test.yaml --talos 1.13.12 --yes --report run.html";
    let done = bench.run(line).code(0).says(&[
        "Talos       1.12.11 → 1.13.12",
        "worker-1: upgrade started",
        "all steps are done",
        "WHAT HAPPENED",
        "boot, version, schematic, extensions, etcd, Ready",
        "done: Talos 1.12.11 → 1.13.12",
        "report: run.html",
        "test.yaml updated",
    ]);
    assert!(!done.stdout.contains("starting:"), "progress is no data: {done:#?}");
    assert_eq!(bench.talos(), ["1.13.12"; 4]);
    // The profile: one scalar, nothing else.
    let expected = PROFILE.replace("TALOS", "1.13.12").replace("KUBERNETES", "1.34.2");
    assert_eq!(bench.read("test.yaml"), expected);
    let page = bench.read("run.html");
    assert!(page.contains("<svg"), "{page}");
    for fetch in FETCHES {
        assert!(!page.contains(fetch), "{fetch}");
    }
    assert!(has_files(&bench.path("backups")), "rule 3");
    bench.run("status --profile test").code(0).says(&["State       done", "cp-1", "worker-1"]);
    bench.run("status --profile test --history").code(0).says(&[
        "1/worker-1/upgrade started",
        "all steps are done",
        "tester@",
    ]);
    let history = bench.run("status --profile test --history -o json").code(0);
    assert_eq!(events(&history).len(), bench.journal().len());
    bench.run("resume --profile test").code(0).says(&["nothing to resume"]);
    bench.run("health --profile test").code(0).says(&["is healthy"]);
    // The judge of Talos's own makers finds nothing wrong either.
    let mut talosctl = bench.as_the_user(Command::new(tool("talosctl-1.13")));
    talosctl.args(["--talosconfig", "talosconfig", "health", "--wait-timeout", "60s"]);
    let judged = talosctl.output().expect("talosctl runs");
    assert!(judged.status.success(), "{}", String::from_utf8_lossy(&judged.stderr));
    // And again: there is nothing to do.
    bench.run("upgrade os --profile test").code(0).says(&["nothing to do"]);
}

#[test]
fn talos_by_the_newer_call_workers_first_as_events() {
    let bench = Bench::start(5, 2, "1.13.12", "1.34.2");
    let line = "upgrade --upgrade-type os --profile test --target-talos-version 1.14.4 \
                --order workers-first --max-unavailable 2 --yes -o json";
    let done = bench.run(line).code(0);
    assert_eq!(bench.talos(), ["1.14.4"; 7]);
    let events = events(&done);
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(kinds.first(), Some(&"run-began"));
    assert_eq!(kinds.last(), Some(&"completed"));
    assert!(events.iter().all(|event| event["cluster"] == "test"));
    // Rule 1, seen from outside: no control plane begins to reboot before the
    // one before it was verified; and workers came first.
    let mut away: Option<String> = None;
    let mut rebooted = Vec::new();
    for event in &events {
        let step = event["step"].as_str().unwrap_or_default();
        let mut parts = step.split('/').skip(1);
        let (Some(node), Some(action)) = (parts.next(), parts.next()) else { continue };
        match (event["event"].as_str(), action) {
            (Some("step-started"), "reboot") => {
                rebooted.push(node.to_owned());
                if node.starts_with("cp-") {
                    assert_eq!(away, None, "{node} at {event}");
                    away = Some(node.to_owned());
                }
            }
            (Some("step-finished"), "verify") if away.as_deref() == Some(node) => away = None,
            _ => {}
        }
    }
    assert_eq!(rebooted.len(), 7, "{rebooted:?}");
    assert!(rebooted[..2].iter().all(|node| node.starts_with("worker-")), "{rebooted:?}");
}

#[test]
fn a_single_machine_is_upgraded_with_consent() {
    let bench = Bench::start(1, 0, "1.12.11", "1.34.2");
    let line = "upgrade os --profile test --talos 1.13.12 --yes";
    bench.run(line).code(1).says(&["the only control plane", "--accept-outage"]);
    bench.run(&format!("{line} --accept-outage")).code(0);
    assert_eq!(bench.talos(), ["1.13.12"]);
}

#[test]
fn kubernetes_alone_reboots_no_node() {
    let bench = Bench::start(3, 1, "1.13.12", "1.34.2");
    let line = "upgrade k8s --profile test --target-k8s-version 1.35.10 --yes";
    bench.run(line).code(0).says(&["done: Kubernetes 1.34.2 → 1.35.10", "images, Ready"]);
    bench.run("version --profile test").code(0).says(&["Kubernetes 1.35.10"]);
    assert_eq!(bench.talos(), ["1.13.12"; 4]);
    assert!(bench.read("test.yaml").contains("'1.35.10'"), "{}", bench.read("test.yaml"));
}

#[test]
fn both_over_several_minors() {
    let bench = Bench::start(3, 2, "1.12.11", "1.34.2");
    let line = "upgrade both --profile test --talos 1.13.12 --kubernetes 1.36.6 \
                --max-unavailable 2 --yes";
    bench
        .run(line)
        .code(0)
        .says(&["done: Talos 1.12.11 → 1.13.12, Kubernetes 1.34.2 → 1.36.6", "3 etcd snapshots"]);
    assert_eq!(bench.talos(), ["1.13.12"; 5]);
    let expected = PROFILE.replace("TALOS", "1.13.12").replace("KUBERNETES", "1.36.6");
    assert_eq!(bench.read("test.yaml"), expected);
}

#[test]
fn nodes_with_an_unreachable_second_network() {
    // Finding 14: every member lists its address in the storage network first. Each control
    // plane reaches only its own there, and each is the endpoint for a while.
    let bench = Bench::in_storage_network("1.13.9");
    bench.run("upgrade os --profile test --talos 1.13.12 --yes").code(0);
    assert_eq!(bench.talos(), ["1.13.12"; 4]);
    bench.run("health --profile test").code(0);
}
