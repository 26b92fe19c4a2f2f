//! Watches that survive reboots and broken connections.

use std::time::Duration;

use talos_client::machine::RebootMode;
use talos_client::resources::{MachineStatus, Member, NodeStatus, ServiceStatus};
use talos_client::watch::{WaitError, Watch, WatchEvent};
use upgrade_core::snapshot::Stage;

use crate::{SOON, TALOS_1_12, TALOS_1_14, World, back_up, each_version};

each_version!(through_a_reboot, asleep_through_a_reboot, through_a_partition, all_services);

fn status(watch: &Watch<MachineStatus>) -> Option<&MachineStatus> {
    watch.get("machine").map(|resource| &resource.spec)
}

/// A label for each event, with the stage if there is one.
fn label(event: &WatchEvent<MachineStatus>) -> String {
    let of = |status: &MachineStatus| format!("{:?} {}", status.stage, status.ready);
    match event {
        WatchEvent::Created(it) => format!("created {}", of(&it.spec)),
        WatchEvent::Updated { new, .. } => format!("updated {}", of(&new.spec)),
        WatchEvent::Destroyed(_) => "destroyed".to_owned(),
        WatchEvent::Synced => "synced".to_owned(),
        WatchEvent::Resumed => "resumed".to_owned(),
        WatchEvent::Interrupted(_) => "interrupted".to_owned(),
    }
}

async fn through_a_reboot(talos: &'static str) {
    let world = World::start("watch-reboot", talos, 3, 0).await;
    for name in ["cp-1", "cp-3"] {
        // The first node is also the client's preferred endpoint.
        let node = world.node(name);
        let mut watch = node.watch::<MachineStatus>();
        assert!(!watch.is_current());
        let mut seen = vec![label(&watch.next().await.unwrap())];
        seen.push(label(&watch.next().await.unwrap()));
        assert_eq!(seen, ["created Running true", "synced"]);
        assert!(watch.is_current());
        let before = node.boot_id().await.unwrap();

        node.reboot(RebootMode::Default).await.unwrap();
        let follow = async {
            let mut interrupted = false;
            let mut again = false;
            while !(again && watch.is_current() && status(&watch).unwrap().is_up()) {
                let event = watch.next().await.unwrap();
                seen.push(label(&event));
                if let WatchEvent::Interrupted(_) = event {
                    assert!(!watch.is_current() && watch.interruption().is_some());
                    interrupted = true;
                }
                again |= interrupted && matches!(event, WatchEvent::Synced | WatchEvent::Resumed);
            }
        };
        let followed = tokio::time::timeout(SOON, follow).await;
        assert!(followed.is_ok(), "{seen:?}");
        let place = |wanted: &str| seen.iter().position(|label| label == wanted);
        // A reboot clears the bookmarks, so the state is listed again.
        let interrupted = place("interrupted").expect("a connection that broke");
        if name == "cp-3" {
            // The endpoint stays up, so not even the last updates are lost.
            assert!(place("updated Rebooting true").is_some_and(|at| at < interrupted), "{seen:?}");
        }
        let synced = seen.iter().rposition(|label| label == "synced").unwrap();
        assert!(synced > interrupted && place("resumed").is_none(), "{seen:?}");
        assert_eq!(place("destroyed"), None);
        assert_ne!(node.boot_id().await.unwrap(), before);
    }
}

/// Nothing awaits the watch while the node reboots. Its bookmark is in a history that the node has
/// lost, however many changes came after.
async fn asleep_through_a_reboot(talos: &'static str) {
    let world = World::start("watch-asleep", talos, 1, 1).await;
    let node = world.node("worker-1");
    let mut watch = node.watch_all::<MachineStatus>();
    watch.wait_for(SOON, |watch| status(watch).is_some_and(MachineStatus::is_up)).await.unwrap();
    assert_eq!(watch.next().await.unwrap(), WatchEvent::Synced);
    let before = node.boot_id().await.unwrap();
    node.reboot(RebootMode::Default).await.unwrap();
    back_up(&node, &before).await;

    let mut seen = Vec::new();
    let awake = async {
        while !seen.iter().any(|label| label == "interrupted") || !watch.is_current() {
            seen.push(label(&watch.next().await.unwrap()));
        }
        // Events received before that are still returned.
        while seen.last().is_none_or(|label| label != "synced" && label != "resumed") {
            seen.push(label(&watch.next().await.unwrap()));
        }
    };
    let awake = tokio::time::timeout(SOON, awake).await;
    assert!(awake.is_ok(), "{seen:?}");
    assert_eq!(seen.last().map(String::as_str), Some("synced"), "{seen:?}");
    assert!(status(&watch).unwrap().is_up());
}

async fn through_a_partition(talos: &'static str) {
    let world = World::start("watch-partition", talos, 1, 1).await;
    let node = world.node("worker-1");
    let mut all = node.watch_all::<MachineStatus>();
    all.wait_for(SOON, |watch| status(watch).is_some_and(MachineStatus::is_up)).await.unwrap();
    assert_eq!(all.next().await.unwrap(), WatchEvent::Synced);
    world.inject("worker-1", "partition").await;
    let event = tokio::time::timeout(SOON, all.next()).await.unwrap().unwrap();
    assert!(matches!(event, WatchEvent::Interrupted(_)), "{event:?}");
    // A change while the watch is not awaited.
    world.inject("worker-1", "not-ready").await;
    world.clear("worker-1", "partition").await;
    let event = tokio::time::timeout(SOON, all.next()).await.unwrap().unwrap();
    assert_eq!(event, WatchEvent::Resumed);
    all.wait_for(SOON, |watch| status(watch).is_some_and(|it| !it.ready)).await.unwrap();
    let unmet = status(&all).unwrap().unmet.clone();
    assert_eq!(unmet.len(), 1, "{unmet:?}");
    assert_eq!(unmet[0].name, "nodeReady");
    assert!(unmet[0].reason.contains("worker-1"));

    let within = Duration::from_millis(300);
    let late = all.wait_for(within, |watch| status(watch).is_some_and(MachineStatus::is_up)).await;
    let Err(WaitError::Deadline { interruption: None, .. }) = late else { panic!("{late:?}") };
    world.clear("worker-1", "not-ready").await;
    all.wait_for(SOON, |watch| status(watch).is_some_and(MachineStatus::is_up)).await.unwrap();
}

async fn all_services(talos: &'static str) {
    let world = World::start("watch-services", talos, 1, 1).await;
    let node = world.node("worker-1");
    let mut services = node.watch_all::<ServiceStatus>();
    let up = |watch: &Watch<ServiceStatus>| {
        watch.get("kubelet").is_some_and(|service| service.spec.is_up())
    };
    services.wait_for(SOON, up).await.unwrap();
    let boot_id = node.boot_id().await.unwrap();
    node.reboot(RebootMode::Default).await.unwrap();
    let broken =
        async { while !matches!(services.next().await.unwrap(), WatchEvent::Interrupted(_)) {} };
    tokio::time::timeout(SOON, broken).await.expect("the connection breaks");
    services.wait_for(SOON, up).await.unwrap();
    assert_ne!(node.boot_id().await.unwrap(), boot_id);
    let mut listed = node.list::<ServiceStatus>().await.unwrap();
    listed.sort_by(|one, other| one.metadata.id.cmp(&other.metadata.id));
    services.wait_for(SOON, |watch| watch.state().count() == listed.len()).await.unwrap();
}

#[tokio::test]
async fn a_watch_through_another_node_sees_a_whole_reboot() {
    let world = World::start("watch-others", TALOS_1_12, 3, 0).await;
    let (leader, other) = world.leader().await;
    let watcher = world.node(&other);
    let mut members = watcher.watch_all::<Member>();
    members.wait_for(SOON, |watch| watch.state().count() == 3).await.unwrap();
    // The watch is not interrupted while the leader reboots.
    let before = world.node(&leader).boot_id().await.unwrap();
    world.node(&leader).reboot(RebootMode::Force).await.unwrap();
    back_up(&world.node(&leader), &before).await;
    assert!(members.wait_for(SOON, |watch| watch.state().count() == 3).await.is_ok());
    assert_ne!(world.leader().await.0, leader, "another member was elected meanwhile");
}

#[tokio::test]
async fn a_node_that_never_returns() {
    let world = World::start("watch-never", TALOS_1_14, 1, 1).await;
    world.inject("worker-1", "never-returns").await;
    let node = world.node("worker-1");
    let mut watch = node.watch::<MachineStatus>();
    watch.wait_for(SOON, |watch| status(watch).is_some_and(MachineStatus::is_up)).await.unwrap();
    node.reboot(RebootMode::Force).await.unwrap();
    // The wait times out with the reason.
    let gone = watch
        .wait_for(Duration::from_secs(6), |watch| {
            status(watch).is_some_and(|it| it.stage == Stage::Booting)
        })
        .await;
    let Err(WaitError::Deadline { interruption: Some(why), .. }) = gone else { panic!("{gone:?}") };
    assert_eq!(crate::code(why.failure()), Some(tonic::Code::Unavailable), "{why:?}");
    world.clear("worker-1", "never-returns").await;
    watch.wait_for(SOON, |watch| status(watch).is_some_and(MachineStatus::is_up)).await.unwrap();
    let mut node_status = node.watch_id::<NodeStatus>("worker-1");
    node_status.wait_for(SOON, |watch| watch.state().any(|it| it.spec.ready)).await.unwrap();
}
