//! Installers for another platform, for another kind of boot, and containers (rule 4).

use talos_proto::machine;

use super::super::*;
use super::driver::Driver;
use super::lifecycle::{REBOOT, install, pull, pulled_and_installed};

fn driver(talos: &str, change: impl Fn(&mut NodeSpec)) -> Driver {
    let mut spec = ClusterSpec::new(1, 1, &talos.parse().unwrap(), &Version::new(1, 34, 2));
    spec.nodes.iter_mut().for_each(change);
    Driver::with(&spec, 0)
}

fn nocloud(node: &mut NodeSpec) {
    node.platform = "nocloud".to_owned();
}

fn factory(kind: &str, version: &str) -> String {
    format!("factory.talos.dev/{kind}/{EMPTY_SCHEMATIC}:{version}")
}

fn platform(driver: &mut Driver) -> (String, String) {
    let answer: machine::VersionResponse = driver.unary(1, Request::Version);
    let platform = answer.messages[0].platform.clone().unwrap();
    (platform.name, platform.mode)
}

fn upgraded(driver: &mut Driver, image: &str, seconds: u64) -> bool {
    assert_eq!(pulled_and_installed(driver, 1, image), 0);
    let _: machine::RebootResponse = driver.unary(1, REBOOT);
    driver.until("down", 30, |driver| !driver.world.is_reachable(NodeIndex(1)));
    driver.secs(seconds);
    driver.world.is_reachable(NodeIndex(1))
}

#[test]
fn nodes_report_their_platform_and_the_matching_installer() {
    let mut world = driver("1.13.9", nocloud);
    assert_eq!(platform(&mut world), ("nocloud".to_owned(), "cloud".to_owned()));
    let image = world.world.install_image_of(NodeIndex(1)).unwrap();
    assert_eq!(image, factory("nocloud-installer", "v1.13.9"));
    assert!(upgraded(&mut world, &factory("nocloud-installer", "v1.14.1"), 300));
    assert_eq!(platform(&mut world).0, "nocloud");
    assert_eq!(platform(&mut driver("1.13.9", |_| {})).1, "metal");
}

#[test]
fn an_installer_for_another_platform_loses_the_network() {
    let mut world = driver("1.13.9", nocloud);
    assert!(!upgraded(&mut world, &factory("metal-installer", "v1.14.1"), 3_600));
    let truth = world.world.truth(NodeIndex(1)).unwrap();
    assert!(truth.is_on() && !truth.is_running() && truth.runs_as() == "metal");
    // The boot times out, and Talos reverts it.
    world.secs(1_200);
    assert!(world.world.is_reachable(NodeIndex(1)));
    assert_eq!(world.tag(1), "v1.13.9");
    // GRUB keeps the machine's own command line.
    let mut spec = ClusterSpec::new(1, 1, &Version::new(1, 13, 9), &Version::new(1, 34, 2));
    spec.nodes.iter_mut().for_each(nocloud);
    spec.grub = true;
    let mut world = Driver::with(&spec, 0);
    assert!(upgraded(&mut world, &factory("metal-installer", "v1.14.1"), 300));
    assert_eq!(platform(&mut world).0, "nocloud");
}

#[test]
fn firmware_with_secure_boot_boots_signed_images_only() {
    let secure = |node: &mut NodeSpec| node.secure_boot = true;
    let mut world = driver("1.13.9", secure);
    let state = world.get(1, "SecurityStates.talos.dev", "runtime", "securitystate").unwrap();
    assert!(state.spec.unwrap().yaml_spec.contains("secureBoot: true"));
    assert!(upgraded(&mut world, &factory("metal-installer-secureboot", "v1.14.1"), 300));
    let mut world = driver("1.13.9", secure);
    assert!(!upgraded(&mut world, &factory("metal-installer", "v1.14.1"), 10_000));
    assert!(!world.world.truth(NodeIndex(1)).unwrap().is_on());
    // Without Secure Boot a signed image boots as well.
    let mut world = driver("1.13.9", |_| {});
    assert!(upgraded(&mut world, &factory("metal-installer-secureboot", "v1.14.1"), 300));
}

#[test]
fn containers_cannot_be_upgraded_or_rebooted() {
    let container = |node: &mut NodeSpec| node.platform = "container".to_owned();
    let mut world = driver("1.13.9", container);
    assert_eq!(platform(&mut world).1, "container");
    let image = factory("metal-installer", "v1.14.1");
    world.stream(1, pull(&image));
    world.secs(60);
    let legacy = machine::UpgradeRequest { image: image.clone(), ..Default::default() };
    for request in [install(&image), Request::Upgrade(legacy), REBOOT] {
        let status = world.error(1, request);
        assert_eq!(status.code, Code::FailedPrecondition);
        assert!(status.message.ends_with("not supported in container mode"), "{status}");
    }
}

#[test]
fn a_custom_installer_brings_its_extensions() {
    let mut spec = ClusterSpec::new(1, 1, &Version::new(1, 13, 9), &Version::new(1, 34, 2));
    let own = OwnInstaller {
        platform: "metal".to_owned(),
        secure_boot: false,
        extensions: vec!["siderolabs/iscsi-tools".to_owned()],
    };
    spec.registry.own.insert("registry.example/talos/installer".to_owned(), own);
    for node in &mut spec.nodes {
        node.schematic = None;
        node.install_image = Some("registry.example/talos/installer:v1.13.9".to_owned());
    }
    let mut world = Driver::with(&spec, 0);
    let extensions = |driver: &Driver| driver.world.truth(NodeIndex(1)).unwrap().extensions().len();
    assert_eq!(extensions(&world), 1);
    assert!(upgraded(&mut world, "registry.example/talos/installer:v1.14.1", 300));
    assert_eq!(extensions(&world), 1);
    assert_eq!(world.world.truth(NodeIndex(1)).unwrap().installed().schematic, None);
}
