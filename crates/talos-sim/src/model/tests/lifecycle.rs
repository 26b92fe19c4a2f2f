//! Upgrades, reboots and rollbacks.

use talos_proto::common::{ContainerDriver, ContainerdInstance, ContainerdNamespace};
use talos_proto::event::Payload;
use talos_proto::machine;
use talos_proto::machine::lifecycle_service_install_progress::Response as Progress;

use super::super::*;
use super::driver::Driver;

pub(super) fn system() -> ContainerdInstance {
    ContainerdInstance {
        driver: ContainerDriver::Cri.into(),
        namespace: ContainerdNamespace::NsSystem.into(),
    }
}

pub(super) fn factory(version: &str) -> String {
    format!("factory.talos.dev/metal-installer/{EMPTY_SCHEMATIC}:{version}")
}

pub(super) fn pull(image: &str) -> Request {
    Request::ImageServicePull(machine::ImageServicePullRequest {
        containerd: Some(system()),
        image_ref: image.to_owned(),
    })
}

pub(super) fn install(image: &str) -> Request {
    Request::LifecycleUpgrade(machine::LifecycleServiceUpgradeRequest {
        containerd: Some(system()),
        source: Some(machine::InstallArtifactsSource { image_name: image.to_owned() }),
    })
}

pub(super) fn exit_code(driver: &Driver, stream: StreamId) -> Option<i32> {
    let items: Vec<machine::LifecycleServiceUpgradeResponse> = driver.items(stream);
    match items.last()?.progress.as_ref()?.response.as_ref()? {
        Progress::ExitCode(code) => Some(*code),
        Progress::Message(_) => None,
    }
}

pub(super) fn pulled_and_installed(driver: &mut Driver, node: usize, image: &str) -> i32 {
    let stream = driver.stream(node, pull(image));
    driver.secs(60);
    assert_eq!(driver.ended[&stream], Content::End(Ok(())));
    let stream = driver.stream(node, install(image));
    driver.secs(30);
    assert_eq!(driver.ended[&stream], Content::End(Ok(())));
    exit_code(driver, stream).unwrap()
}

pub(super) const REBOOT: Request = Request::Reboot(machine::RebootRequest { mode: 0 });

#[test]
fn a_lifecycle_upgrade_goes_through() {
    let mut driver = Driver::new(3, 1, "1.13.9", "1.36.1");
    let image = factory("v1.14.1");
    let before = driver.boot_id(0);
    assert_eq!(pulled_and_installed(&mut driver, 0, &image), 0);
    // Armed, and nothing has changed yet.
    assert_eq!(driver.tag(0), "v1.13.9");
    let rebooted: machine::RebootResponse = driver.unary(0, REBOOT);
    assert_eq!(rebooted.messages[0].actor_id.len(), 36);
    driver.until("down", 20, |driver| !driver.world.is_reachable(NodeIndex(0)));
    driver.until("up", 90, |driver| driver.world.is_reachable(NodeIndex(0)));
    assert_eq!(driver.tag(0), "v1.14.1");
    assert!(!driver.is_ready(0));
    driver.until("ready", 70, |driver| driver.is_ready(0));
    assert_ne!(driver.boot_id(0), before);
    let boot_id = driver.get(0, "BootIDs.runtime.talos.dev", "runtime", "boot-id").unwrap();
    assert!(boot_id.spec.unwrap().yaml_spec.starts_with("bootID: "));
}

#[test]
fn a_control_plane_is_ready_before_its_api_server_answers() {
    // Rule 1: as real nodes do it. The machine's check of its static pods passes as long
    // as it knows of none, and up to 1.13 their pods have no probes.
    for (talos, probed) in [("1.13.9", false), ("1.14.1", true)] {
        let mut driver = Driver::new(3, 0, talos, "1.36.1");
        let node = NodeIndex(0);
        let _: machine::RebootResponse = driver.unary(0, REBOOT);
        driver.until("down", 20, |driver| !driver.world.is_reachable(node));
        driver.until("up", 90, |driver| driver.world.is_reachable(node));
        let mut seen = Vec::new();
        for _ in 0..700 {
            driver.wait(std::time::Duration::from_millis(100));
            let (stage, unmet) = driver.world.machine_status_of(node);
            let ready = unmet.is_empty();
            let unmet = driver.world.unmet_conditions(node);
            let pods: Vec<&str> = unmet.iter().map(|(name, _)| *name).collect();
            let statuses = driver.world.nodes[0].kubernetes.known_pods().count();
            let truth = driver.world.truth(node).unwrap();
            let now = (stage, ready, pods.join(","), statuses, truth.api_server_answers());
            if stage == 4 && seen.last() != Some(&now) {
                seen.push(now);
            }
        }
        let first = seen.iter().position(|it| it.1).expect("ready at last");
        assert_eq!(seen[first], (4, true, String::new(), 0, false), "{talos}: {seen:?}");
        assert_eq!(seen[first + 1], (4, false, "staticPods".to_owned(), 3, false), "{seen:?}");
        let between = (4, true, String::new(), 3, false);
        assert_eq!(seen.contains(&between), !probed, "{talos}: {seen:?}");
        assert_eq!(seen.last(), Some(&(4, true, String::new(), 3, true)), "{talos}: {seen:?}");
    }
}

#[test]
fn an_unpulled_image_is_an_internal_error_and_nothing_is_armed() {
    let mut driver = Driver::new(1, 0, "1.13.9", "1.36.1");
    let status = driver.error(0, install(&factory("v1.14.1")));
    assert_eq!(status.code, Code::Internal);
    assert!(status.message.contains("not found in containerd store"), "{status}");
    assert_eq!(driver.error(0, install("")).code, Code::InvalidArgument);
}

#[test]
fn one_installer_at_a_time_and_it_survives_its_caller() {
    let mut driver = Driver::new(1, 0, "1.13.9", "1.36.1");
    let image = factory("v1.14.1");
    driver.stream(0, pull(&image));
    driver.secs(60);
    let stream = driver.stream(0, install(&image));
    assert_eq!(driver.error(0, install(&image)).code, Code::FailedPrecondition);
    driver.world.close_stream(driver.now, stream);
    driver.secs(30);
    let _: machine::RebootResponse = driver.unary(0, REBOOT);
    driver.secs(100);
    driver.until("up", 90, |driver| driver.world.is_reachable(NodeIndex(0)));
    assert_eq!(driver.tag(0), "v1.14.1");
}

#[test]
fn a_pull_dies_with_its_caller() {
    let mut driver = Driver::new(1, 0, "1.13.9", "1.36.1");
    let image = factory("v1.14.1");
    let stream = driver.stream(0, pull(&image));
    driver.secs(5);
    driver.world.close_stream(driver.now, stream);
    driver.secs(120);
    assert_eq!(driver.error(0, install(&image)).code, Code::Internal);
}

#[test]
fn the_new_version_judges_host_and_kubernetes() {
    // 1.16 is not out; 1.11 is too old a host for 1.14; Kubernetes 1.31 too old for it.
    let mut driver = Driver::new(1, 0, "1.13.9", "1.31.2");
    assert_eq!(pulled_and_installed(&mut driver, 0, &factory("v1.14.1")), 2);
    let mut spec = ClusterSpec::new(1, 0, &Version::new(1, 13, 9), &Version::new(1, 33, 2));
    spec.registry.talos.push(Version::new(1, 16, 0));
    let mut driver = Driver::with(&spec, 0);
    assert_eq!(pulled_and_installed(&mut driver, 0, &factory("v1.11.6")), 4);
    assert_eq!(driver.tag(0), "v1.13.9");
}

#[test]
fn unknown_images_are_not_found() {
    let mut driver = Driver::new(1, 0, "1.13.9", "1.36.1");
    let stream = driver.stream(0, pull("ghcr.io/siderolabs/installer:v1.14.1"));
    driver.secs(2);
    let Content::End(Err(status)) = &driver.ended[&stream] else {
        panic!("{:?}", driver.ended);
    };
    assert_eq!(status.code, Code::NotFound);
}

#[test]
fn lifecycle_needs_1_13() {
    let mut driver = Driver::new(1, 0, "1.12.6", "1.34.2");
    assert_eq!(driver.error(0, pull("x")).code, Code::Unimplemented);
    assert_eq!(driver.error(0, install("x")).code, Code::Unimplemented);
    assert_eq!(
        driver.get(0, "BootIDs.runtime.talos.dev", "runtime", "boot-id").unwrap_err().code,
        Code::PermissionDenied
    );
}

fn legacy(image: &str) -> machine::UpgradeRequest {
    machine::UpgradeRequest { image: image.to_owned(), ..Default::default() }
}

#[test]
fn a_legacy_upgrade_is_visible_in_its_events() {
    let mut driver = Driver::new(3, 0, "1.12.6", "1.34.2");
    let events = driver.stream(0, Request::Events(machine::EventsRequest::default()));
    let call = driver.stream(0, Request::Upgrade(legacy(&factory("v1.13.9"))));
    driver.secs(60);
    let answers: Vec<machine::UpgradeResponse> = driver.items(call);
    let actor = answers[0].messages[0].actor_id.clone();
    driver.until("down", 120, |driver| !driver.world.is_reachable(NodeIndex(0)));
    assert_eq!(driver.ended[&events], Content::Drop);
    let seen: Vec<machine::Event> = driver.items(events);
    assert_eq!(seen[0], machine::Event::default());
    let phases: Vec<String> = seen[1..]
        .iter()
        .filter(|event| event.actor_id == actor)
        .filter_map(|event| match Payload::unpack(event.data.as_ref()?).unwrap()? {
            Payload::Phase(phase) if phase.action == 0 => Some(phase.phase),
            Payload::Sequence(sequence) => {
                Some(format!("{} {}", sequence.sequence, sequence.action))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        phases,
        [
            "upgrade 1",
            "drain",
            "cleanup",
            "dbus",
            "stopServices",
            "unmount",
            "unmountBind",
            "unmountSystem",
            "volumeFinalize",
            "upgrade",
            "meta",
            "kexec",
            "stopEverything"
        ]
    );
    driver.until("ready", 200, |driver| driver.is_ready(0));
    assert_eq!(driver.tag(0), "v1.13.9");
    // The boot has cleared the ring.
    let again = driver.stream(
        0,
        Request::Events(machine::EventsRequest { tail_events: -1, ..Default::default() }),
    );
    let seen: Vec<machine::Event> = driver.items(again);
    let last = seen.iter().rev().find_map(|event| {
        match Payload::unpack(event.data.as_ref()?).unwrap()? {
            Payload::MachineStatus(status) => Some(status),
            _ => None,
        }
    });
    let last = last.unwrap();
    assert_eq!((last.stage, last.status.unwrap().ready), (4, true));
    let text = format!("{seen:?}");
    assert!(!text.contains(&actor));
}

#[test]
fn legacy_upgrades_check_etcd_unless_skipped() {
    let mut driver = Driver::new(2, 0, "1.12.6", "1.34.2");
    let image = factory("v1.13.9");
    let refused = |driver: &mut Driver, request| {
        let call = driver.stream(0, Request::Upgrade(request));
        driver.secs(60);
        matches!(&driver.ended[&call], Content::End(Err(status)) if status.message.contains("member count(2)"))
    };
    assert!(refused(&mut driver, legacy(&image)));
    // Before 1.12.9, preserve does not skip the checks.
    assert!(refused(&mut driver, machine::UpgradeRequest { preserve: true, ..legacy(&image) }));
    assert!(!refused(&mut driver, machine::UpgradeRequest { force: true, ..legacy(&image) }));
}

#[test]
fn a_failed_legacy_install_reboots_into_the_old_version() {
    let mut driver = Driver::new(3, 0, "1.12.6", "1.30.2");
    driver.stream(0, Request::Upgrade(legacy(&factory("v1.13.9"))));
    driver.secs(60);
    driver.until("down", 130, |driver| !driver.world.is_reachable(NodeIndex(0)));
    driver.until("ready", 200, |driver| driver.is_ready(0));
    assert_eq!(driver.tag(0), "v1.12.6");
}

#[test]
fn a_boot_fallback_returns_on_the_old_version() {
    let mut driver = Driver::new(3, 0, "1.13.9", "1.36.1");
    driver.world.inject(driver.now, Some(NodeIndex(1)), &Fault::BootBack);
    assert_eq!(pulled_and_installed(&mut driver, 1, &factory("v1.14.1")), 0);
    let before = driver.boot_id(1);
    let _: machine::RebootResponse = driver.unary(1, REBOOT);
    driver.secs(20);
    driver.until("ready", 300, |driver| driver.is_ready(1));
    assert_eq!(driver.tag(1), "v1.13.9");
    assert_ne!(driver.boot_id(1), before);
    assert!(driver.world.faults().is_empty());
}

#[test]
fn rollback_goes_back() {
    let mut driver = Driver::new(1, 0, "1.13.9", "1.36.1");
    let rollback = || Request::Rollback(machine::RollbackRequest {});
    assert_eq!(driver.error(0, rollback()).code, Code::Unknown);
    assert_eq!(pulled_and_installed(&mut driver, 0, &factory("v1.13.12")), 0);
    let _: machine::RebootResponse = driver.unary(0, REBOOT);
    driver.secs(20);
    driver.until("ready", 200, |driver| driver.is_ready(0));
    assert_eq!(driver.tag(0), "v1.13.12");
    let _: machine::RollbackResponse = driver.unary(0, rollback());
    driver.secs(20);
    driver.until("ready", 200, |driver| driver.is_ready(0));
    assert_eq!(driver.tag(0), "v1.13.9");
}

#[test]
fn a_node_may_never_return_or_ignore_a_reboot() {
    let mut driver = Driver::new(3, 1, "1.13.9", "1.36.1");
    driver.world.inject(driver.now, Some(NodeIndex(3)), &Fault::NeverReturns);
    driver.world.inject(driver.now, Some(NodeIndex(2)), &Fault::LostReboot);
    let before = driver.boot_id(2);
    let _: machine::RebootResponse = driver.unary(2, REBOOT);
    let _: machine::RebootResponse = driver.unary(3, REBOOT);
    driver.secs(3600);
    assert!(!driver.world.is_reachable(NodeIndex(3)));
    assert_eq!(driver.boot_id(2), before);
    driver.world.clear(driver.now, None, FaultKind::NeverReturns);
    driver.until("ready", 200, |driver| driver.is_ready(3));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed: u64| {
        let spec = ClusterSpec::new(3, 2, &Version::new(1, 12, 6), &Version::new(1, 34, 2));
        let mut driver = Driver::with(&spec, seed);
        for node in 0..5 {
            let call = Request::Events(machine::EventsRequest::default());
            driver.stream(node, call);
            driver.stream(node, Request::Upgrade(legacy(&factory("v1.13.9"))));
            driver.secs(400);
            driver.boot_id(node);
        }
        let state = serde_json::to_string(&driver.world).unwrap();
        format!("{:?}{:?}{state}", driver.got, driver.ended)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn a_stored_world_continues() {
    let mut driver = Driver::new(3, 1, "1.13.9", "1.36.1");
    assert_eq!(pulled_and_installed(&mut driver, 0, &factory("v1.14.1")), 0);
    let _: machine::RebootResponse = driver.unary(0, REBOOT);
    driver.secs(3);
    let stored = serde_json::to_vec(&driver.world).unwrap();
    driver.world = serde_json::from_slice(&stored).unwrap();
    driver.secs(20);
    driver.until("ready", 200, |driver| driver.is_ready(0));
    assert_eq!(driver.tag(0), "v1.14.1");
    // Rule 14: what is printed of a world holds no keys.
    let printed = format!("{:?}", driver.world);
    let key = &driver.world.spec().secrets.machine_ca_key;
    assert!(!key.is_empty() && !printed.contains(key.as_str()));
}

#[test]
fn talos_uncordons_only_what_it_cordoned() {
    for cordoned_before in [false, true] {
        let mut driver = Driver::new(3, 1, "1.12.6", "1.34.2");
        let worker = NodeIndex(3);
        driver.world.set_unschedulable(driver.now, worker, cordoned_before);
        driver.stream(3, Request::Upgrade(legacy(&factory("v1.13.9"))));
        driver.secs(60);
        assert!(driver.world.kubernetes(worker).unwrap().unschedulable);
        driver.until("down", 130, |driver| !driver.world.is_reachable(worker));
        driver.until("ready", 300, |driver| driver.is_ready(3));
        let after = driver.world.kubernetes(worker).unwrap();
        assert_eq!(after.unschedulable, cordoned_before);
    }
}

#[test]
fn a_boot_that_never_ends_is_reverted() {
    let mut driver = Driver::new(3, 0, "1.13.9", "1.36.1");
    assert_eq!(pulled_and_installed(&mut driver, 0, &factory("v1.14.1")), 0);
    let _: machine::RebootResponse = driver.unary(0, REBOOT);
    // Without the other two there is no quorum, so etcd never gets healthy.
    for node in [1, 2] {
        driver.world.inject(driver.now, Some(NodeIndex(node)), &Fault::Partition);
    }
    driver.until("down", 20, |driver| !driver.world.is_reachable(NodeIndex(0)));
    driver.until("up", 90, |driver| driver.world.is_reachable(NodeIndex(0)));
    assert_eq!(driver.tag(0), "v1.14.1");
    driver.secs(60 * 69);
    assert_eq!(driver.tag(0), "v1.14.1");
    driver.secs(300);
    assert_eq!(driver.tag(0), "v1.13.9");
    driver.world.clear(driver.now, None, FaultKind::Partition);
    driver.until("ready", 300, |driver| driver.is_ready(0));
}
