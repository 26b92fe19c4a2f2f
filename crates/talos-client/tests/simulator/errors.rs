//! Endpoints that are down, wrong roles, certificates and addresses; and errors without secrets.

use std::time::Duration;

use talos_client::deadline::Deadlines;
use talos_client::image::ImageStore;
use talos_client::machine::RebootMode;
use talos_client::resources::MachineConfig;
use talos_client::{Client, ConnectionError, Failure, Outcome};
use talos_sim::clock::wall_time;
use talos_sim::pki::{Identity, Usage};
use tokio::time::Instant;

use crate::{
    SOON, TALOS_1_13, TALOS_1_14, World, all_of, back_up, code, context, deadlines, each_version,
};

each_version!(roles, routing);

/// A client that prefers certain endpoints of the cluster.
fn through(world: &World, names: &[&str]) -> Client {
    let mut context = context(world.cluster.talosconfig());
    context.endpoints = names
        .iter()
        .map(|name| world.place(name).apid.to_string().parse().expect("an address"))
        .collect();
    Client::with_deadlines(&context, deadlines()).expect("usable credentials")
}

/// The secret values in a talosconfig.
fn secrets(talosconfig: &str) -> Vec<String> {
    let key = talosconfig.lines().find_map(|line| line.trim().strip_prefix("key: "));
    let key = key.expect("a key").to_owned();
    let inner = key[40..80].to_owned();
    vec![key, inner]
}

async fn roles(talos: &'static str) {
    let world = World::shared(talos).await;
    let address = world.place("cp-1").address;
    let boot_id = world.node("cp-1").boot_id().await.unwrap();

    let reader = world.client_as("os:reader").node(address.into());
    assert!(reader.version().await.is_ok());
    assert!(reader.services().await.is_ok());
    let error = reader.reboot(RebootMode::Default).await.unwrap_err();
    assert_eq!(error.outcome, Outcome::Refused);
    assert!(matches!(error.error.failure(), Failure::NotAuthorised(_)), "{error:?}");
    assert!(all_of(&error).contains("os:admin"), "the error names the required role");

    // An operator may reboot, but neither roll back nor upgrade.
    let operator = world.client_as("os:operator").node(address.into());
    for outcome in [
        operator.rollback().await.unwrap_err().outcome,
        operator.etcd_forfeit_leadership().await.unwrap_err().outcome,
    ] {
        assert_eq!(outcome, Outcome::Refused);
    }
    // An unknown role allows nothing.
    let unknown_role = world.client_as("os:emperor").node(address.into());
    let error = unknown_role.version().await.unwrap_err();
    assert!(matches!(error.failure(), Failure::NotAuthorised(_)), "{error:?}");
    let error = unknown_role.reboot(RebootMode::Default).await.unwrap_err();
    assert_eq!(error.outcome, Outcome::Refused, "{error:?}");
    assert_eq!(world.node("cp-1").boot_id().await.unwrap(), boot_id);
}

async fn routing(talos: &'static str) {
    let world = World::shared(talos).await;
    // Every control plane forwards to every node.
    for endpoint in ["cp-1", "cp-2", "cp-3"] {
        let client = through(&world, &[endpoint]);
        assert_eq!(client.endpoint().hostname().await.unwrap(), endpoint);
        for place in world.cluster.nodes() {
            let node = client.node(place.address.into());
            assert_eq!(node.hostname().await.unwrap(), place.hostname);
        }
        assert!(client.endpoints()[0].failure.is_none());
    }
    // A worker answers for itself but does not forward.
    let client = through(&world, &["worker-1"]);
    assert_eq!(client.endpoint().hostname().await.unwrap(), "worker-1");
    let itself = client.node(world.place("worker-1").address.into());
    assert_eq!(itself.hostname().await.unwrap(), "worker-1");
    let other = client.node(world.place("cp-1").address.into());
    let error = other.hostname().await.unwrap_err();
    assert!(matches!(error.failure(), Failure::NotForwarded(_)), "{error:?}");
    assert!(all_of(&error).contains("control plane"), "the error says what to list instead");
    let error = other.reboot(RebootMode::Default).await.unwrap_err();
    assert_eq!(error.outcome, Outcome::Refused, "{error:?}");
    // It does no harm in addition to a control plane.
    let client = through(&world, &["worker-1", "cp-2"]);
    let node = client.node(world.place("cp-1").address.into());
    assert_eq!(node.hostname().await.unwrap(), "cp-1");

    // No node has this address or this name.
    for unknown in ["127.0.0.99", "no-such-node"] {
        let began = Instant::now();
        let node = world.client.node(unknown.parse().unwrap());
        let error = node.version().await.unwrap_err();
        assert_eq!(code(error.failure()), Some(tonic::Code::Unavailable), "{error:?}");
        assert_eq!(error.node().map(ToString::to_string).as_deref(), Some(unknown));
        assert!(began.elapsed() < node.client().deadlines().read);
        // The endpoint's error does not say whether it forwarded the call.
        let error = node.reboot(RebootMode::Default).await.unwrap_err();
        assert_eq!(error.outcome, Outcome::Unknown, "{error:?}");
    }
}

#[tokio::test]
async fn endpoints_that_are_down() {
    let world = World::start("failover", TALOS_1_13, 3, 0).await;
    let node = world.node("cp-3");
    assert_eq!(node.hostname().await.unwrap(), "cp-3");
    world.inject("cp-1", "partition").await;
    // The open connection breaks, and the next endpoint takes over.
    assert_eq!(node.hostname().await.unwrap(), "cp-3");
    assert_eq!(world.client.endpoint().hostname().await.unwrap(), "cp-2");
    let health = world.client.endpoints();
    assert!(health[1].failure.is_none(), "{health:?}");
    // Acts also find a live endpoint.
    let boot_id = node.boot_id().await.unwrap();
    node.reboot(RebootMode::Force).await.unwrap();
    back_up(&node, &boot_id).await;

    for name in ["cp-2", "cp-3"] {
        world.inject(name, "partition").await;
    }
    let began = Instant::now();
    let error = node.hostname().await.unwrap_err();
    assert!(began.elapsed() < node.client().deadlines().read, "{:?}", began.elapsed());
    assert!(
        matches!(error.failure(), Failure::Connect(ConnectionError::Refused) | Failure::Broken(_)),
        "{error:?}"
    );
    let error = node.reboot(RebootMode::Default).await.unwrap_err();
    assert_eq!(error.outcome, Outcome::NotSent, "{error:?}");
    assert!(world.client.endpoints().iter().all(|endpoint| endpoint.failure.is_some()));
    world.clear("cp-2", "partition").await;
    let until = Instant::now() + SOON;
    while world.node("cp-2").hostname().await.is_err() {
        assert!(Instant::now() < until);
    }
}

#[tokio::test]
async fn connections_that_are_dropped() {
    let world = World::start("drops", TALOS_1_14, 3, 1).await;
    world.inject("worker-1", "apid-drops=2").await;
    let node = world.node("worker-1");
    for _ in 0..6 {
        // Every second connection fails, and the read is retried.
        assert_eq!(node.hostname().await.unwrap(), "worker-1");
    }
    world.inject("worker-1", "apid-drops=1").await;
    let error = node.hostname().await.unwrap_err();
    assert_eq!(code(error.failure()), Some(tonic::Code::Unavailable), "{error:?}");
}

#[tokio::test]
async fn certificates() {
    let world = World::shared(TALOS_1_14).await;
    let other = World::shared(TALOS_1_13).await;
    let now = wall_time();
    let fault = async |talosconfig: &str| {
        let client = Client::with_deadlines(&context(talosconfig), deadlines()).unwrap();
        let began = Instant::now();
        let error = client.node(world.place("cp-1").address.into()).version().await.unwrap_err();
        assert!(began.elapsed() < client.deadlines().read);
        for secret in secrets(talosconfig) {
            assert!(!all_of(&error).contains(&secret) && !format!("{client:?}").contains(&secret));
        }
        match error.failure() {
            Failure::Connect(fault) => fault.clone(),
            other => panic!("{other:?}"),
        }
    };
    let admin = Identity::new("os:admin", now);
    let expired = world.talosconfig_as(&admin.clone().expired(now));
    assert_eq!(fault(&expired).await, ConnectionError::ClientCertificateExpired);
    let server = world.talosconfig_as(&admin.with_usages(vec![Usage::Server]));
    let refused = fault(&server).await;
    assert!(matches!(refused, ConnectionError::ClientCertificateRejected(_)), "{refused:?}");

    // The talosconfig of another cluster with our endpoints: it trusts another authority.
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(name));
        line.expect("a field of that name").to_owned()
    };
    let (ours, theirs) = (world.cluster.talosconfig(), other.cluster.talosconfig());
    let wrong_authority = ours.replace(&field(ours, "ca:"), &field(theirs, "ca:"));
    assert_eq!(fault(&wrong_authority).await, ConnectionError::WrongAuthority);
    let wrong_client = ours
        .replace(&field(ours, "crt:"), &field(theirs, "crt:"))
        .replace(&field(ours, "key:"), &field(theirs, "key:"));
    let refused = fault(&wrong_client).await;
    assert!(matches!(refused, ConnectionError::ClientCertificateRejected(_)), "{refused:?}");
}

#[tokio::test]
async fn deadlines_hold() {
    // A pull that never ends, from a client with a short deadline.
    let world = World::start("deadlines", TALOS_1_14, 1, 1).await;
    world.inject("worker-1", "slow-pull=10000").await;
    let hasty = Deadlines {
        pull: Duration::from_secs(1),
        progress_idle: Duration::from_secs(1),
        ..deadlines()
    };
    let client = Client::with_deadlines(&context(world.cluster.talosconfig()), hasty).unwrap();
    let node = client.node(world.place("worker-1").address.into());
    let image = format!("registry.example/kubelet:v{}", "1.34.3");
    let began = Instant::now();
    let error = async { node.pull(&image, ImageStore::System).await?.finish().await };
    let error = error.await.unwrap_err();
    assert!(matches!(error.failure(), Failure::Deadline(_) | Failure::Idle(_)), "{error:?}");
    let error = node.legacy_pull(&image, ImageStore::System).await.unwrap_err();
    assert!(matches!(error.failure(), Failure::Deadline(_)), "{error:?}");
    assert!(began.elapsed() < SOON / 2, "{:?}", began.elapsed());
}

#[tokio::test]
async fn nothing_secret_is_shown() {
    let world = World::shared(TALOS_1_14).await;
    let node = world.node("cp-1");
    let config = node.get::<MachineConfig>().await.unwrap().unwrap();
    let context = context(world.cluster.talosconfig());
    let shown = format!("{context:?} {:?} {node:?} {config:?}", world.client);
    let mut hidden = secrets(world.cluster.talosconfig());
    let yaml = config.spec.0.expose();
    hidden.extend(
        yaml.lines()
            .filter_map(|line| line.trim().split_once(": "))
            .filter(|(name, _)| matches!(*name, "token" | "key" | "secret"))
            .map(|(_, value)| value.to_owned()),
    );
    assert!(hidden.len() > 4, "{}", hidden.len());
    for secret in &hidden {
        assert!(!shown.contains(secret.as_str()));
    }
    // Validation errors of the node quote values; the client scrubs them.
    let token = yaml.lines().find_map(|line| line.trim().strip_prefix("token: ")).unwrap();
    let wrong = yaml.replacen("version: v1alpha1", &format!("version: \"token: {token}\""), 1);
    assert_ne!(&wrong, yaml);
    let error = node
        .apply_config(wrong.as_bytes(), talos_client::config::ApplyMode::Auto)
        .await
        .unwrap_err();
    assert!(!all_of(&error).contains(token), "{error:?}");
}
