//! gRPC requests that no talosctl sends, with the code of a real node.

use talos_proto::{common as proto, machine};
use talos_sim::address::Layout;
use talos_sim::cluster::{Cluster, Options, Shape};
use talos_sim::model::EMPTY_SCHEMATIC;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use upgrade_core::version::Version;

use crate::calls::{call, connect, frame, send};

const TALOS: Version = Version::new(1, 13, 9);

/// A version of the last line without the lifecycle API.
const OLDER: Version = Version::new(1, 12, 11);

async fn start(talos: &Version, workers: usize) -> Cluster {
    with_layout(talos, workers, Layout::Auto).await
}

async fn with_layout(talos: &Version, workers: usize, layout: Layout) -> Cluster {
    let kubernetes = Version::new(1, 34, 2);
    let shape = Shape { talos: talos.clone(), kubernetes, workers, ..Shape::default() };
    testkit::cluster::start(Options { layout, ..testkit::cluster::options(shape) }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_must_have_been_pulled() {
    let cluster = start(&TALOS, 0).await;
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
    let answered = call(&cluster, &[], path, &request).await;
    assert_eq!(answered.code, 13, "{answered:?}");
    assert!(answered.message.contains("not found"), "{answered:?}");
    // A node of 1.12 does not have this service at all.
    let older = start(&OLDER, 0).await;
    let answered = call(&older, &[], path, &request).await;
    assert_eq!(answered.code, 12, "{answered:?}");
    assert_eq!(answered.message, "unknown service machine.LifecycleService");
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_requests_are_refused() {
    let cluster = start(&TALOS, 1).await;
    let version = "/machine.MachineService/Version";
    let node = cluster.nodes()[3].address.to_string();
    let two = [("node", node.as_str()), ("node", "cp-1")];
    let answered = call(&cluster, &two, version, &()).await;
    assert_eq!(
        (answered.code, answered.message.as_str()),
        (3, "node metadata must be single-valued")
    );
    let nodes = [("nodes", node.as_str())];
    let answered = call(&cluster, &nodes, "/cosi.resource.State/Get", &()).await;
    assert_eq!(answered.code, 3, "{answered:?}");
    let answered = call(&cluster, &[("node", "cp-1:50000")], version, &()).await;
    assert_eq!(answered.code, 13, "{answered:?}");
    let answered = call(&cluster, &[], "/machine.MachineService/Fly", &()).await;
    assert_eq!(answered.code, 12, "{answered:?}");
    let answered = call(&cluster, &[], "/", &()).await;
    assert_eq!(answered.code, 12, "{answered:?}");

    let read = "/machine.MachineService/Read";
    let grpc = "application/grpc";
    let answered = send(&cluster, &[], read, grpc, &frame(&[0xff; 9])).await;
    assert_eq!(answered.code, 13, "{answered:?}");
    let answered = send(&cluster, &[], read, grpc, &vec![0, 0, 0].into()).await;
    assert!(answered.code > 0, "{answered:?}");
    let answered = send(&cluster, &[], read, "text/plain", &vec![].into()).await;
    assert_eq!((answered.http, answered.code), (415, -1));
    // More than 32 MiB according to the frame's header; the body need not follow.
    let answered = send(&cluster, &[], read, grpc, &vec![0, 0x7f, 0, 0, 0].into()).await;
    assert!(matches!(answered.code, 8 | 11), "{answered:?}");
    // The node still works after all that.
    assert_eq!(call(&cluster, &[], version, &()).await.code, 0);
}

/// Four pings in a row with nothing sent in between: apid closes the connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_pings_too_often_is_disconnected() {
    let cluster = start(&TALOS, 0).await;
    let mut stream = connect(&cluster).await;
    // The preface, empty settings, and the pings.
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    for _ in 0..4 {
        stream.write_all(b"\0\0\x08\x06\0\0\0\0\0PINGPING").await.unwrap();
        stream.flush().await.unwrap();
    }
    let mut answer = Vec::new();
    let reading = tokio::time::timeout(testkit::PATIENCE, stream.read_to_end(&mut answer));
    let _ = reading.await.expect("the connection ends");
    let text = String::from_utf8_lossy(&answer);
    assert!(text.contains("too_many_pings"), "{text:?}");
}

/// Where a system has only one loopback address, a node is still found by its name.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_share_an_address_are_found_by_name() {
    let cluster = with_layout(&TALOS, 2, Layout::Ports).await;
    let answered: crate::calls::Answered =
        call(&cluster, &[("node", "cp-2")], "/machine.MachineService/Hostname", &()).await;
    let hostname: machine::HostnameResponse =
        prost::Message::decode(answered.frames[0].clone()).expect("a message");
    assert_eq!(hostname.messages[0].hostname, "cp-2");
}
