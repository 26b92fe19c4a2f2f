//! etcd's versions: raised when all members run the newer minor, and lowered only by etcd's own
//! downgrade (rules 1 and 13).

use talos_proto::machine;

use super::super::*;
use super::driver::Driver;

fn storage(driver: &mut Driver, node: usize) -> String {
    let response: machine::EtcdStatusResponse = driver.unary(node, Request::EtcdStatus);
    response.messages[0].member_status.clone().unwrap().storage_version
}

/// Installs another version by whatever call the node has, and waits until it runs.
fn go(driver: &mut Driver, node: usize, version: &str) {
    let image = format!("factory.talos.dev/metal-installer/{EMPTY_SCHEMATIC}:{version}");
    let request = machine::UpgradeRequest { image, force: true, ..Default::default() };
    driver.stream(node, Request::Upgrade(request));
    driver.until("the new version", 400, |driver| {
        driver.world.is_reachable(NodeIndex(node)) && driver.tag(node) == version
    });
}

fn upgraded(control_planes: usize, from: &str, to: &str) -> Driver {
    let mut driver = Driver::new(control_planes, 0, from, "1.33.4");
    for node in 0..control_planes {
        go(&mut driver, node, to);
        driver.until("ready", 300, |driver| driver.is_ready(node));
    }
    driver
}

fn validate(version: &str) -> Request {
    let version = version.to_owned();
    Request::EtcdDowngradeValidate(machine::EtcdDowngradeValidateRequest { version })
}

fn enable(version: &str) -> Request {
    let version = version.to_owned();
    Request::EtcdDowngradeEnable(machine::EtcdDowngradeEnableRequest { version })
}

const ROLLBACK: Request = Request::Rollback(machine::RollbackRequest {});

fn back(driver: &mut Driver, node: usize) {
    let _: machine::RollbackResponse = driver.unary(node, ROLLBACK);
    driver.until("down", 60, |driver| !driver.world.is_reachable(NodeIndex(node)));
    driver.until("up", 200, |driver| driver.world.is_reachable(NodeIndex(node)));
}

#[test]
fn the_cluster_goes_up_once_all_members_run_the_newer_minor() {
    let mut driver = Driver::new(3, 0, "1.13.12", "1.33.4");
    for node in 0..3 {
        assert_eq!(storage(&mut driver, 0), "3.6.0", "while {node} is on the older minor");
        go(&mut driver, node, "v1.14.4");
        driver.until("ready", 300, |driver| driver.is_ready(node));
    }
    driver.secs(10);
    for node in 0..3 {
        assert_eq!(storage(&mut driver, node), "3.7.0");
    }
    assert_eq!(driver.world.etcd_truth().cluster_minor, 7);
}

#[test]
fn in_the_middle_of_a_hop_a_member_rolls_back_without_a_downgrade() {
    let mut driver = Driver::new(3, 0, "1.13.12", "1.33.4");
    go(&mut driver, 0, "v1.14.4");
    driver.until("ready", 300, |driver| driver.is_ready(0));
    back(&mut driver, 0);
    assert_eq!(driver.tag(0), "v1.13.12");
    driver.until("ready", 300, |driver| driver.is_ready(0));
}

#[test]
fn a_member_of_an_older_minor_exits() {
    let mut driver = upgraded(3, "1.13.12", "v1.14.4");
    driver.secs(10);
    back(&mut driver, 0);
    driver.secs(600);
    assert_eq!(driver.tag(0), "v1.13.12");
    assert!(!driver.is_ready(0));
    assert_eq!(driver.error(0, Request::EtcdStatus).code, Code::DeadlineExceeded);
    let services: machine::ServiceListResponse = driver.unary(0, Request::ServiceList);
    let etcd = services.messages[0].services.iter().find(|service| service.id == "etcd").unwrap();
    let events = &etcd.events.as_ref().unwrap().events;
    assert!(events.last().unwrap().msg.contains("invalid downgrade"), "{events:?}");
    // Two are left, and only the newer version helps.
    assert_eq!(driver.world.etcd_truth().alive, 2);
    back(&mut driver, 0);
    driver.until("ready", 300, |driver| driver.is_ready(0));
}

#[test]
fn after_an_etcd_downgrade_members_can_roll_back() {
    for (from, to, lower, versions) in [
        ("1.13.12", "v1.14.4", "3.6", ["3.7", "3.6.0"]),
        ("1.10.9", "v1.11.6", "3.5", ["3.6", "3.5.0"]),
    ] {
        let mut driver = upgraded(3, from, to);
        driver.secs(10);
        let answer: machine::EtcdDowngradeValidateResponse = driver.unary(1, validate(lower));
        let version = answer.messages[0].cluster_downgrade.clone().unwrap().cluster_version;
        assert_eq!(version, versions[0]);
        let _: machine::EtcdDowngradeEnableResponse = driver.unary(1, enable(lower));
        let again = driver.error(2, enable(lower));
        assert_eq!(again.code, Code::Unknown, "Talos passes on the message without a code");
        assert!(again.message.contains("downgrade job in progress"), "{again}");
        driver.secs(10);
        for node in 0..3 {
            assert_eq!(storage(&mut driver, node), versions[1]);
        }
        for node in 0..3 {
            back(&mut driver, node);
            driver.until("ready", 300, |driver| driver.is_ready(node));
        }
        // All members run it: the downgrade is over, and an upgrade is possible again.
        driver.secs(10);
        go(&mut driver, 0, to);
        driver.until("ready", 300, |driver| driver.is_ready(0));
    }
}

#[test]
fn a_downgrade_waits_for_every_member_and_can_be_cancelled() {
    let mut driver = upgraded(3, "1.13.12", "v1.14.4");
    driver.secs(10);
    driver.world.inject(driver.now, Some(NodeIndex(2)), &Fault::Partition);
    driver.secs(10);
    let _: machine::EtcdDowngradeEnableResponse = driver.unary(0, enable("3.6"));
    driver.secs(60);
    assert_eq!(storage(&mut driver, 0), "3.7.0", "one member does not answer");
    driver.world.clear(driver.now, None, FaultKind::Partition);
    driver.secs(10);
    assert_eq!(storage(&mut driver, 0), "3.6.0");
    let _: machine::EtcdDowngradeCancelResponse = driver.unary(0, Request::EtcdDowngradeCancel);
    driver.secs(10);
    assert_eq!(storage(&mut driver, 0), "3.7.0");
}

#[test]
fn invalid_downgrade_requests_are_refused() {
    let mut driver = Driver::new(1, 1, "1.14.4", "1.33.4");
    for (version, code) in [
        ("", Code::InvalidArgument),
        ("3.6.0", Code::InvalidArgument),
        ("3.x", Code::InvalidArgument),
        ("3.4", Code::InvalidArgument),
        ("3.7", Code::Unknown),
        ("3.5", Code::Unknown),
    ] {
        assert_eq!(driver.error(0, validate(version)).code, code, "{version}");
    }
    assert_eq!(driver.error(1, validate("3.6")).code, Code::Unimplemented, "a worker");
    let mut driver = Driver::new(1, 0, "1.10.9", "1.33.4");
    let status = driver.error(0, validate("3.4"));
    assert_eq!(status.code, Code::Unimplemented);
    assert!(status.message.contains("unknown method EtcdDowngradeValidate"), "{status}");
}

#[test]
fn an_upgrade_from_before_1_8_wipes_the_node() {
    let mut driver = Driver::new(3, 0, "1.7.7", "1.29.4");
    let image = format!("factory.talos.dev/metal-installer/{EMPTY_SCHEMATIC}:v1.8.4");
    let request = machine::UpgradeRequest { image, ..Default::default() };
    driver.stream(0, Request::Upgrade(request.clone()));
    driver.until("the new version", 400, |driver| {
        driver.world.is_reachable(NodeIndex(0)) && driver.tag(0) == "v1.8.4"
    });
    assert_eq!(driver.world.truth(NodeIndex(0)).unwrap().wiped(), 1);
    driver.stream(1, Request::Upgrade(machine::UpgradeRequest { preserve: true, ..request }));
    driver.secs(400);
    assert_eq!(driver.world.truth(NodeIndex(1)).unwrap().wiped(), 0);
}

#[test]
fn the_legacy_call_refuses_without_a_code() {
    // Two members never pass the checks; only `force` skips them.
    let mut driver = Driver::new(2, 0, "1.12.6", "1.33.4");
    let image = format!("factory.talos.dev/metal-installer/{EMPTY_SCHEMATIC}:v1.12.11");
    let request = machine::UpgradeRequest { image, ..Default::default() };
    let stream = driver.stream(0, Request::Upgrade(request.clone()));
    driver.secs(120);
    let Content::End(Err(status)) = &driver.ended[&stream] else { panic!("it was accepted") };
    assert_eq!(status.code, Code::Unknown);
    assert!(status.message.contains("etcd member count(2) is insufficient"), "{status}");
    driver.stream(0, Request::Upgrade(machine::UpgradeRequest { force: true, ..request }));
    driver.until("the new version", 400, |driver| {
        driver.world.is_reachable(NodeIndex(0)) && driver.tag(0) == "v1.12.11"
    });
}
