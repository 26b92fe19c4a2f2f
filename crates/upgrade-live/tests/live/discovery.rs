//! Machines that discovery does not show, and machines that hang (rules 7 and 10).

use std::collections::BTreeMap;
use std::path::Path;

use talos_sim::cluster::Options as SimOptions;
use talos_sim::model::Discovery;
use upgrade_core::policy::POOL_LABEL;
use upgrade_core::snapshot::{Fact, Snapshot};
use upgrade_engine::io::{Io as _, Machines as _};
use upgrade_engine::observe;
use upgrade_live::Live;

use super::{Still, TALOS_1_13, World, connect, simulated};

async fn start(discovery: Discovery, control_planes: usize, workers: usize) -> World {
    let options = simulated(TALOS_1_13, control_planes, workers);
    World::launch(SimOptions { discovery, ..options }).await
}

fn names(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.nodes.keys().map(|name| name.0.as_str()).collect()
}

async fn seen(world: &World) -> Snapshot {
    observe(&world.live, POOL_LABEL).await.expect("a cluster that is seen")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_machine_is_found_whatever_discovery_shows() {
    // Rule 10, with one control plane above all: etcd has nothing to say there.
    for discovery in [Discovery::Service, Discovery::AirGap, Discovery::Kubernetes, Discovery::Off]
    {
        for control_planes in [1, 3] {
            let world = start(discovery, control_planes, 2).await;
            for round in 1..=2 {
                let snapshot = seen(&world).await;
                let count = snapshot.nodes.len();
                assert_eq!(count, control_planes + 2, "{discovery:?} {round}: {snapshot:#?}");
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
async fn a_machine_that_is_not_found_is_unknown_and_not_absent() {
    // Rule 10.
    let world = start(Discovery::AirGap, 1, 2).await;
    let before = seen(&world).await;
    assert_eq!(names(&before), ["cp-1", "worker-1", "worker-2"]);
    world.cluster.inject("worker-2", "partition").await.expect("a fault");
    // Who has seen it knows the machine; who comes later, Kubernetes' node alone.
    let after = seen(&world).await;
    assert_eq!(names(&after), names(&before));
    assert!(after.nodes[&"worker-2".into()].talos.why_unknown().is_some());
    let late = connect(world.folder.path(), None).await;
    let late = observe(&late, POOL_LABEL).await.expect("a cluster that is seen");
    assert_eq!(names(&late), ["cp-1", "worker-1"]);
    let why = &late.unmatched[&"worker-2".into()].why;
    assert!(why.contains("discovery does not show it") && why.contains("refused"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_control_plane_that_hangs_hides_no_other_machine() {
    // Rule 7: the others are observed, and can be uncordoned. cp-1 is the first endpoint.
    for silent in ["cp-1", "cp-3"] {
        let world = start(Discovery::Service, 3, 1).await;
        seen(&world).await;
        world.cluster.inject(silent, "silent").await.expect("a fault");
        for round in 1..=2 {
            let snapshot = seen(&world).await;
            for (name, node) in &snapshot.nodes {
                let unknown = node.talos.why_unknown().is_some();
                assert_eq!(unknown, name.0 == silent, "{round}: {name}: {:?}", node.talos);
            }
            assert_eq!(snapshot.nodes.len(), 4);
            let Fact::Known(etcd) = &snapshot.etcd else { panic!("{snapshot:#?}") };
            for member in &etcd.members {
                let unknown = member.status.why_unknown().is_some();
                assert_eq!(unknown, member.node.0 == silent, "{round}: {member:?}");
            }
            let worker = &snapshot.nodes[&"worker-1".into()];
            assert!(worker.is_up(), "{round}: {worker:?}");
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
    let snapshot = observe(&live, POOL_LABEL).await.expect("machines");
    for node in snapshot.nodes.values() {
        assert!(node.talos.known().is_some(), "{node:?}");
        let why = node.kubernetes.why_unknown().expect("nothing listens there");
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

async fn storage_network(control_planes: usize, workers: usize) -> World {
    let options = simulated(TALOS_1_13, control_planes, workers);
    World::launch(SimOptions { storage_network: true, ..options }).await
}

fn addresses(snapshot: &Snapshot) -> BTreeMap<String, String> {
    snapshot.nodes.iter().map(|(name, node)| (name.0.clone(), node.address.clone())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_leads_nowhere_hides_no_machine() {
    // Rule 10, finding 14: members list the storage network first, and no machine
    // answers there.
    let world = storage_network(3, 2).await;
    for round in 1..=3 {
        let snapshot = seen(&world).await;
        assert_eq!(names(&snapshot), ["cp-1", "cp-2", "cp-3", "worker-1", "worker-2"], "{round}");
        assert!(snapshot.unmatched.is_empty(), "{round}: {snapshot:#?}");
        for (name, node) in &snapshot.nodes {
            assert!(node.is_up(), "{round}: {name}: {:?}", node.why_down());
        }
        let Fact::Known(etcd) = &snapshot.etcd else { panic!("{round}: {snapshot:#?}") };
        assert!(etcd.members.iter().all(|it| it.status.known().is_some()), "{round}: {etcd:#?}");
        if round > 1 {
            // By then Kubernetes has told its addresses, which lead there from everywhere.
            let expected = world.cluster.nodes().iter();
            let expected: BTreeMap<String, String> =
                expected.map(|node| (node.hostname.clone(), node.address.to_string())).collect();
            assert_eq!(addresses(&snapshot), expected, "{round}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_endpoint_itself_is_found_through_another_one() {
    // It reaches itself in the storage network, as long as it is the one that is asked.
    let world = storage_network(3, 0).await;
    seen(&world).await;
    seen(&world).await;
    let cp_1 = world.machine("cp-1").await;
    world.cluster.inject("cp-1", "partition").await.expect("a fault");
    seen(&world).await;
    world.cluster.clear("cp-1", "partition").await.expect("no fault");
    world.live.machines().facts(&cp_1).await.expect("an answer through a machine that answers");
}

/// A talosconfig that names these machines.
async fn naming(world: &World, nodes: &[String]) -> Live<Still> {
    let text = world.cluster.talosconfig();
    let (before, rest) = text.split_once("nodes:\n").expect("nodes");
    let indent: String = rest.chars().take_while(|it| *it == ' ').collect();
    let after = rest.lines().skip_while(|line| line.trim_start().starts_with('-'));
    let after: Vec<&str> = after.collect();
    let nodes: Vec<String> = nodes.iter().map(|it| format!("{indent}- {it}")).collect();
    let text = format!("{before}nodes:\n{}\n{}\n", nodes.join("\n"), after.join("\n"));
    let folder = world.folder.path().join("naming");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("talosconfig"), text).expect("written");
    connect(&folder, None).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_never_said_who_it_is_is_no_worker() {
    // Rule 10: the role of a machine that the talosconfig names is not guessed.
    let world = start(Discovery::Off, 1, 1).await;
    let own = world.cluster.nodes().iter().map(|node| node.address.to_string());
    let nodes: Vec<String> = own.chain(["10.9.9.9".to_owned()]).collect();
    let live = naming(&world, &nodes).await;
    for round in 1..=2 {
        let snapshot = observe(&live, POOL_LABEL).await.expect("a cluster that is seen");
        assert_eq!(names(&snapshot), ["cp-1", "worker-1"], "{round}");
        let why = &snapshot.unmatched[&"10.9.9.9".into()].why;
        assert!(why.contains("its role is unknown") && why.contains("no route"), "{round}: {why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_made_again_is_found_at_its_new_address() {
    // Finding 19: discovery shows the old one for 30 minutes.
    let world = start(Discovery::Service, 1, 2).await;
    let stale = |name: &'static str, address: &'static str| {
        world.cluster.driver().visit(move |inside| {
            let node = inside.world.find(name).expect("a node");
            let address = address.parse().expect("an address");
            inside.world.show_at(node, Some(vec![address]));
        })
    };
    stale("worker-1", "10.9.9.9").await.expect("the cluster runs");
    let first = seen(&world).await;
    assert!(first.nodes[&"worker-1".into()].talos.why_unknown().is_some(), "{first:#?}");
    // By then Kubernetes has told where its node is.
    let second = seen(&world).await;
    let found = &second.nodes[&"worker-1".into()];
    assert!(found.is_up(), "{second:#?}");

    // Another machine has the old address by now: it is not taken for `worker-2`.
    let taken: &'static str = found.address.clone().leak();
    stale("worker-2", taken).await.expect("the cluster runs");
    let late = connect(world.folder.path(), None).await;
    let first = observe(&late, POOL_LABEL).await.expect("a cluster that is seen");
    let why = first.nodes[&"worker-2".into()].talos.why_unknown().expect("it is another");
    assert!(why.contains("is worker-1"), "{why}");
    let second = observe(&late, POOL_LABEL).await.expect("a cluster that is seen");
    assert!(second.nodes[&"worker-2".into()].is_up(), "{second:#?}");

    // One that answers nowhere: it may only be a matter of time.
    stale("worker-2", "10.9.9.9").await.expect("the cluster runs");
    world.cluster.inject("worker-2", "partition").await.expect("a fault");
    let late = connect(world.folder.path(), None).await;
    observe(&late, POOL_LABEL).await.expect("a cluster that is seen");
    let second = observe(&late, POOL_LABEL).await.expect("a cluster that is seen");
    let why = second.nodes[&"worker-2".into()].talos.why_unknown().expect("nothing answers");
    assert!(why.contains("at its old address for up to 30 minutes"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_s_name_is_what_the_machines_say() {
    // Rule 9, finding 18: leases, plans and snapshots go by it. The talosconfig's context
    // is named by its user, and is never taken instead.
    let renamed = |world: &World| {
        let text = world.cluster.talosconfig();
        let text = text.replace("context: east", "context: my-laptop");
        let text = text.replace("    east:", "    my-laptop:");
        let folder = world.folder.path().join("renamed");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("talosconfig"), text).expect("written");
        folder
    };
    let world = start(Discovery::Service, 1, 1).await;
    let live = connect(Path::new(&renamed(&world)), None).await;
    assert_eq!(observe(&live, POOL_LABEL).await.expect("a cluster that is seen").cluster, "east");
    // A machine that does not tell it yet: then there is no name, and nothing is seen.
    world.cluster.driver().visit(|inside| inside.world.rename("")).await.expect("it runs");
    let why = observe(&live, POOL_LABEL).await.expect_err("no name").to_string();
    assert!(why.contains("does not tell the name of its cluster"), "{why}");
    assert!(!why.contains("my-laptop"), "{why}");
}
