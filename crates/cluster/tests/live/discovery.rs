//! Machines that discovery does not show, and machines that hang (rules 7 and 10).

use talos_sim::cluster::Options as SimOptions;
use talos_sim::model::Discovery;
use upgrade_core::snapshot::{Fact, Snapshot};
use upgrade_engine::observe;

use super::{TALOS_1_13, World, connect, simulated};

async fn start(discovery: Discovery, control_planes: usize, workers: usize) -> World {
    let options = simulated(TALOS_1_13, control_planes, workers);
    World::launch(SimOptions { discovery, ..options }).await
}

fn names(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.nodes.keys().map(|name| name.0.as_str()).collect()
}

async fn seen(world: &World) -> Snapshot {
    observe(&world.live).await.expect("a cluster that is seen")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_machine_is_found_whatever_discovery_shows() {
    // Rule 10, with one control plane above all: etcd has nothing to say there.
    for discovery in [Discovery::Service, Discovery::AirGap, Discovery::Kubernetes, Discovery::Off]
    {
        for control_planes in [1, 3] {
            let world = start(discovery, control_planes, 2).await;
            for look in 1..=2 {
                let snapshot = seen(&world).await;
                let count = snapshot.nodes.len();
                assert_eq!(count, control_planes + 2, "{discovery:?} {look}: {snapshot:#?}");
                assert!(snapshot.unmatched.is_empty(), "{discovery:?}: {snapshot:#?}");
                let Fact::Known(etcd) = &snapshot.etcd else { panic!("{snapshot:#?}") };
                let answered = etcd.members.iter().filter(|it| it.status.known().is_some());
                assert_eq!(answered.count(), control_planes, "{discovery:?}: {etcd:#?}");
                assert!(snapshot.nodes.values().all(|node| node.talos.known().is_some()));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_nobody_finds_is_unknown_and_not_absent() {
    // Rule 10.
    let world = start(Discovery::AirGap, 1, 2).await;
    let before = seen(&world).await;
    assert_eq!(names(&before), ["cp-1", "worker-1", "worker-2"]);
    world.cluster.inject("worker-2", "partition").await.expect("a fault");
    // Who has seen it knows the machine; who comes later, Kubernetes' node alone.
    let after = seen(&world).await;
    assert_eq!(names(&after), names(&before));
    assert!(after.nodes[&"worker-2".into()].talos.trouble().is_some());
    let late = connect(world.folder.path(), None).await;
    let late = observe(&late).await.expect("a cluster that is seen");
    assert_eq!(names(&late), ["cp-1", "worker-1"]);
    let why = &late.unmatched[&"worker-2".into()];
    assert!(why.contains("discovery does not show it") && why.contains("refused"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_control_plane_that_hangs_hides_no_other_machine() {
    // Rule 7: the others are observed, and can be uncordoned. cp-1 is the first endpoint.
    for silent in ["cp-1", "cp-3"] {
        let world = start(Discovery::Service, 3, 1).await;
        seen(&world).await;
        world.cluster.inject(silent, "silent").await.expect("a fault");
        for look in 1..=2 {
            let snapshot = seen(&world).await;
            for (name, node) in &snapshot.nodes {
                let unknown = node.talos.trouble().is_some();
                assert_eq!(unknown, name.0 == silent, "{look}: {name}: {:?}", node.talos);
            }
            assert_eq!(snapshot.nodes.len(), 4);
            let Fact::Known(etcd) = &snapshot.etcd else { panic!("{snapshot:#?}") };
            for member in &etcd.members {
                let unknown = member.status.trouble().is_some();
                assert_eq!(unknown, member.node.0 == silent, "{look}: {member:?}");
            }
            let worker = &snapshot.nodes[&"worker-1".into()];
            assert!(worker.is_up(), "{look}: {worker:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubernetes_api_that_refuses_is_told_apart_from_the_machines() {
    let world = start(Discovery::Service, 1, 1).await;
    let kubeconfig = world.cluster.kubeconfig();
    let elsewhere = |line: &str| match line.split_once("server:") {
        Some((before, _)) => format!("{before}server: https://127.0.0.1:1\n"),
        None => format!("{line}\n"),
    };
    let text: String = kubeconfig.lines().map(elsewhere).collect();
    let path = world.folder.path().join("elsewhere");
    std::fs::write(&path, text).expect("written");
    let live = connect(world.folder.path(), Some(&path)).await;
    let snapshot = observe(&live).await.expect("machines");
    for node in snapshot.nodes.values() {
        assert!(node.talos.known().is_some(), "{node:?}");
        let why = node.kubernetes.trouble().expect("nobody listens there");
        assert!(why.contains("the Kubernetes API refuses connections"), "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_was_not_heard_for_half_an_hour_is_found_all_the_same() {
    let world = start(Discovery::Service, 1, 1).await;
    world.cluster.inject("worker-1", "discovery-cut=now").await.expect("a fault");
    let snapshot = seen(&world).await;
    assert_eq!(names(&snapshot), ["cp-1", "worker-1"]);
    assert!(snapshot.unmatched.is_empty(), "{snapshot:#?}");
}
