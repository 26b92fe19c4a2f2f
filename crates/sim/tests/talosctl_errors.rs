//! What the real talosctl is told when something is wrong, with the gRPC code
//! that a real node gives.

mod common;

use common::raw::{self, call, frame, send};
use common::{Bench, KUBERNETES, NODES, PATIENCE, SPEED};
use talos_proto::{common as proto, machine};
use talos_sim::clock::wall_time;
use talos_sim::cluster::{Options, Shape};
use talos_sim::model::EMPTY_SCHEMATIC;
use talos_sim::pki::{Authority, Identity, Usage};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

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
async fn certificates_must_be_ours_and_of_today() {
    let bench = Bench::start(&NODES[2], 0).await;
    let now = wall_time();
    let admin = Identity::new("os:admin", now);
    let expired = bench.talosconfig("expired", &admin.clone().expired(now));
    let both = vec![Usage::Client, Usage::Server];
    let both = bench.talosconfig("both", &admin.clone().with_usages(both));
    // Our authority for the nodes, another's certificate for the caller.
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
    // And the other way round: a caller who trusts somebody else.
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
async fn nodes_that_are_not_there() {
    let bench = Bench::start(&NODES[1], 2).await;
    let (first, worker) = (bench.node("cp-1"), bench.node("worker-1"));
    let one = bench.node("worker-2");
    let nobody = format!("{}.99", first.rsplit_once('.').expect("an address").0);
    for talosctl in bench.each_talosctl() {
        let unavailable = "code = Unavailable desc = ";
        let line = format!("-n {nobody} version");
        talosctl.fails(&line, &[unavailable, "no route to host"]).await;
        talosctl.fails("-n nobody services", &[unavailable, "produced zero addresses"]).await;
        // One that answers and one that does not.
        let line = format!("-n {first},{nobody} services");
        let printed = talosctl.run(&line).await;
        assert!(printed.stdout.contains("kubelet"), "{printed:#?}");
        assert!(printed.stderr.contains(unavailable), "{printed:#?}");

        // Workers forward nothing, and answer for themselves.
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
async fn what_is_not_there() {
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

#[tokio::test(flavor = "multi_thread")]
async fn an_image_must_have_been_pulled() {
    let bench = Bench::start(&NODES[1], 0).await;
    let request = machine::LifecycleServiceUpgradeRequest {
        containerd: Some(proto::ContainerdInstance {
            driver: proto::ContainerDriver::Cri.into(),
            namespace: proto::ContainerdNamespace::NsSystem.into(),
        }),
        source: Some(machine::InstallArtifactsSource {
            image_name: format!("factory.talos.dev/metal-installer/{EMPTY_SCHEMATIC}:v1.14.1"),
        }),
    };
    let path = "/machine.LifecycleService/Upgrade";
    let answered = call(&bench, &[], path, &request).await;
    assert_eq!(answered.code, 13, "{answered:?}");
    assert!(answered.message.contains("not found"), "{answered:?}");
    // And a node of 1.12 has no such service at all.
    let older = Bench::start(&NODES[0], 0).await;
    let answered = call(&older, &[], path, &request).await;
    assert_eq!(answered.code, 12, "{answered:?}");
    assert_eq!(answered.message, "unknown service machine.LifecycleService");
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_requests_are_refused() {
    let bench = Bench::start(&NODES[1], 1).await;
    let version = "/machine.MachineService/Version";
    let node = bench.node("worker-1");
    let two = [("node", node.as_str()), ("node", "cp-1")];
    let answered = call(&bench, &two, version, &()).await;
    assert_eq!(
        (answered.code, answered.message.as_str()),
        (3, "node metadata must be single-valued")
    );
    let nodes = [("nodes", node.as_str())];
    let answered = call(&bench, &nodes, "/cosi.resource.State/Get", &()).await;
    assert_eq!(answered.code, 3, "{answered:?}");
    let answered = call(&bench, &[("node", "cp-1:50000")], version, &()).await;
    assert_eq!(answered.code, 13, "{answered:?}");
    let answered = call(&bench, &[], "/machine.MachineService/Fly", &()).await;
    assert_eq!(answered.code, 12, "{answered:?}");
    let answered = call(&bench, &[], "/", &()).await;
    assert_eq!(answered.code, 12, "{answered:?}");

    let read = "/machine.MachineService/Read";
    let grpc = "application/grpc";
    let answered = send(&bench, &[], read, grpc, &frame(&[0xff; 9])).await;
    assert_eq!(answered.code, 13, "{answered:?}");
    let answered = send(&bench, &[], read, grpc, &vec![0, 0, 0].into()).await;
    assert!(answered.code > 0, "{answered:?}");
    let answered = send(&bench, &[], read, "text/plain", &vec![].into()).await;
    assert_eq!((answered.http, answered.code), (415, -1));
    // More than 32 MiB, said in the frame's head; the rest need not come.
    let answered = send(&bench, &[], read, grpc, &vec![0, 0x7f, 0, 0, 0].into()).await;
    assert!(matches!(answered.code, 8 | 11), "{answered:?}");
    // And after all that it still works.
    assert_eq!(call(&bench, &[], version, &()).await.code, 0);
}

/// Four pings in a row, and nothing sent in between: apid has enough.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_pings_too_often_is_sent_away() {
    let bench = Bench::start(&NODES[1], 0).await;
    let mut stream = raw::connect(&bench).await;
    // The preface, empty settings, and the pings.
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    for _ in 0..4 {
        stream.write_all(b"\0\0\x08\x06\0\0\0\0\0PINGPING").await.unwrap();
        stream.flush().await.unwrap();
    }
    let mut answer = Vec::new();
    let reading = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer));
    let _ = reading.await.expect("the connection ends");
    let text = String::from_utf8_lossy(&answer);
    assert!(text.contains("too_many_pings"), "{text:?}");
}

/// Where a system has only one loopback address, each node has a port.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_can_share_an_address() {
    let bench = Bench::with(Options {
        shape: Some(Shape { talos: NODES[1].clone(), kubernetes: KUBERNETES, ..Shape::default() }),
        speed: SPEED,
        layout: talos_sim::address::Layout::Ports,
        ..Options::default()
    })
    .await;
    for talosctl in bench.each_talosctl() {
        let (worker, second) = (bench.node("worker-1"), bench.node("cp-2"));
        assert!(worker.starts_with("10.5."), "{worker}");
        talosctl.says(&format!("-n {worker},{second} version"), &[&worker, &second]).await;
        talosctl.says("-n worker-2 get nodename", &["worker-2"]).await;
    }
    let answered: raw::Answered =
        call(&bench, &[("node", "cp-2")], "/machine.MachineService/Hostname", &()).await;
    let hostname: machine::HostnameResponse =
        prost::Message::decode(answered.frames[0].clone()).expect("a message");
    assert_eq!(hostname.messages[0].hostname, "cp-2");
}
