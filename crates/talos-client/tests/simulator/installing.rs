//! Installations that fail, and the state they leave the node in.

use talos_client::image::ImageStore;
use talos_client::install::{ExitCode, InstallError};
use talos_client::machine::RebootMode;
use talos_client::upgrade::{Armed, LegacyUpgrade, Upgrade, UpgradeError, UpgradeProgress};
use talos_client::{Node, Outcome};
use talos_sim::cluster::Shape;
use talos_sim::model::EMPTY_SCHEMATIC;
use upgrade_core::plan::UpgradeApi;

use crate::{SLOW, SPEED, TALOS_1_12, TALOS_1_13, TALOS_1_14, World, all_of, back_up, code};

fn installer(version: &str) -> String {
    format!("factory.example/metal-installer/{EMPTY_SCHEMATIC}:v{version}")
}

fn to(version: &str) -> Upgrade {
    Upgrade { image: installer(version), store: ImageStore::System, reboot: RebootMode::Default }
}

async fn upgrade(node: &Node, upgrade: &Upgrade) -> UpgradeError {
    let mut installed = false;
    let result = node
        .upgrade(upgrade, &mut |progress| installed |= progress == UpgradeProgress::Installed)
        .await;
    assert!(!installed);
    result.expect_err("an upgrade that is refused")
}

/// The code and the last lines of a failed installer.
fn exit(error: &UpgradeError) -> (ExitCode, String) {
    let UpgradeError::Install(InstallError::Exit { code, last }) = error else {
        panic!("{error:?}");
    };
    assert_eq!(error.armed(), Armed::Perhaps);
    (*code, last.join("\n"))
}

#[tokio::test]
async fn a_running_talos_that_is_too_new() {
    let world = World::start("host", TALOS_1_14, 1, 1).await;
    let node = world.node("worker-1");
    let boot_id = node.boot_id().await.unwrap();
    let error = upgrade(&node, &to(TALOS_1_12)).await;
    let (code, last) = exit(&error);
    assert_eq!((code, code.number()), (ExitCode::Environment, 4));
    assert!(last.contains("too new"), "{last}");
    assert!(all_of(&error).contains("exit code 4"), "{error:?}");
    assert_eq!(node.boot_id().await.unwrap(), boot_id);
}

#[tokio::test]
async fn a_kubernetes_that_the_new_talos_does_not_run() {
    let world = World::of(Shape {
        name: "matrix".to_owned(),
        control_planes: 1,
        workers: 1,
        talos: TALOS_1_13.parse().unwrap(),
        kubernetes: "1.36.1".parse().unwrap(),
        seed: 1,
    })
    .await;
    for name in ["cp-1", "worker-1"] {
        let error = upgrade(&world.node(name), &to(TALOS_1_12)).await;
        let (code, last) = exit(&error);
        assert_eq!((code, code.number()), (ExitCode::InvalidInput, 2));
        assert!(last.contains("1.36.1"), "{last}");
    }
}

#[tokio::test]
async fn a_failing_installer() {
    let world = World::start("exit", TALOS_1_13, 1, 1).await;
    let node = world.node("worker-1");
    for (fault, expected) in
        [("installer-exit=6", ExitCode::Io), ("installer-exit=42", ExitCode::Other(42))]
    {
        world.inject("worker-1", fault).await;
        let (code, _) = exit(&upgrade(&node, &to(TALOS_1_14)).await);
        assert_eq!(code, expected);
    }
    // Nothing is armed: a reboot changes nothing.
    let boot_id = node.boot_id().await.unwrap();
    node.reboot(RebootMode::PowerCycle).await.unwrap();
    back_up(&node, &boot_id).await;
    assert_eq!(world.running("worker-1").await, TALOS_1_13);
}

#[tokio::test]
async fn an_installation_can_be_refused_before_it_starts() {
    let world = World::start("refused", TALOS_1_13, 1, 1).await;
    let node = world.node("worker-1");
    let image = installer(TALOS_1_14);
    // The node may refuse at the call or in the stream.
    let install = async |image: &str, store| match node.install(image, store).await {
        Ok(installing) => installing.finish().await,
        Err(error) => Err(error),
    };
    let call = |error: InstallError| match error {
        InstallError::Call(error) => error,
        InstallError::Exit { .. } => panic!("{error:?}"),
    };
    let unpulled = call(install(&image, ImageStore::System).await.unwrap_err());
    assert_eq!(code(unpulled.error.failure()), Some(tonic::Code::Internal), "{unpulled:?}");
    // An image in another store is not found.
    node.pull(&image, ImageStore::Memory).await.unwrap().finish().await.unwrap();
    assert!(install(&image, ImageStore::System).await.is_err());
    let empty = call(install("", ImageStore::System).await.unwrap_err());
    assert_eq!(empty.outcome, Outcome::Refused, "{empty:?}");

    // Only one installation at a time.
    world.speed(SLOW).await;
    let first = node.install(&image, ImageStore::Memory).await.unwrap();
    let second = call(install(&image, ImageStore::Memory).await.unwrap_err());
    assert_eq!(second.outcome, Outcome::Refused, "{second:?}");
    assert_eq!(code(second.error.failure()), Some(tonic::Code::FailedPrecondition));
    world.speed(SPEED).await;
    first.finish().await.unwrap();

    let operator = world.client_as("os:operator").node(world.place("worker-1").address.into());
    let denied = match operator.install(&image, ImageStore::Memory).await {
        Ok(installing) => installing.finish().await.unwrap_err(),
        Err(error) => error,
    };
    assert!(denied.nothing_happened(), "{denied:?}");
}

#[tokio::test]
async fn the_legacy_call_refuses_and_fails() {
    let world = World::start("legacy", TALOS_1_12, 1, 1).await;
    let node = world.node("worker-1");
    let mut chosen = None;
    let unknown = Upgrade { image: installer("1.99.0"), ..to(TALOS_1_13) };
    let error = node.upgrade(&unknown, &mut |progress| chosen = Some(progress)).await.unwrap_err();
    assert_eq!(chosen, Some(UpgradeProgress::Chosen(UpgradeApi::Legacy)));
    assert!(matches!(error, UpgradeError::Legacy(_)), "{error:?}");
    assert!(all_of(&error).contains("not found"), "{error:?}");
    let force = Upgrade { reboot: RebootMode::Force, ..to(TALOS_1_13) };
    let error = upgrade(&node, &force).await;
    assert!(matches!(error, UpgradeError::NoForce), "{error:?}");
    // The newer API is missing, which is known before anything happens.
    let error = node.install(&installer(TALOS_1_13), ImageStore::System).await;
    let error = match error {
        Ok(installing) => installing.finish().await.unwrap_err(),
        Err(error) => error,
    };
    assert!(error.nothing_happened(), "{error:?}");

    // Accepted, but the installer fails on the node, which reboots into the old version.
    let boot_id = node.boot_id().await.unwrap();
    world.inject("worker-1", "installer-exit=7").await;
    node.upgrade(&to(TALOS_1_13), &mut |_| {}).await.unwrap();
    back_up(&node, &boot_id).await;
    assert_eq!(node.version().await.unwrap().tag, format!("v{TALOS_1_12}"));
}

#[tokio::test]
async fn the_legacy_call_protects_etcd_quorum() {
    // Two members cannot lose one without losing quorum.
    let world = World::start("two", TALOS_1_12, 2, 0).await;
    let node = world.node("cp-2");
    let error = upgrade(&node, &to(TALOS_1_13)).await;
    let UpgradeError::Legacy(error) = error else { panic!("{error:?}") };
    assert!(all_of(&error).contains("etcd"), "{error:?}");
    assert_eq!(world.running("cp-2").await, TALOS_1_12);
    // With `force` it upgrades anyway, and with `stage` at the next boot.
    let boot_id = node.boot_id().await.unwrap();
    let staged = LegacyUpgrade {
        image: installer(TALOS_1_13),
        stage: true,
        force: true,
        preserve: false,
        reboot: RebootMode::PowerCycle,
    };
    node.legacy_upgrade(&staged).await.unwrap();
    back_up(&node, &boot_id).await;
    assert_eq!(world.running("cp-2").await, TALOS_1_13);
    assert_eq!(node.version().await.unwrap().tag, format!("v{TALOS_1_13}"));
}

#[tokio::test]
async fn the_next_boot_entry_can_be_read() {
    // Rule 5.
    let world = World::start("entries", TALOS_1_13, 1, 1).await;
    let node = world.node("worker-1");
    let entries = async || node.boot_entries().await.unwrap().unwrap();
    let runs = format!("Talos-v{TALOS_1_13}.efi");
    let before = entries().await;
    assert_eq!((before.booted.as_str(), before.default.as_deref()), (&*runs, Some(&*runs)));
    assert!(!node.installer_runs().await.unwrap());
    let image = installer(TALOS_1_14);
    let name = node.pull(&image, ImageStore::System).await.unwrap().finish().await.unwrap();
    let mut installing = node.install(&name, ImageStore::System).await.unwrap();
    let first = installing.next().await.unwrap().unwrap();
    assert_eq!(first, format!("running Talos installer v{TALOS_1_14}"), "complete lines");
    assert!(node.installer_runs().await.unwrap());
    installing.finish().await.unwrap();
    assert!(!node.installer_runs().await.unwrap());
    let after = entries().await;
    assert_eq!(after.booted, runs);
    assert_eq!(after.default, Some(format!("Talos-v{TALOS_1_14}.efi")));
}
