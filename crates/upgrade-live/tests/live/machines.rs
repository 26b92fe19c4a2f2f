//! The Talos side.

use std::collections::BTreeMap;

use upgrade_core::advice::{Advice, Fix};
use upgrade_core::image::ImageRef;
use upgrade_core::journal::Proof;
use upgrade_core::plan::RebootMode;
use upgrade_core::reason::FailureKind;
use upgrade_core::slots::NextBoot;
use upgrade_core::snapshot::{Component, Fact, Role, Stage};
use upgrade_engine::io::machines::Config;
use upgrade_engine::io::upgrader::Store;
use upgrade_engine::io::{Applied, Io as _, Machine, Machines as _, NodeUpgrader as _};
use upgrade_engine::snapshots::take_from_any;
use upgrade_live::talos::Parts;

use super::{RecordedProgress, TALOS_1_12, TALOS_1_13, TALOS_1_14, World, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_seen_whole() {
    for talos in [TALOS_1_12, TALOS_1_13, TALOS_1_14] {
        let world = World::start(talos, 3, 1).await;
        let (name, machines) = world.live.machines().list().await.unwrap();
        assert_eq!(name, "east");
        let names: Vec<_> = machines.iter().map(|machine| machine.name.0.as_str()).collect();
        assert_eq!(names, ["cp-1", "cp-2", "cp-3", "worker-1"]);
        let is_worker = |machine: &&Machine| machine.role == Role::Worker;
        assert_eq!(machines.iter().filter(is_worker).count(), 1);
        for machine in &machines {
            let facts = up(&world, machine).await;
            assert_eq!(facts.version.to_string(), talos);
            assert_eq!((facts.platform.as_str(), facts.secure_boot), ("metal", false));
            assert!(facts.installer.is_some_and(|image| image.version() == Some(facts.version)));
            let images = world.live.machines().images(machine).await.unwrap();
            let expected = if machine.role == Role::ControlPlane { 5 } else { 1 };
            assert_eq!(images.len(), expected, "{images:?}");
            let versions = images.values().map(|image| image.version().unwrap().to_string());
            assert!(versions.into_iter().all(|version| version == super::KUBERNETES));
            assert!(images.contains_key(&Component::Kubelet));
            running_versions_are_part_of_the_facts(&world, machine, images).await;
        }
        let control_planes: Vec<_> =
            machines.iter().filter(|it| it.role == Role::ControlPlane).cloned().collect();
        let Fact::Known(etcd) = world.live.machines().etcd(&control_planes).await else {
            panic!("etcd is unknown");
        };
        assert_eq!(etcd.members.len(), 3);
        assert!(etcd.alarms.is_empty());
        assert!(etcd.leader().is_some(), "{etcd:?}");
        assert!(etcd.members.iter().all(|member| member.status.known().is_some()), "{etcd:?}");
        let manifests = world.live.machines().manifests(&control_planes[0]).await.unwrap();
        let proxy = |it: &serde_json::Value| it["metadata"]["name"] == "kube-proxy";
        assert!(manifests.objects.iter().any(proxy));
        assert_eq!(manifests.missing, Vec::<String>::new());
        let workers: Vec<_> = machines.iter().filter(is_worker).cloned().collect();
        let Fact::Unknown(why) = world.live.machines().etcd(&workers).await else {
            panic!("a worker has no etcd");
        };
        assert!(why.contains("worker-1"), "{why}");
    }
}

/// What is asked at rest is a part of what is asked before a plan.
async fn running_versions_are_part_of_the_facts(
    world: &World,
    machine: &Machine,
    mut images: BTreeMap<Component, ImageRef>,
) {
    let talos = world.live.machines();
    let version = talos.facts(machine).await.unwrap().version;
    let none = talos.running_versions(machine, Parts::None).await.unwrap();
    assert_eq!((none.version, none.images.len()), (version, 0));
    if machine.role == Role::ControlPlane {
        images.remove(&Component::Kubelet);
        assert_eq!(talos.running_versions(machine, Parts::All).await.unwrap().images, images);
        images.remove(&Component::KubeProxy).expect("it has one");
        assert_eq!(talos.running_versions(machine, Parts::Own).await.unwrap().images, images);
    }
}

/// Waits until a machine is up, and gives its facts.
async fn up(world: &World, machine: &Machine) -> upgrade_core::snapshot::TalosFacts {
    let talos = world.live.machines();
    eventually(talos.changes(machine), &format!("{} is up", machine.name), || async {
        let facts = talos.facts(machine).await.ok()?;
        (facts.stage == Stage::Running && facts.ready).then_some(facts)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_goes_through_install_and_reboot() {
    let world = World::start(TALOS_1_13, 1, 1).await;
    let talos = world.live.machines();
    let machine = world.machine("worker-1").await;
    let before = up(&world, &machine).await;
    let changes = talos.changes(&machine);
    let image = before.installer.clone().unwrap().with_tag("v1.14.1");
    let image = format!(
        "factory.talos.dev/metal-installer/376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba:{}",
        image.tag.unwrap()
    );
    let image = image.parse().unwrap();
    let progress = RecordedProgress::default();
    let pulled = talos.pull(&machine, &image, Store::System, &progress).await.unwrap();
    assert!(pulled.contains("@sha256:"), "pinned by its digest: {pulled}");
    assert!(progress.all().iter().any(|line| line.contains("MB")), "{:?}", progress.all());
    let progress = RecordedProgress::default();
    let running = before.version.clone();
    let next = || async { talos.slots(&machine).await.unwrap().next_boot(&running) };
    assert_eq!(next().await, NextBoot::Same, "rule 5: not armed");
    talos.install(&machine, &image, &pulled, &progress).await.unwrap();
    assert!(progress.all().contains(&"updating META".to_owned()), "in lines: {:?}", progress.all());
    assert_eq!(next().await, NextBoot::Other("Talos-v1.14.1.efi".to_owned()), "rule 5: armed");
    assert_eq!(talos.facts(&machine).await.unwrap().boot_id, before.boot_id);
    talos.reboot(&machine, RebootMode::Default).await.unwrap();
    let after = eventually(changes.clone(), "another boot", || async {
        let facts = talos.facts(&machine).await.ok()?;
        let up = facts.stage == Stage::Running && facts.ready;
        (up && facts.boot_id != before.boot_id).then_some(facts)
    })
    .await;
    assert_eq!(after.version.to_string(), "1.14.1");
    // The same changes report the rollback.
    talos.rollback(&machine).await.unwrap();
    eventually(changes, "the old version", || async {
        let facts = talos.facts(&machine).await.ok()?;
        let up = facts.stage == Stage::Running && facts.ready;
        (up && facts.version == before.version).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_legacy_call_and_pull() {
    let world = World::start(TALOS_1_12, 3, 1).await;
    let talos = world.live.machines();
    let machine = world.machine("worker-1").await;
    let before = up(&world, &machine).await;
    let image = before.installer.clone().unwrap().with_tag("v1.13.9");
    talos.pull(&machine, &image, Store::System, &RecordedProgress::default()).await.unwrap();
    // It has no other call.
    let name = image.to_string();
    let refused =
        talos.install(&machine, &image, &name, &RecordedProgress::default()).await.unwrap_err();
    assert_eq!(refused.failure.kind, FailureKind::Refused, "{refused}");
    assert_eq!(refused.applied, Applied::No);
    let changes = talos.changes(&machine);
    talos.upgrade(&machine, &image, false, RebootMode::Default).await.unwrap();
    let after = eventually(changes, "the new version", || async {
        let facts = talos.facts(&machine).await.ok()?;
        let up = facts.stage == Stage::Running && facts.ready;
        (up && facts.boot_id != before.boot_id).then_some(facts)
    })
    .await;
    assert_eq!(after.version.to_string(), "1.13.9");
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_say_what_and_whether() {
    let world = World::start(TALOS_1_13, 1, 1).await;
    let talos = world.live.machines();
    let machine = world.machine("worker-1").await;
    let before = up(&world, &machine).await;
    let image = before.installer.unwrap().with_tag("v9.9.9");
    let failed = talos
        .pull(&machine, &image, Store::System, &RecordedProgress::default())
        .await
        .unwrap_err();
    assert_eq!(failed.failure.kind, FailureKind::Pull, "{failed}");
    let absent = Machine { address: "127.9.9.9".to_owned(), ..machine.clone() };
    let failed = talos.facts(&absent).await.unwrap_err();
    assert_eq!(failed.applied, Applied::No);
    let nonsense = Machine { address: "not an address".to_owned(), ..machine.clone() };
    let failed = talos.reboot(&nonsense, RebootMode::Default).await.unwrap_err();
    assert_eq!(failed.failure.kind, FailureKind::Mismatch, "{failed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installer_that_fails_is_reported_with_its_code() {
    let world = World::start(TALOS_1_13, 1, 1).await;
    let talos = world.live.machines();
    let machine = world.machine("worker-1").await;
    let image = up(&world, &machine).await.installer.unwrap().with_tag("v1.13.8");
    let pulled =
        talos.pull(&machine, &image, Store::System, &RecordedProgress::default()).await.unwrap();
    world.cluster.inject("worker-1", "installer-exit=6").await.expect("a fault");
    let failed =
        talos.install(&machine, &image, &pulled, &RecordedProgress::default()).await.unwrap_err();
    assert_eq!(failed.failure.kind, FailureKind::Installer, "{failed}");
    assert_eq!(failed.applied, Applied::Failed, "rule 5: it is over, and never repeated");
    let text = failed.to_string();
    assert!(text.contains("exit code 6"), "{text}");
    let advice = Advice::retry_after(Fix::Installer(Some(6)));
    assert_eq!(failed.failure.advice(), advice);
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_whole_private_and_few() {
    // Rule 3.
    let world = World::start(TALOS_1_14, 3, 0).await;
    let machine = world.machine("cp-2").await;
    up(&world, &machine).await;
    let take = async |from: &Machine| {
        let (from, progress) = (vec![from.clone()], RecordedProgress::default());
        take_from_any(&world.live, "east", from, 2, &progress, || Ok(())).await
    };
    let mut files = Vec::new();
    for _ in 0..3 {
        let proof = take(&machine).await.unwrap();
        let Proof::EtcdSnapshot { location: file, sha256, bytes } = proof else {
            panic!("{proof:?}")
        };
        assert_eq!(std::fs::metadata(&file).unwrap().len(), bytes);
        assert_eq!(sha256.len(), 64);
        files.push(file);
    }
    let name = |file: &str| file.rsplit('/').next().unwrap().to_owned();
    assert_eq!(name(&files[0]), "east-20260102T030405Z.snapshot");
    assert!(files[0] < files[1], "names sort by time: {files:?}");
    let folder = world.folder.path().join("backups");
    let mut left: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, [name(&files[1]), name(&files[2])], "the newest two, and nothing partial");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&files[2]).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "it holds every secret of the cluster");
    }
    let worker = Machine { name: "nobody".into(), address: "127.9.9.9".to_owned(), ..machine };
    take(&worker).await.unwrap_err();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2, "a failure leaves nothing behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn configurations_are_returned_and_never_quoted() {
    // Rule 14.
    let world = World::start(TALOS_1_13, 1, 0).await;
    let talos = world.live.machines();
    let machine = world.machine("cp-1").await;
    up(&world, &machine).await;
    let config = talos.config(&machine).await.unwrap();
    let images = talos.images(&machine).await.unwrap();
    let old = images[&Component::KubeScheduler].to_string();
    let new = images[&Component::KubeScheduler].with_tag("v1.34.1");
    assert!(config.0.contains(&old));
    let edited = Config(config.0.replace(&old, &new.to_string()));
    let changes = talos.changes(&machine);
    talos.apply(&machine, &edited).await.unwrap();
    eventually(changes, "the scheduler's image", || async {
        let images = talos.images(&machine).await.ok()?;
        (images[&Component::KubeScheduler] == new).then_some(())
    })
    .await;
    let token = config.0.lines().find(|line| line.trim().starts_with("token:")).unwrap();
    let token = token.split_once(':').unwrap().1.trim();
    let broken = Config(config.0.replace("type: controlplane", "type: nonsense"));
    let refused = talos.apply(&machine, &broken).await.unwrap_err();
    assert_eq!(refused.failure.kind, FailureKind::Refused, "{refused}");
    assert!(!refused.to_string().contains(token), "{refused}");
}
