//! What survives a restart, who may use a folder, and the services beside the nodes.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use talos_sim::address::Layout;
use talos_sim::cluster::{Cluster, Options, Shape, StartError};
use talos_sim::control::{self, Ask, ControlError};
use talos_sim::model::EMPTY_SCHEMATIC;
use talos_sim::schedule;
use talos_sim::store::StoreError;
use testkit::cluster::pass;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use upgrade_core::version::Version;

fn options(folder: &Path) -> Options {
    Options {
        shape: Some(Shape {
            control_planes: 1,
            workers: 1,
            talos: Version::new(1, 13, 9),
            kubernetes: Version::new(1, 34, 2),
            ..Shape::default()
        }),
        folder: Some(folder.to_owned()),
        speed: 100.0,
        ..Options::default()
    }
}

/// A plain HTTP request; returns status and body.
async fn http(url: &str, method: &str, path: &str, body: &str) -> (u16, String) {
    let host = url.strip_prefix("http://").expect("a URL");
    let mut stream = TcpStream::connect(host).await.expect("a connection");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
    (status, body.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_continues_where_it_stopped() {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = temporary.path().join("cluster");
    let cluster = Cluster::start(options(&folder)).await.expect("it starts");
    let (url, nodes) = (cluster.factory_url(), cluster.nodes().to_vec());
    let yaml = "customization: {systemExtensions: {officialExtensions: [siderolabs/gvisor]}}";
    let (status, created) = http(&url, "POST", "/schematics", yaml).await;
    assert_eq!(status, 201, "{created}");
    cluster.inject("worker-1", "slow-pull=3").await.expect("a fault");
    let config = std::fs::read_to_string(folder.join("talosconfig")).expect("a talosconfig");
    assert_eq!(config, cluster.talosconfig());
    let before = cluster.driver().visit(|inside| inside.world.now()).await.expect("a time");
    cluster.stop().await;
    assert!(TcpStream::connect(nodes[0].apid).await.is_err(), "the socket is closed");

    let mut again = options(&folder);
    again.shape = None;
    let cluster = Cluster::start(again).await.expect("it starts again");
    assert_eq!((cluster.factory_url(), cluster.nodes()), (url.clone(), nodes.as_slice()));
    let after = cluster.driver().visit(|inside| inside.world.now()).await.expect("a time");
    assert!(after >= before, "time never goes back");
    let faults = cluster.ask(Ask::Faults).await.expect("faults");
    assert_eq!((faults[0].node.as_str(), faults[0].fault.as_str()), ("worker-1", "slow-pull=3"));
    let id = created.split('"').nth(3).expect("an id");
    assert_eq!(http(&url, "GET", &format!("/schematics/{id}"), "").await.0, 200);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_has_one_owner_and_one_cluster() {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = temporary.path().join("cluster");
    let cluster = Cluster::start(options(&folder)).await.expect("it starts");
    let second = Cluster::start(options(&folder)).await.expect_err("in use");
    assert!(matches!(second, StartError::Store(StoreError::InUse(_))), "{second}");
    cluster.stop().await;

    let mut other = options(&folder);
    other.shape.as_mut().expect("a shape").workers = 7;
    let differs = Cluster::start(other).await.expect_err("another shape");
    assert!(differs.to_string().contains("workers 1, not 7"), "{differs}");

    std::fs::write(temporary.path().join("notes.txt"), "mine").expect("written");
    let stranger = Cluster::start(options(temporary.path())).await.expect_err("not ours");
    assert!(matches!(stranger, StartError::Store(StoreError::NotOurs(_))), "{stranger}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_address_leaves_nothing_behind() {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = temporary.path().join("cluster");
    // A block that no other cluster or run of this test uses.
    let first = Ipv4Addr::new(127, 32, 0, 0).to_bits() + ((std::process::id() % 8192) << 8);
    let block = |last: u32| Ipv4Addr::from_bits(first + last);
    // A node's socket, so that others are already open before it.
    let taken = SocketAddr::new(block(3).into(), 50_000);
    let _taken = TcpListener::bind(taken).await.expect("free");
    let mut wanted = options(&folder);
    (wanted.subnet, wanted.layout) = (Some(block(0)), Layout::Addresses);
    let error = Cluster::start(wanted.clone()).await.expect_err("taken");
    assert!(error.to_string().contains(&taken.to_string()), "{error}");
    assert!(!folder.exists(), "the folder is untouched");
    TcpListener::bind((block(2), 50_000)).await.expect("closed again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_cluster_is_controlled_through_its_folder() {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = temporary.path().join("cluster");
    let missing = control::ask(&folder, Ask::Faults).await.expect_err("nothing there");
    assert!(matches!(missing, ControlError::Store(StoreError::Missing(_))), "{missing}");
    let mut planned = options(&folder);
    planned.faults = schedule::parse_file("- {node: cp-1, fault: not-ready, after: 1s}").unwrap();
    let cluster = Cluster::start(planned).await.expect("it starts");
    pass(&cluster, Duration::from_secs(2)).await;
    let faults = control::ask(&folder, Ask::Faults).await.expect("an answer");
    assert_eq!(faults.len(), 1, "{faults:?}");

    let inject = |node: &str, fault: &str| Ask::Inject {
        node: Some(node.to_owned()),
        fault: fault.to_owned(),
        lasting: Some(Duration::from_secs(20)),
    };
    let faults = control::ask(&folder, inject("worker-1", "partition")).await.expect("an answer");
    assert_eq!(faults.len(), 2, "{faults:?}");
    for (node, fault) in [("nobody", "partition"), ("cp-1", "flood")] {
        let error = control::ask(&folder, inject(node, fault)).await.expect_err("refused");
        assert!(matches!(error, ControlError::Refused(_)), "{error}");
    }
    // Twenty seconds later it is over.
    pass(&cluster, Duration::from_secs(20)).await;
    let faults = control::ask(&folder, Ask::Faults).await.expect("an answer");
    assert_eq!(faults.len(), 1, "{faults:?}");
    control::ask(&folder, Ask::Speed(1.0)).await.expect("an answer");
    cluster.stop().await;
    let stopped = control::ask(&folder, Ask::Faults).await.expect_err("stopped");
    assert!(matches!(stopped, ControlError::Store(StoreError::NotRunning(_))), "{stopped}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_factory_stands_beside_the_nodes() {
    let mut options = options(Path::new("unused"));
    options.folder = None;
    let cluster = Cluster::start(options).await.expect("it starts");
    let url = cluster.factory_url();
    let (status, body) = http(&url, "POST", "/schematics", "customization: {}\n").await;
    assert_eq!(status, 201);
    let created: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(created["id"], EMPTY_SCHEMATIC);
    assert_eq!(http(&url, "POST", "/schematics", "customisation: {}").await.0, 400);
    let path = format!("/schematics/{EMPTY_SCHEMATIC}");
    assert_eq!(http(&url, "GET", &path, "").await, (200, "customization: {}\n".to_owned()));
    assert_eq!(http(&url, "GET", "/schematics/nothing", "").await.0, 404);

    let versions = http(&url, "GET", "/versions", "").await.1;
    assert!(versions.contains("\"v1.13.9\"") && versions.contains("\"v1.12.0\""), "{versions}");
    assert_eq!(http(&url, "GET", "/versions?broken=true", "").await.0, 200);
    let extensions = http(&url, "GET", "/version/v1.13.9/extensions/official", "").await.1;
    assert!(extensions.contains("siderolabs/qemu-guest-agent"), "{extensions}");
    assert_eq!(http(&url, "GET", "/version/v9.9.9/extensions/official", "").await.0, 404);

    assert_eq!(http(&url, "GET", "/v2/", "").await.0, 200);
    let manifest = format!("/v2/metal-installer/{EMPTY_SCHEMATIC}/manifests/v1.13.9");
    let (status, body) = http(&url, "GET", &manifest, "").await;
    assert!(status == 200 && body.contains("schemaVersion"), "{body}");
    assert_eq!(http(&url, "HEAD", &manifest, "").await, (200, String::new()));
    assert_eq!(http(&url, "GET", &manifest.replace("v1.13.9", "v1.13.99"), "").await.0, 404);
    assert_eq!(http(&url, "DELETE", &manifest, "").await.0, 405);
    let tags = format!("/v2/metal-installer/{EMPTY_SCHEMATIC}/tags/list");
    assert!(http(&url, "GET", &tags, "").await.1.contains("v1.13.9"));
    cluster.stop().await;
}
