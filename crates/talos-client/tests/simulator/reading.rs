//! What a node reports about itself: version, services, files, logs, health.

use std::io::Write as _;
use std::time::Duration;

use flate2::{Compression, write::GzEncoder};
use talos_client::deadline::Deadlines;
use talos_client::health::HealthCheck;
use talos_client::logs::{Follow, Lines};
use talos_client::{ByteStream, Client, Failure};

use crate::{TALOS_1_13, TALOS_1_14, World, all_of, code, context, deadlines, each_version};

each_version!(the_machine, services, boot_ids, files, logs, health);

async fn the_machine(talos: &'static str) {
    let world = World::shared(talos).await;
    for place in world.cluster.nodes() {
        // Address and name reach the same machine.
        let by_address = world.client.node(place.address.into());
        let by_name = world.client.node(place.hostname.parse().unwrap());
        assert_eq!(by_address.hostname().await.unwrap(), place.hostname);
        assert_eq!(by_name.hostname().await.unwrap(), place.hostname);

        let version = by_address.version().await.unwrap();
        assert_eq!(version.tag, format!("v{talos}"));
        assert_eq!(version.version().unwrap().to_string(), talos);
        assert_eq!((version.arch.as_str(), version.platform.as_str()), ("amd64", "metal"));
        assert!(version.rbac && !version.is_container());

        let memory = by_address.memory().await.unwrap();
        assert!(memory.total >= memory.available && memory.available > 0);
        assert!(by_address.booted_at().await.unwrap() > Duration::from_hours(24));
    }
    // Without a node it is an endpoint that answers: a control plane.
    assert!(world.client.endpoint().hostname().await.unwrap().starts_with("cp-"));
}

async fn services(talos: &'static str) {
    let world = World::shared(talos).await;
    let control_plane = world.node("cp-2").services().await.unwrap();
    for id in ["apid", "etcd", "kubelet", "trustd"] {
        let service = control_plane.iter().find(|service| service.id == id).expect(id);
        assert_eq!(service.state, "Running", "{id}");
        assert_eq!(service.healthy, Some(true), "{id}");
        let last = service.events.last().expect("something that happened");
        assert!(last.at.is_some() && !last.state.is_empty(), "{last:?}");
    }
    let worker = world.node("worker-1").services().await.unwrap();
    assert!(worker.iter().all(|service| service.id != "etcd" && service.id != "trustd"));
    assert!(worker.iter().any(|service| service.id == "kubelet"));
}

async fn boot_ids(talos: &'static str) {
    let world = World::shared(talos).await;
    let one = world.node("cp-1").boot_id().await.unwrap();
    let file = world.node("cp-1").read_file("/proc/sys/kernel/random/boot_id").await.unwrap();
    let file = file.collect(100).await.unwrap();
    assert_eq!(String::from_utf8(file).unwrap().trim(), one);
    assert_eq!(world.node("cp-1").boot_id().await.unwrap(), one);
    assert_ne!(world.node("worker-1").boot_id().await.unwrap(), one);

    // Only the newest version allows readers to read it.
    let reader = world.client_as("os:reader").node(world.place("cp-1").address.into());
    match reader.boot_id().await {
        Ok(id) => assert_eq!((talos, id), (TALOS_1_14, one)),
        Err(error) => {
            assert_ne!(talos, TALOS_1_14);
            assert!(matches!(error.failure(), Failure::NotAuthorised(_)), "{error:?}");
        }
    }
}

async fn files(talos: &'static str) {
    let world = World::shared(talos).await;
    let node = world.node("worker-1");
    let text = node.read_file("/etc/os-release").await.unwrap().collect(4096).await.unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains(&format!("VERSION_ID=v{talos}\n")), "{text}");
    let longer = node.read_file("/etc/os-release").await.unwrap().collect(8).await;
    assert!(matches!(longer.unwrap_err().failure(), Failure::Malformed(_)));

    // Whether the node fails before the first message or instead of it does not matter; the client
    // has to return the right failure.
    let read = |path: &'static str| {
        let node = node.clone();
        async move { node.read_file(path).await?.collect(4096).await }
    };
    let missing = read("/etc/no-such-file").await.unwrap_err();
    assert!(matches!(missing.failure(), Failure::NotFound(_)), "{missing:?}");
    let folder = read("/etc").await.unwrap_err();
    assert_eq!(code(folder.failure()), Some(tonic::Code::Unknown), "{folder:?}");
}

async fn logs(talos: &'static str) {
    let world = World::shared(talos).await;
    let node = world.node("cp-3");
    let dmesg = node.dmesg(Follow::No).await.unwrap().collect(1 << 20).await.unwrap();
    let dmesg = String::from_utf8(dmesg).unwrap();
    assert!(dmesg.contains(&format!("booting Talos v{talos}")), "{dmesg}");

    let log = |lines| {
        let node = node.clone();
        async move {
            let stream = node.service_log("kubelet", lines, Follow::No).await?;
            stream.collect(1 << 20).await
        }
    };
    let all = String::from_utf8(log(Lines::All).await.unwrap()).unwrap();
    let last = String::from_utf8(log(Lines::Last(1)).await.unwrap()).unwrap();
    assert!(all.lines().count() > 1 && all.ends_with(&last), "{all}");
    assert_eq!(last.lines().count(), 1, "{last}");
    assert!(log(Lines::Last(0)).await.unwrap().is_empty());

    let unknown = async {
        node.service_log("no-such-service", Lines::All, Follow::No).await?.collect(4096).await
    };
    let unknown = unknown.await.unwrap_err();
    assert_eq!(code(unknown.failure()), Some(tonic::Code::Unknown), "{unknown:?}");

    // A stream that follows stays open until its silence is an error.
    let follow_idle = Duration::from_secs(1);
    let patient = Deadlines { follow_idle, ..deadlines() };
    let client = Client::with_deadlines(&context(world.cluster.talosconfig()), patient).unwrap();
    let node = client.node(world.place("cp-3").address.into());
    let silence = async |mut stream: ByteStream| {
        let mut seen = 0;
        let error = loop {
            match stream.next().await {
                Ok(Some(bytes)) => seen += bytes.len(),
                Ok(None) => panic!("the node ended it"),
                Err(error) => break error,
            }
        };
        assert!(seen > 0);
        assert_eq!(*error.failure(), Failure::Idle(follow_idle));
    };
    tokio::join!(
        silence(node.dmesg(Follow::Yes).await.unwrap()),
        silence(node.service_log("etcd", Lines::All, Follow::Yes).await.unwrap()),
    );
}

async fn health(talos: &'static str) {
    let world = World::shared(talos).await;
    let check = HealthCheck {
        wait: Duration::from_mins(1),
        control_planes: Vec::new(),
        workers: Vec::new(),
    };
    let mut report = world.node("cp-1").health_check(&check).await.unwrap();
    let mut lines = Vec::new();
    while let Some(line) = report.next().await.unwrap() {
        lines.push(line);
    }
    assert!(lines.iter().any(|line| line.contains("etcd to be healthy: OK")), "{lines:?}");

    let worker = async { world.node("worker-1").health_check(&check).await?.next().await };
    let refused = worker.await.unwrap_err();
    assert!(matches!(refused.failure(), Failure::NotSupported(_)), "{refused:?}");
}

#[tokio::test]
async fn a_cluster_that_is_not_healthy() {
    let world = World::start("health", TALOS_1_14, 1, 1).await;
    world.inject("worker-1", "not-ready").await;
    let check = HealthCheck {
        wait: Duration::from_secs(10),
        control_planes: Vec::new(),
        workers: Vec::new(),
    };
    let mut report = world.node("cp-1").health_check(&check).await.unwrap();
    let verdict = loop {
        match report.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("worker-1 is not ready"),
            Err(error) => break error,
        }
    };
    assert_eq!(code(verdict.failure()), Some(tonic::Code::DeadlineExceeded));
    assert!(all_of(&verdict).contains("worker-1"), "{verdict:?}");
}

/// A tar archive with one file, as Talos makes it.
fn archive(name: &str, content: &[u8]) -> Vec<u8> {
    let mut header = [0_u8; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..107].copy_from_slice(b"0000644");
    header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
    header[156] = b'0';
    header[257..263].copy_from_slice(b"ustar\0");
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    let mut tar = header.to_vec();
    tar.extend_from_slice(content);
    tar.resize(tar.len().next_multiple_of(512) + 1024, 0);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&tar).unwrap();
    gzip.finish().unwrap()
}

#[tokio::test]
async fn a_kubeconfig_can_be_read() {
    const KUBECONFIG: &str = "apiVersion: v1\nkind: Config\nusers: [{user: {token: hunter2}}]\n";
    let world = World::start("kubeconfig", TALOS_1_13, 1, 1).await;
    let own = world.node("cp-1").kubeconfig().await.unwrap();
    assert!(own.expose().contains("kind: Config"), "the cluster's own");
    assert!(!format!("{own:?}").contains("client-key-data"));

    let put = |archive: Vec<u8>| {
        world.cluster.driver().visit(move |inside| inside.world.set_kubeconfig(archive.into()))
    };
    put(archive("kubeconfig", KUBECONFIG.as_bytes())).await.unwrap();
    let kubeconfig = world.node("cp-1").kubeconfig().await.unwrap();
    assert_eq!(kubeconfig.expose(), KUBECONFIG);
    assert!(!format!("{kubeconfig:?}").contains("hunter2"));

    // A cluster without a Kubernetes API has no kubeconfig.
    put(Vec::new()).await.unwrap();
    let none = world.node("cp-1").kubeconfig().await.unwrap_err();
    assert_eq!(code(none.failure()), Some(tonic::Code::Unavailable), "{none:?}");

    let worker = world.node("worker-1").kubeconfig().await.unwrap_err();
    assert!(matches!(worker.failure(), Failure::NotSupported(_)), "{worker:?}");
    let operator = world.client_as("os:operator").node(world.place("cp-1").address.into());
    let denied = operator.kubeconfig().await.unwrap_err();
    assert!(matches!(denied.failure(), Failure::NotAuthorised(_)), "{denied:?}");
}
