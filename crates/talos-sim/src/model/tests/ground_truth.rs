//! What a referee sees of a world.

use talos_proto::machine;

use super::super::*;
use super::driver::Driver;

const REBOOT: Request = Request::Reboot(machine::RebootRequest { mode: 0 });

fn factory(version: &str) -> String {
    format!("factory.talos.dev/metal-installer/{EMPTY_SCHEMATIC}:{version}")
}

fn truth(driver: &Driver, node: usize) -> NodeTruth<'_> {
    driver.world.truth(NodeIndex(node)).unwrap()
}

#[test]
fn a_healthy_world() {
    let driver = Driver::new(3, 1, "1.13.9", "1.36.1");
    let names: Vec<&str> = driver.world.truths().map(|node| node.hostname()).collect();
    assert_eq!(names, ["cp-1", "cp-2", "cp-3", "worker-1"]);
    for node in driver.world.truths() {
        assert!(node.is_on() && node.is_reachable() && node.is_running() && node.is_ready());
        assert!(!node.is_installing() && node.armed().is_none() && node.staged().is_none());
        assert_eq!(node.installed().version.tag(), "v1.13.9");
        assert_eq!(node.installed().schematic, Some(EMPTY_SCHEMATIC));
        assert_eq!((node.extensions().len(), node.downs()), (0, 0));
        let kubelet = node.kubelet();
        assert!(kubelet.runs && kubelet.ready);
        assert_eq!(kubelet.version(), Some(Version::new(1, 36, 1)));
        let control_plane = node.role() == NodeRole::ControlPlane;
        assert_eq!(node.member().is_some(), control_plane);
        assert!(node.member().is_none_or(|member| member.votes && member.healthy));
        assert_eq!(node.static_pods().count(), if control_plane { 3 } else { 0 });
        assert!(node.static_pods().all(|pod| pod.ready && pod.version() == kubelet.version()));
    }
    let etcd = driver.world.etcd_truth();
    assert_eq!((etcd.members, etcd.voters, etcd.alive, etcd.alarms), (3, 3, 3, 0));
    assert!(etcd.has_quorum() && etcd.leader.is_some_and(|leader| leader.0 < 3));
    assert_eq!(etcd.spare(), 1);
    assert!(driver.world.truth(NodeIndex(4)).is_none());
}

#[test]
fn an_upgrade_is_seen_at_every_step() {
    let mut driver = Driver::new(1, 1, "1.12.11", "1.34.2");
    let boot_id = truth(&driver, 1).boot_id().to_owned();
    let image = factory("v1.13.9");
    let call =
        driver.stream(1, Request::Upgrade(machine::UpgradeRequest { image, ..Default::default() }));
    driver.until("a pull", 70, |driver| driver.ended.contains_key(&call));
    driver.until("an installer", 100, |driver| truth(driver, 1).is_installing());
    assert!(!truth(&driver, 1).is_running() && truth(&driver, 1).armed().is_none());
    driver.until("a full slot", 60, |driver| truth(driver, 1).armed().is_some());
    let armed = truth(&driver, 1).armed().unwrap();
    assert_eq!((armed.version.tag().as_str(), armed.schematic), ("v1.13.9", Some(EMPTY_SCHEMATIC)));
    assert_eq!(truth(&driver, 1).installed().version.tag(), "v1.12.11");
    driver.until("darkness", 30, |driver| !truth(driver, 1).is_on());
    let node = truth(&driver, 1);
    assert!(!node.is_ready() && !node.is_reachable() && !node.kubelet().runs);
    assert_eq!((node.downs(), node.kubelet().version()), (1, None));
    driver.until("an end", 200, |driver| truth(driver, 1).is_ready());
    let node = truth(&driver, 1);
    assert_eq!(node.installed().version.tag(), "v1.13.9");
    assert!(node.armed().is_none() && node.boot_id() != boot_id);
    assert_eq!(node.downs(), 1);
}

#[test]
fn problems_of_etcd_are_visible() {
    let mut driver = Driver::new(3, 0, "1.13.9", "1.36.1");
    let now = driver.now;
    driver.world.inject(now, Some(NodeIndex(0)), &Fault::EtcdLearner);
    driver.world.inject(now, Some(NodeIndex(1)), &Fault::EtcdLag { entries: 70 });
    driver.world.inject(now, Some(NodeIndex(2)), &Fault::EtcdAlarm { corrupt: false });
    let member = |driver: &Driver, node| truth(driver, node).member().unwrap();
    assert!(!member(&driver, 0).votes && member(&driver, 1).votes);
    assert_eq!((member(&driver, 1).lag, member(&driver, 2).lag), (70, 0));
    let etcd = driver.world.etcd_truth();
    assert_eq!((etcd.members, etcd.voters, etcd.alarms, etcd.spare()), (3, 2, 1, 0));
    driver.secs(10);
    let _: machine::RebootResponse = driver.unary(1, REBOOT);
    driver.until("darkness", 60, |driver| !truth(driver, 1).is_on());
    let etcd = driver.world.etcd_truth();
    assert!(!etcd.has_quorum() && etcd.leader.is_none());
    assert!(!member(&driver, 1).healthy && !member(&driver, 2).healthy);
    // The API server beside the other member runs, and has no etcd.
    let api = truth(&driver, 2).static_pods().next().unwrap();
    assert_eq!((api.component, api.runs, api.ready), (Component::ApiServer, true, false));
}

#[test]
fn an_extension_has_its_new_name_from_the_release_that_renames_it() {
    let mut spec = ClusterSpec::new(1, 0, &"1.13.9".parse().unwrap(), &"1.34.2".parse().unwrap());
    let name = |short: &str| format!("siderolabs/{short}");
    let renamed = |since| Renamed { from: name("i915-ucode"), to: name("i915"), since };
    let extensions = vec![name("i915-ucode"), name("iscsi-tools")];
    let schematic = Schematic { yaml: String::new(), extensions };
    spec.registry.schematics.insert("abc".to_owned(), schematic);
    spec.nodes[0].schematic = Some("abc".to_owned());
    for (since, shown) in [("1.14", "i915-ucode"), ("1.13", "i915"), ("1.12", "i915")] {
        spec.registry.renamed = vec![renamed(since.parse().unwrap())];
        let world = World::new(&spec, 0, Time::from_secs(1_800_000_000));
        let truth = world.truth(NodeIndex(0)).unwrap();
        assert_eq!(truth.extensions(), [name(shown), name("iscsi-tools")], "{since}");
    }
}

#[test]
fn extensions_are_those_of_the_running_schematic() {
    let mut spec = ClusterSpec::new(1, 0, &Version::new(1, 13, 9), &Version::new(1, 36, 1));
    let id = "beef".repeat(16);
    let extensions = vec!["siderolabs/qemu-guest-agent".to_owned()];
    let schematic = Schematic { yaml: String::new(), extensions: extensions.clone() };
    spec.registry.schematics.insert(id.clone(), schematic);
    spec.nodes[0].schematic = Some(id);
    let driver = Driver::with(&spec, 0);
    assert_eq!(truth(&driver, 0).extensions(), extensions);
}
