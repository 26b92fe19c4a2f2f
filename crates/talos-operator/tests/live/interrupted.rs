//! Runs that do not reach their end in one go: paused, stopped, killed, and two
//! at once.

use testkit::{PATIENCE, now};

use crate::bench::{Bench, step};

const UPGRADE: &str = "upgrade os --profile test --talos 1.13.12 --accept-outage --yes";

#[test]
fn a_second_process_is_refused_and_the_first_can_be_paused() {
    let bench = Bench::start(3, 1, "1.12.11", "1.34.2");
    let first = bench.spawn(UPGRADE);
    bench.wait_for("beginning", |entry| entry["record"] == "began");
    let name = format!("process {}", first.id());
    bench.run(UPGRADE).code(1).says(&[&name, "is already driving this cluster"]);
    bench.run("resume --profile test").code(1).says(&[&name]);
    bench.run("rollback worker-1 --profile test --yes").code(1).says(&[&name]);
    bench.run("status --profile test").code(0).says(&["in progress:", &name]);
    bench.wait_for("drain", step("started", "/drain"));
    bench.run("pause --profile test").code(0).says(&["pause requested", &name]);
    let paused = first.finish().code(3).says(&["paused: by tester@", "resume --profile test"]);
    assert!(!paused.stderr.contains("halted"), "{paused:#?}");
    // Rule 12: no node is in flight, no cordon is left.
    bench.run("health --profile test").code(0);
    bench.run("status --profile test").code(0).says(&["paused by tester@"]);
    bench.run(UPGRADE).code(1).says(&["has not ended: paused", "--new-plan"]);
    bench.run("resume --profile test").code(0).says(&["resumed by tester@"]);
    assert_eq!(bench.talos(), ["1.13.12"; 4]);
}

#[test]
fn ctrl_c_once_lets_the_node_in_flight_finish() {
    let bench = Bench::start(3, 1, "1.12.11", "1.34.2");
    let run = bench.spawn(UPGRADE);
    bench.wait_for("upgrade", step("started", "/upgrade"));
    run.signal("INT");
    run.finish().code(3).says(&[
        "pausing: requested by Ctrl-C",
        "paused: by Ctrl-C",
        "talos-operator resume --profile test",
    ]);
    let done = bench.talos().iter().filter(|version| *version == "1.13.12").count();
    assert_eq!(done, 1, "the node in flight, and no other: {:?}", bench.talos());
    bench.run("health --profile test").code(0);
    bench.run("resume --profile test").code(0);
    assert_eq!(bench.talos(), ["1.13.12"; 4]);
}

#[test]
fn ctrl_c_twice_stops_at_once() {
    let bench = Bench::start(1, 1, "1.12.11", "1.34.2");
    let mut run = bench.spawn(UPGRADE);
    bench.wait_for("upgrade", step("started", "/upgrade"));
    run.signal("INT");
    std::thread::sleep(std::time::Duration::from_millis(300));
    if !run.has_ended() {
        run.signal("INT");
    }
    run.finish().code(3).says(&["talos-operator resume --profile test"]);
    bench.run("resume --profile test").code(0);
    assert_eq!(bench.talos(), ["1.13.12"; 2]);
}

/// Rule 8: one run, killed after an entry of every kind that it writes, and
/// taken up again each time.
#[test]
fn a_run_killed_at_every_kind_of_entry_resumes() {
    let bench = Bench::start(3, 1, "1.12.11", "1.34.2");
    let mut line = UPGRADE;
    let moments: [(&str, &str); 9] = [
        ("began", ""),
        ("started", "/pull"),
        ("finished", "/snapshot-etcd"),
        ("started", "/cordon"),
        ("started", "/drain"),
        ("started", "cp-2/upgrade"),
        ("finished", "/upgrade"),
        ("finished", "/verify"),
        ("started", "worker-1/upgrade"),
    ];
    for (record, name) in moments {
        let seen = bench.journal().len();
        let mut run = bench.spawn(line);
        line = "resume --profile test";
        let began = now();
        loop {
            let journal = bench.journal();
            let fresh = journal.get(seen..).unwrap_or_default();
            let fits = |entry: &serde_json::Value| {
                entry["record"] == record && (name.is_empty() || step(record, name)(entry))
            };
            // Passed already in an earlier round: the next moment then.
            if fresh.iter().any(fits) || run.has_ended() {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "{record} {name}: {journal:#?}");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        if run.has_ended() {
            break;
        }
        run.signal("KILL");
        let killed = run.finish();
        assert_eq!(killed.code, None, "{record} {name}: {killed:#?}");
        bench.run("status --profile test").code(0).says(&["interrupted: no process is driving it"]);
    }
    bench.run(line).code(0);
    assert_eq!(bench.talos(), ["1.13.12"; 4]);
    let health = bench.run("health --profile test").code(0);
    assert!(!health.stdout.contains("cordoned"), "rule 7: {health:#?}");
    // The profile is written by the run that ends, whichever that is.
    assert!(bench.read("test.yaml").contains("\"1.13.12\""));
}

#[test]
fn a_run_killed_after_a_halt_or_a_pause_resumes() {
    let bench = Bench::start(1, 1, "1.12.11", "1.34.2");
    bench.inject("worker-1", "failing-pull");
    let run = bench.spawn(UPGRADE);
    bench.wait_for("halt", |entry| entry["record"] == "halted");
    run.signal("KILL");
    drop(run);
    bench.run("status --profile test").code(0).says(&["halted"]);
    bench.clear("worker-1", "failing-pull");
    let run = bench.spawn("resume --profile test");
    bench.wait_for("resumption", |entry| entry["record"] == "resumed");
    run.signal("KILL");
    drop(run);
    let run = bench.spawn("resume --profile test");
    bench.wait_for("drain", step("started", "/drain"));
    run.signal("INT");
    bench.wait_for("pause", |entry| entry["record"] == "paused");
    run.signal("KILL");
    drop(run);
    bench.run("resume --profile test").code(0);
    assert_eq!(bench.talos(), ["1.13.12"; 2]);
}

#[test]
fn an_interrupted_run_can_be_replaced() {
    let bench = Bench::start(3, 1, "1.12.11", "1.34.2");
    let run = bench.spawn(UPGRADE);
    bench.wait_for("cordon", step("finished", "/cordon"));
    run.signal("KILL");
    drop(run);
    bench.run(UPGRADE).code(1).says(&["has not ended", "--new-plan"]);
    bench.run(&format!("{UPGRADE} --new-plan")).code(0);
    assert_eq!(bench.talos(), ["1.13.12"; 4]);
    let health = bench.run("health --profile test").code(0);
    assert!(!health.stdout.contains("cordoned"), "rule 7: {health:#?}");
    bench.run("status --profile test").code(0).says(&["EARLIER"]);
}
