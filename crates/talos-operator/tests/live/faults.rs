//! Every fault of the simulator: what may pass passes, and what may not ends in
//! a halt or a refusal that names the node, the cause and what to do.

use testkit::workloads::web_held;

use crate::bench::Bench;

/// Workers first: that is where things go wrong here.
const UPGRADE: &str = "upgrade os --profile test --talos 1.13.12 --order workers-first --yes";
const NEWER: &str = "upgrade os --profile test --talos 1.14.4 --order workers-first --yes";

/// From 1.12, whose nodes install and reboot by one call.
fn legacy() -> Bench {
    Bench::start(3, 1, "1.12.11", "1.34.2")
}

/// A run that halts at a worker: what it says, what it leaves behind.
fn halts(bench: &Bench, line: &str, words: &[&str]) {
    let halted = bench.run(line).code(1).says(&["halted:", "worker-1", "resume --profile test"]);
    halted.says(words);
    let status = bench.run("status --profile test").code(0);
    status.says(&["halted", "talos-operator resume --profile test"]);
}

#[test]
fn boot_back_halts_and_is_not_repeated() {
    let bench = legacy();
    bench.inject("worker-1", "boot-back");
    halts(&bench, UPGRADE, &["came back on its old version 1.12.11", "nothing was overwritten"]);
    assert_eq!(bench.talos(), ["1.12.11"; 4]);
    let cordoned = bench.run("health --profile test");
    assert!(!cordoned.stdout.contains("cordoned"), "rule 7: {cordoned:#?}");
    // Resuming finds the same thing again: only a new plan can continue (rule 5).
    bench.run("resume --profile test").code(1).says(&["old version 1.12.11"]);
    bench.clear("worker-1", "boot-back");
    bench.run(UPGRADE).code(0);
    assert_eq!(bench.talos(), ["1.13.12"; 4]);
}

#[test]
fn boot_back_of_the_newer_call() {
    let bench = Bench::start(3, 1, "1.13.12", "1.34.2");
    bench.inject("worker-1", "boot-back");
    halts(&bench, NEWER, &["came back on its old version 1.13.12"]);
}

#[test]
fn a_node_that_never_returns() {
    let bench = legacy();
    bench.edit("reboot: 60s", "reboot: 10s");
    bench.edit("install: 60s", "install: 5s");
    bench.inject("worker-1", "never-returns");
    halts(&bench, UPGRADE, &["did not come back", "console"]);
}

#[test]
fn a_reboot_that_is_lost() {
    let bench = Bench::start(3, 1, "1.13.12", "1.34.2");
    bench.edit("reboot: 60s", "reboot: 120s");
    bench.inject("worker-1", "lost-reboot");
    halts(&bench, NEWER, &["never went down", "armed:", "the next boot is into the new version"]);
    bench.clear("worker-1", "lost-reboot");
    bench.run("resume --profile test").code(0);
    assert_eq!(bench.talos(), ["1.14.4"; 4]);
}

#[test]
fn an_image_that_cannot_be_pulled() {
    let bench = legacy();
    bench.inject("worker-1", "failing-pull");
    halts(&bench, UPGRADE, &["pull failed", "reaches its registry"]);
    assert_eq!(bench.talos(), ["1.12.11"; 4], "nothing is disrupted before all is pulled");
    bench.clear("worker-1", "failing-pull");
    bench.run("resume --profile test").code(0);
    assert_eq!(bench.talos(), ["1.13.12"; 4]);
}

#[test]
fn an_installer_that_fails() {
    let bench = Bench::start(3, 1, "1.13.12", "1.34.2");
    bench.inject("worker-1", "installer-exit=4");
    halts(&bench, NEWER, &["install failed", "exit code 4", "The node is not armed"]);
    assert_eq!(bench.talos()[3], "1.13.12");
}

#[test]
fn an_installer_that_fails_late_leaves_the_node_armed_and_alone() {
    // Rule 5: it had made its version the default, and nothing is written again.
    let bench = Bench::start(3, 1, "1.13.12", "1.34.2");
    bench.inject("worker-1", "installer-exit-late=7");
    halts(&bench, NEWER, &["exit code 7", "made 1.14.4 the default", "armed: worker-1"]);
    bench.clear("worker-1", "installer-exit-late");
    for again in ["resume --profile test", NEWER] {
        bench.run(again).code(1).says(&["worker-1", "would delete", "talosctl rollback"]);
    }
    assert_eq!(bench.talos()[3], "1.13.12");
}

#[test]
fn an_installer_that_fails_in_the_older_call() {
    let bench = legacy();
    // That call does not tell the installer's code: the node comes back as it was.
    bench.inject("worker-1", "installer-exit=7");
    halts(&bench, UPGRADE, &["came back on its old version 1.12.11"]);
    assert_eq!(bench.talos()[3], "1.12.11");
}

#[test]
fn slow_nodes_do_not_fail_the_run() {
    let bench = legacy();
    bench.inject("worker-1", "slow-pull=5");
    // A dropped call that changes the node is never repeated by itself (rule 8), so a run
    // may halt for it; reads are.
    bench.inject("cp-3", "apid-drops=3:reads");
    bench.run(UPGRADE).code(0);
    assert_eq!(bench.talos(), ["1.13.12"; 4]);
}

#[test]
fn a_node_that_does_not_become_healthy() {
    let bench = legacy();
    bench.edit("verify: 90s", "verify: 15s");
    // Rule 10: it was unmet neither before nor at planning.
    bench.inject("worker-1", "unmet-after-boot=time");
    let words = ["verify failed", "did not become healthy in time", "time (time is not synced)"];
    halts(&bench, UPGRADE, &words);
    bench.clear("worker-1", "unmet-after-boot");
    bench.edit("verify: 15s", "verify: 90s");
    bench.run("resume --profile test").code(0);
    assert_eq!(bench.talos(), ["1.13.12"; 4]);
}

#[test]
fn a_node_that_is_never_ready_and_works_is_upgraded() {
    // No default route, as in an air gap.
    let bench = legacy();
    let unmet = "network (waiting on: connectivity)";
    bench.inject("worker-1", "unmet-condition");
    bench.run("health --profile test").code(0).says(&[unmet]);
    let plan = "plan --profile test --talos-to 1.13.12";
    bench.run(plan).code(0).says(&["worker-1 runs and is not ready", unmet]);
    bench.run(UPGRADE).code(0);
    assert_eq!(bench.talos(), ["1.13.12"; 4]);
    // The same over a kubelet that restarts.
    bench.run("upgrade k8s --profile test --kubernetes 1.35.2 --yes").code(0);
}

#[test]
fn a_version_that_boots_by_kexec_alone_halts_at_the_first_node() {
    // Rule 12: by kexec all nodes would look fine until the next power cut.
    let bench = Bench::start(3, 2, "1.13.12", "1.34.2");
    bench.edit("reboot: 60s", "reboot: 10s");
    for node in ["worker-1", "worker-2"] {
        bench.inject(node, "kexec-only");
    }
    let line = format!("{NEWER} --reboot-mode powercycle-first");
    halts(&bench, &line, &["did not come back from its power cycle", "console"]);
    bench.run("health --profile test").code(1);
    bench.clear("worker-1", "kexec-only");
    bench.clear("worker-2", "kexec-only");
    bench.edit("reboot: 10s", "reboot: 60s");
    bench.run("resume --profile test").code(0);
    assert_eq!(bench.talos(), ["1.14.4"; 5]);
}

#[test]
fn an_unfit_etcd_is_not_disrupted() {
    let bench = legacy();
    for (fault, words) in
        [("etcd-learner", "learner"), ("etcd-alarm", "NOSPACE"), ("etcd-lag", "behind")]
    {
        bench.inject("cp-2", fault);
        let refused = bench.run(UPGRADE).code(1);
        let refused = refused.says(&["etcd cannot lose a member now", words, "repair etcd"]);
        assert!(refused.stdout.is_empty(), "{refused:#?}");
        let health = bench.run("health --profile test").code(1).says(&[words, "is not healthy"]);
        // etcd answers nothing but its status on a learner, which is no second problem.
        let output = format!("{}{}", health.stdout, health.stderr);
        assert!(!output.contains("rpc not supported"), "{output}");
        assert!(fault != "etcd-learner" || !output.contains("does not answer"), "{output}");
        bench.clear("cp-2", fault);
    }
    assert_eq!(bench.talos(), ["1.12.11"; 4]);
}

#[test]
fn a_node_that_cannot_be_observed_is_not_touched() {
    let bench = legacy();
    bench.inject("worker-1", "partition");
    bench
        .run(UPGRADE)
        .code(1)
        .says(&["the state of worker-1 is unknown", "restore the connection"]);
    bench.clear("worker-1", "partition");
    bench.inject("cp-3", "not-ready");
    bench.run("health --profile test").code(1);
    bench
        .run(UPGRADE)
        .code(1)
        .says(&["control plane cp-3 is not ready", "bring back what is down"]);
    assert_eq!(bench.talos(), ["1.12.11"; 4]);
}

#[test]
fn a_budget_that_never_allows_is_named_before_and_at_the_deadline() {
    let bench = Bench::with(3, 2, "1.12.11", "1.34.2", &web_held());
    bench.edit("timeout: 60s", "timeout: 5s");
    bench
        .run("plan --profile test --talos-to 1.13.12")
        .code(0)
        .says(&["budget default/web never allows an eviction"]);
    let line = "upgrade os --profile test --talos 1.13.12 --order workers-first --yes";
    let halted = bench.run(line).code(1);
    halted.says(&["halted:", "drain failed", "default/web", "relax their disruption budget"]);
    let health = bench.run("health --profile test").code(0);
    assert!(!health.stdout.contains("cordoned"), "rule 7: {health:#?}");
    assert_eq!(bench.talos(), ["1.12.11"; 5]);
    // Rule 6: what happens at the deadline is the policy's choice.
    bench.edit("drain: {timeout: 5s}", "drain: {timeout: 5s, on_timeout: proceed}");
    bench.run(line).code(0);
    assert_eq!(bench.talos(), ["1.13.12"; 5]);
}
