//! Reboots, complete upgrades with both APIs, and rollbacks.

use talos_client::image::ImageStore;
use talos_client::machine::{ActorId, RebootMode};
use talos_client::resources::BootedEntry;
use talos_client::upgrade::{Upgrade, UpgradeProgress};
use talos_client::{Node, Outcome};
use talos_sim::model::EMPTY_SCHEMATIC;
use upgrade_core::plan::UpgradeApi;

use crate::{TALOS_1_12, TALOS_1_13, TALOS_1_14, World, back_up, each_version, member_ids};

each_version!(reboots, there_and_back, a_boot_that_falls_back, a_reboot_that_is_lost);

/// The version that each version is upgraded to.
fn next(talos: &str) -> &'static str {
    match talos {
        TALOS_1_12 => TALOS_1_13,
        _ => TALOS_1_14,
    }
}

async fn upgrade(node: &Node, image: String) -> (ActorId, Vec<UpgradeProgress>) {
    let mut progress = Vec::new();
    let upgrade = Upgrade { image, store: ImageStore::System, reboot: RebootMode::Default };
    let actor = node.upgrade(&upgrade, &mut |step| progress.push(step)).await.unwrap();
    (actor, progress)
}

async fn reboots(talos: &'static str) {
    let world = World::start("reboots", talos, 1, 1).await;
    let node = world.node("worker-1");
    let mut actors = Vec::new();
    for mode in [RebootMode::Default, RebootMode::PowerCycle, RebootMode::Force] {
        let before = node.boot_id().await.unwrap();
        let booted = node.booted_at().await.unwrap();
        actors.push(node.reboot(mode).await.unwrap());
        back_up(&node, &before).await;
        assert!(node.booted_at().await.unwrap() > booted, "{mode:?}");
        assert_eq!(world.running("worker-1").await, talos);
    }
    actors.sort_by(|one, other| one.0.cmp(&other.0));
    actors.dedup();
    assert_eq!(actors.len(), 3, "every request has its own actor");
}

/// One of three control planes: upgraded with extensions, and rolled back.
async fn there_and_back(talos: &'static str) {
    let world = World::start("upgrade", talos, 3, 0).await;
    let schematic = world.schematic(&["siderolabs/qemu-guest-agent", "siderolabs/zfs"]).await;
    let target = next(talos);
    let (_, follower) = world.leader().await;
    let node = world.node(&follower);
    let members = member_ids(&node).await;
    let before = node.boot_id().await.unwrap();
    let image = format!("factory.example/metal-installer/{schematic}:v{target}");
    let (actor, progress) = upgrade(&node, image).await;

    let has = |what: fn(&UpgradeProgress) -> bool| progress.iter().any(what);
    assert_eq!(progress.last(), Some(&UpgradeProgress::Accepted(actor)));
    let api = if talos == TALOS_1_12 { UpgradeApi::Legacy } else { UpgradeApi::Lifecycle };
    assert_eq!(progress[0], UpgradeProgress::Chosen(api));
    let lifecycle = api == UpgradeApi::Lifecycle;
    assert_eq!(has(|step| matches!(step, UpgradeProgress::Pulling(_))), lifecycle);
    assert_eq!(has(|step| *step == UpgradeProgress::Pulled), lifecycle);
    assert_eq!(has(|step| matches!(step, UpgradeProgress::Installing(_))), lifecycle);
    assert_eq!(has(|step| *step == UpgradeProgress::Installed), lifecycle);

    back_up(&node, &before).await;
    assert_eq!(node.version().await.unwrap().tag, format!("v{target}"));
    assert_eq!(world.running(&follower).await, target);
    let running = node.schematic().await.unwrap().expect("a schematic");
    assert_eq!(running.id, schematic);
    let extensions = node.extensions().await.unwrap();
    let names: Vec<_> = extensions.iter().map(|extension| extension.name.as_str()).collect();
    assert_eq!(names, ["qemu-guest-agent", "zfs"]);
    let entry = node.get::<BootedEntry>().await.unwrap().unwrap().spec.0;
    assert!(entry.contains(target), "{entry}");
    assert_eq!(member_ids(&node).await, members, "an upgrade never leaves etcd");

    let before = node.boot_id().await.unwrap();
    node.rollback().await.unwrap();
    back_up(&node, &before).await;
    assert_eq!(node.version().await.unwrap().tag, format!("v{talos}"));
    assert_eq!(node.schematic().await.unwrap().unwrap().id, EMPTY_SCHEMATIC);
    assert_eq!(node.extensions().await.unwrap(), []);
}

async fn a_boot_that_falls_back(talos: &'static str) {
    let world = World::start("boot-back", talos, 1, 1).await;
    let schematic = world.schematic(&[]).await;
    let node = world.node("worker-1");
    world.inject("worker-1", "boot-back").await;
    let before = node.boot_id().await.unwrap();
    let target = next(talos);
    upgrade(&node, format!("factory.example/installer/{schematic}:v{target}")).await;
    // It comes back healthy and on its old version: only reading the version shows that.
    back_up(&node, &before).await;
    assert_eq!(node.version().await.unwrap().tag, format!("v{talos}"));
    assert_eq!(node.schematic().await.unwrap().unwrap().id, EMPTY_SCHEMATIC);
}

async fn a_reboot_that_is_lost(talos: &'static str) {
    let world = World::start("lost", talos, 1, 0).await;
    let node = world.node("cp-1");
    // No version was ever installed in the other slot. Talos reports that with an unspecific code,
    // so it does not count as a refusal.
    let nothing = node.rollback().await.unwrap_err();
    assert_eq!(nothing.outcome, Outcome::Unknown, "{nothing:?}");

    world.inject("cp-1", "lost-reboot").await;
    let before = node.boot_id().await.unwrap();
    let actor = node.reboot(RebootMode::Default).await.unwrap();
    assert!(!actor.0.is_empty());
    assert_eq!(node.boot_id().await.unwrap(), before);
    world.clear("cp-1", "lost-reboot").await;

    // The only control plane is its own endpoint, and comes back too.
    node.reboot(RebootMode::Default).await.unwrap();
    back_up(&node, &before).await;
    let status = node.etcd_status().await.unwrap();
    assert_eq!(status.leader, Some(status.member));
}
