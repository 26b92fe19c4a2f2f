//! The errors that the real talosctl receives, with the gRPC code of a real node.

use talos_sim::address::Layout;
use talos_sim::clock::wall_time;
use talos_sim::cluster::Options;
use talos_sim::pki::{Authority, Identity, Usage};

use crate::bench::{Bench, NODES, options};

#[tokio::test(flavor = "multi_thread")]
async fn roles_limit_what_a_caller_may_do() {
    let bench = Bench::start(&NODES[1], 0).await;
    let now = wall_time();
    let [reader, operator, backup] = ["os:reader", "os:operator", "os:etcd:backup"].map(|role| {
        let file = bench.talosconfig(&role.replace(':', "-"), &Identity::new(role, now));
        format!("--talosconfig {}", file.display())
    });
    let denied = ["code = PermissionDenied desc = not authorized"];
    for talosctl in bench.each_talosctl() {
        talosctl.ok(&format!("{reader} services")).await;
        talosctl.ok(&format!("{reader} get members")).await;
        talosctl.fails(&format!("{reader} get mc"), &denied).await;
        talosctl.fails(&format!("{reader} reboot --wait=false"), &denied).await;
        talosctl.fails(&format!("{reader} etcd snapshot x.db"), &denied).await;
        talosctl.fails(&format!("{reader} read /etc/os-release"), &denied).await;
        talosctl.fails(&format!("{operator} rollback"), &denied).await;
        talosctl.ok(&format!("{operator} etcd defrag")).await;
        talosctl.ok(&format!("{backup} etcd snapshot b.db")).await;
        talosctl.fails(&format!("{backup} services"), &denied).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_must_be_valid_and_of_our_authority() {
    let bench = Bench::start(&NODES[2], 0).await;
    let now = wall_time();
    let admin = Identity::new("os:admin", now);
    let expired = bench.talosconfig("expired", &admin.clone().expired(now));
    let both = vec![Usage::Client, Usage::Server];
    let both = bench.talosconfig("both", &admin.clone().with_usages(both));
    // The client trusts our authority, but has another one's certificate.
    let stranger = Authority::generate(now).expect("an authority").client(&admin).expect("a pair");
    let replaced = bench.cluster.talosconfig().lines().map(|line| {
        let (key, value) = line.split_once(": ").unwrap_or((line, ""));
        match key.trim() {
            "crt" => format!("{key}: {}", talos_sim::talosconfig::encode(&stranger.certificate)),
            "key" => format!("{key}: {}", talos_sim::talosconfig::encode(&stranger.key)),
            _ if value.is_empty() => line.to_owned(),
            _ => format!("{key}: {value}"),
        }
    });
    let stranger = bench.file("stranger", &replaced.collect::<Vec<_>>().join("\n"));
    // The other way round: a client that trusts another authority.
    let other = Bench::start(&NODES[2], 0).await;
    let ca = |text: &str| text.lines().find(|line| line.contains(" ca: ")).unwrap().to_owned();
    let text = bench.cluster.talosconfig();
    let text = text.replace(&ca(text), &ca(other.cluster.talosconfig()));
    let misled = bench.file("misled", &text);
    for talosctl in bench.each_talosctl() {
        for (file, wanted) in [
            (&expired, "tls: expired certificate"),
            (&stranger, "tls: unknown certificate authority"),
            (&both, "tls: bad certificate"),
            (&misled, "certificate signed by unknown authority"),
        ] {
            let line = format!("--talosconfig {} version", file.display());
            talosctl.fails(&line, &["code = Unavailable", wanted]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_and_unknown_nodes() {
    let bench = Bench::start(&NODES[1], 2).await;
    let (first, worker) = (bench.node("cp-1"), bench.node("worker-1"));
    let one = bench.node("worker-2");
    let absent = format!("{}.99", first.rsplit_once('.').expect("an address").0);
    for talosctl in bench.each_talosctl() {
        let unavailable = "code = Unavailable desc = ";
        let line = format!("-n {absent} version");
        talosctl.fails(&line, &[unavailable, "no route to host"]).await;
        talosctl.fails("-n nobody services", &[unavailable, "produced zero addresses"]).await;
        // One that answers and one that does not.
        let line = format!("-n {first},{absent} services");
        let printed = talosctl.run(&line).await;
        assert!(printed.stdout.contains("kubelet"), "{printed:#?}");
        assert!(printed.stderr.contains(unavailable), "{printed:#?}");

        // Workers forward nothing, and answer only for themselves.
        let refused = ["code = PermissionDenied desc = no request forwarding"];
        talosctl.fails(&format!("-e {worker} -n {first} version"), &refused).await;
        talosctl.fails(&format!("-e {worker} -n {first} get members"), &refused).await;
        talosctl.ok(&format!("-e {worker} -n {worker} version")).await;
        talosctl.ok(&format!("-e {worker} -n worker-1 get members")).await;

        bench.cluster.inject("worker-2", "partition").await.expect("a fault");
        let refused = [unavailable, "connection refused"];
        talosctl.fails(&format!("-n {one} version"), &refused).await;
        talosctl.fails(&format!("-e {one} -n {one} version"), &refused).await;
        bench.cluster.clear("worker-2", "partition").await.expect("no fault");
        talosctl.ok(&format!("-n {one} version")).await;

        bench.cluster.inject("worker-2", "apid-drops=1").await.expect("a fault");
        talosctl.fails(&format!("-n {one} version"), &[unavailable, "EOF"]).await;
        talosctl.fails(&format!("-e {one} -n {one} version"), &[unavailable]).await;
        bench.cluster.clear("worker-2", "apid-drops").await.expect("no fault");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_resources_and_methods() {
    let bench = Bench::start(&NODES[2], 0).await;
    for talosctl in bench.each_talosctl() {
        talosctl.fails("get fish", &["code = NotFound", "not registered"]).await;
        talosctl.fails("get members nobody", &["code = NotFound", "doesn't exist"]).await;
        talosctl.fails("read /nowhere", &["no such file or directory"]).await;
        talosctl.fails("logs nobody", &["was not registered"]).await;
        talosctl.fails("service nobody", &["not registered"]).await;
        talosctl
            .fails("processes", &["code = Unimplemented desc = unknown method Processes"])
            .await;
    }
}

/// Where a system has only one loopback address, each node has a port.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_can_share_an_address() {
    let bench = Bench::with(Options { layout: Layout::Ports, ..options(&NODES[1], 2) }).await;
    for talosctl in bench.each_talosctl() {
        let (worker, second) = (bench.node("worker-1"), bench.node("cp-2"));
        assert!(worker.starts_with("10.5."), "{worker}");
        talosctl.says(&format!("-n {worker},{second} version"), &[&worker, &second]).await;
        talosctl.says("-n worker-2 get nodename", &["worker-2"]).await;
    }
}
