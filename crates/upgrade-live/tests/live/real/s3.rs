//! A snapshot in a real S3 server, and the real etcd that starts from it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use s3_snapshots::{Config, Environment, S3Snapshots};
use serde_json::Value;
use testkit::{PATIENCE, S3Server, now, tool};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use upgrade_core::journal::Proof;
use upgrade_core::snapshot::Role;
use upgrade_engine::io::{Io as _, Machines as _};
use upgrade_engine::snapshots::{SnapshotStore as _, take_from_any};
use upgrade_live::{Live, LiveSnapshots, Options};

use crate::{RecordedProgress, Still, TALOS_1_13, World};

fn store(server: &S3Server) -> S3Snapshots {
    let address = format!("s3://backups/east?endpoint={}", server.endpoint());
    let environment = Environment::read(|name| match name {
        "AWS_ACCESS_KEY_ID" => Some(S3Server::KEY_ID.to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some(S3Server::SECRET_KEY.to_owned()),
        _ => None,
    });
    let address = address.parse().expect("an address");
    let config = Config::from_environment(address, &environment).expect("a configuration");
    S3Snapshots::new(&config).expect("a store")
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_starts_from_a_snapshot_in_s3() {
    // Rule 3: it is only worth something if it can be restored.
    let server = S3Server::start();
    server.bucket("backups");
    let world = World::start(TALOS_1_13, 3, 0).await;
    let options = Options {
        talosconfig: Some(world.folder.path().join("talosconfig")),
        snapshots: store(&server).into(),
        ..Options::default()
    };
    let live = Live::connect(&options, Still).await.expect("usable files");
    let (_, machines) = live.machines().list().await.expect("machines");
    let members = machines.into_iter().filter(|machine| machine.role == Role::ControlPlane);
    let progress = RecordedProgress::default();
    let taken = take_from_any(&live, "east", members.collect(), 2, &progress, || Ok(())).await;
    let Proof::EtcdSnapshot { location, bytes, .. } = taken.expect("a snapshot") else {
        panic!("another proof");
    };
    assert_eq!(location, "s3://backups/east/east-20260102T030405Z.snapshot");
    assert_eq!(live.snapshots().list("east").await.expect("a list"), [location.as_str()]);
    let content = server.read(&location);
    assert_eq!(content.len() as u64, bytes);

    let folder = tempfile::tempdir().expect("a folder");
    let (file, data) = (folder.path().join("snapshot"), folder.path().join("data"));
    std::fs::write(&file, content).expect("a file");
    // With its hash, which etcd checks.
    etcdutl(&["snapshot", "restore", &shown(&file), "--data-dir", &shown(&data)]);
    let database = data.join("member/snap/db");
    let status = etcdutl(&["snapshot", "status", &shown(&database), "--write-out", "json"]);
    let status: Value = serde_json::from_str(&status).expect("JSON");
    assert!(status["totalKey"].as_u64() > Some(0), "{status}");
    Etcd::start(&data).wait_until_healthy().await;
}

#[tokio::test]
async fn a_store_below_another_has_a_longer_prefix() {
    let server = S3Server::start();
    server.bucket("backups");
    let store = LiveSnapshots::from(store(&server)).join("team-a").join("prod");
    let at = "2026-01-02T03:04:05Z".parse().expect("a time");
    let mut writer = store.begin("prod", at).await.expect("a writer");
    writer.write_all(b"content").await.expect("written");
    let location = store.commit(writer).await.expect("kept");
    let expected = "s3://backups/east/team-a/prod/prod-20260102T030405Z.snapshot";
    assert_eq!(location, expected);
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn etcdutl(arguments: &[&str]) -> String {
    let output = Command::new(tool("etcdutl")).args(arguments).output().expect("etcdutl runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// A real etcd, which ends with the test.
struct Etcd {
    process: Child,
    log: PathBuf,
}

impl Etcd {
    fn start(data: &Path) -> Self {
        let log = data.with_extension("log");
        // It chooses its ports itself: a port that was free a moment ago may be taken.
        let url = "http://127.0.0.1:0";
        let process = Command::new(tool("etcd"))
            .env_clear()
            .args(["--data-dir", &shown(data), "--listen-peer-urls", url])
            .args(["--listen-client-urls", url, "--advertise-client-urls", url])
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("a log"))
            .spawn()
            .expect("etcd starts");
        Self { process, log }
    }

    async fn wait_until_healthy(mut self) {
        let begun = now();
        while begun.elapsed() < PATIENCE && self.process.try_wait().expect("a child").is_none() {
            if self.health().await.is_some_and(|reply| reply.contains("\"health\":\"true\"")) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("etcd is not healthy: {}", std::fs::read_to_string(&self.log).unwrap_or_default());
    }

    async fn health(&self) -> Option<String> {
        let mut stream = TcpStream::connect(self.address()?).await.ok()?;
        stream.write_all(b"GET /health HTTP/1.0\r\n\r\n").await.ok()?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.ok()?;
        Some(reply)
    }

    /// Where it serves clients, which only its log tells.
    fn address(&self) -> Option<String> {
        let log = std::fs::read_to_string(&self.log).ok()?;
        let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let serves = |line: &Value| {
            line["msg"].as_str().is_some_and(|text| text.starts_with("serving client traffic"))
        };
        lines.find(serves)?["address"].as_str().map(str::to_owned)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
