//! Workers that join and leave.

use talos_proto::cosi::resource as cosi;
use talos_proto::kind;

use super::super::*;
use super::driver::Driver;

fn worker(name: &str, last: u8) -> NodeSpec {
    NodeSpec {
        hostname: name.to_owned(),
        role: NodeRole::Worker,
        addresses: vec![std::net::Ipv4Addr::new(10, 5, 1, last).into()],
        talos: Version::new(1, 13, 9),
        kubernetes: Version::new(1, 36, 1),
        platform: "metal".to_owned(),
        secure_boot: false,
        install_image: None,
        schematic: Some(EMPTY_SCHEMATIC.to_owned()),
    }
}

/// The names in discovery.
fn members(driver: &mut Driver) -> Vec<String> {
    let request = cosi::ListRequest {
        namespace: kind::MEMBER.namespace.to_owned(),
        r#type: kind::MEMBER.resource_type.to_owned(),
        options: None,
    };
    let Reply::Items(items) = driver.call(0, Request::CosiList(request)) else {
        panic!("no list");
    };
    let name = |item: Response| {
        let response: cosi::ListResponse = item.try_into().unwrap();
        response.resource.unwrap().metadata.unwrap().id
    };
    items.into_iter().map(name).collect()
}

#[test]
fn a_worker_that_joins_boots_and_becomes_ready() {
    let mut driver = Driver::new(1, 1, "1.13.9", "1.36.1");
    let now = driver.now;
    let new = driver.world.join(now, worker("worker-2", 1)).unwrap();
    assert_eq!(new, NodeIndex(2));
    assert_eq!(driver.world.spec().nodes[2].hostname, "worker-2");
    assert_eq!(members(&mut driver), ["cp-1", "worker-1", "worker-2"]);
    assert!(!driver.world.truth(new).unwrap().is_ready());
    driver.until("ready", 120, |driver| driver.is_ready(2));
    assert_eq!(driver.tag(2), "v1.13.9");
    let node = driver.world.kubernetes(new).unwrap();
    assert!(node.ready && node.kubelet_up && node.pods.is_empty());
    assert_eq!(driver.world.find("10.5.1.1"), Some(new));
}

#[test]
fn a_taken_name_and_a_control_plane_cannot_join() {
    let mut driver = Driver::new(1, 1, "1.13.9", "1.36.1");
    let now = driver.now;
    assert_eq!(driver.world.join(now, worker("worker-1", 1)), None);
    let taken =
        NodeSpec { addresses: driver.world.spec().nodes[0].addresses.clone(), ..worker("a", 1) };
    assert_eq!(driver.world.join(now, taken), None);
    let other = NodeSpec { role: NodeRole::ControlPlane, ..worker("cp-2", 1) };
    assert_eq!(driver.world.join(now, other), None);
    assert_eq!(driver.world.len(), 2);
}

#[test]
fn a_worker_that_leaves_keeps_only_its_index() {
    let mut driver = Driver::new(1, 3, "1.13.9", "1.36.1");
    let (now, gone) = (driver.now, NodeIndex(2));
    driver.world.inject(now, Some(gone), &Fault::NotReady);
    assert!(driver.world.leave(now, gone));
    assert!(!driver.world.leave(now, gone), "twice");
    assert!(!driver.world.leave(now, NodeIndex(0)), "a control plane");
    assert_eq!(members(&mut driver), ["cp-1", "worker-1", "worker-3"]);
    assert_eq!(driver.world.present().count(), 3);
    assert_eq!((driver.world.len(), driver.world.faults().len()), (4, 0));
    assert_eq!(
        (driver.world.find("worker-2"), driver.world.find("worker-3").unwrap().0),
        (None, 3)
    );
    assert!(driver.world.kubernetes(gone).is_none() && !driver.world.is_reachable(gone));
    assert!(driver.world.truth(gone).unwrap().is_gone());
    // Neither time nor a fault brings it back.
    driver.world.inject(now, None, &Fault::NeverReturns);
    driver.world.clear(now, None, FaultKind::NeverReturns);
    driver.world.switch_on(now, gone);
    driver.secs(600);
    assert!(!driver.world.truth(gone).unwrap().is_on());
    // Health checks of the cluster do not wait for it.
    let check = talos_proto::cluster::HealthCheckRequest::default();
    let stream = driver.stream(0, Request::HealthCheck(check));
    driver.secs(1);
    assert_eq!(driver.ended[&stream], Content::End(Ok(())));
    // Its name is free again.
    let now = driver.now;
    assert_eq!(driver.world.join(now, worker("worker-2", 1)), Some(NodeIndex(4)));
}

/// The indexes of the nodes that each node knows through discovery, in the order of the nodes.
fn known(driver: &Driver) -> Vec<Vec<usize>> {
    let of = |node| driver.world.members_of(NodeIndex(node)).into_iter().map(|it| it.0).collect();
    (0..driver.world.len()).map(of).collect()
}

#[test]
fn the_member_list_depends_on_the_kind_of_discovery() {
    // Two control planes and a worker.
    for (discovery, expected) in [
        (Discovery::Service, [vec![0, 1, 2], vec![0, 1, 2], vec![0, 1, 2]]),
        (Discovery::AirGap, [vec![0], vec![1], vec![2]]),
        (Discovery::Kubernetes, [vec![0, 1], vec![0, 1], vec![2]]),
        (Discovery::Off, [vec![], vec![], vec![]]),
    ] {
        let mut driver = Driver::new(2, 1, "1.13.9", "1.36.1");
        let spec = ClusterSpec { discovery, ..driver.world.spec().clone() };
        driver.world = World::new(&spec, 1, driver.now);
        assert_eq!(known(&driver), expected, "{discovery:?}");
        let off =
            driver.world.config_of(NodeIndex(0)).contains("discovery:\n        enabled: false");
        assert_eq!(off, discovery == Discovery::Off);
    }
}

#[test]
fn discovery_forgets_a_node_after_half_an_hour_without_news() {
    let mut driver = Driver::new(1, 2, "1.13.9", "1.36.1");
    let now = driver.now;
    driver.world.inject(now, Some(NodeIndex(1)), &Fault::DiscoveryCut { now: false });
    driver.world.inject(now, Some(NodeIndex(2)), &Fault::Silent);
    driver.secs(29 * 60);
    assert_eq!(known(&driver)[0], [0, 1, 2]);
    driver.secs(2 * 60);
    assert_eq!(known(&driver)[0], [0]);
    // It still serves, and keeps its list of members.
    assert!(driver.is_ready(1));
    assert_eq!(known(&driver)[1], [0, 1]);
    let now = driver.now;
    driver.world.clear(now, None, FaultKind::DiscoveryCut);
    driver.world.clear(now, None, FaultKind::Silent);
    assert_eq!(known(&driver)[0], [0, 1, 2]);
    driver.world.inject(now, Some(NodeIndex(1)), &Fault::DiscoveryCut { now: true });
    assert_eq!(known(&driver), [vec![0, 2], vec![1], vec![0, 2]]);
}

#[test]
fn a_storage_network_is_listed_first() {
    let mut driver = Driver::new(1, 1, "1.13.9", "1.36.1");
    let spec = ClusterSpec { storage_network: true, ..driver.world.spec().clone() };
    driver.world = World::new(&spec, 1, driver.now);
    let shown = |driver: &Driver, node| -> Vec<String> {
        let all = driver.world.member_addresses(NodeIndex(node));
        all.iter().map(ToString::to_string).collect()
    };
    assert_eq!(shown(&driver, 0), ["10.4.0.2", "10.5.0.2"]);
    assert_eq!(shown(&driver, 1), ["10.4.0.3", "10.5.0.3"]);
    // The Node object has the reachable address.
    let node = driver.world.kubernetes(NodeIndex(1)).expect("a node");
    assert_eq!(node.addresses, spec.nodes[1].addresses);
    // A recreated machine is shown at its old address.
    let old = "10.9.9.9".parse().expect("an address");
    driver.world.show_at(NodeIndex(1), Some(vec![old]));
    assert_eq!(shown(&driver, 1), ["10.9.9.9"]);
    driver.world.show_at(NodeIndex(1), None);
    assert_eq!(shown(&driver, 1), ["10.4.0.3", "10.5.0.3"]);
}
