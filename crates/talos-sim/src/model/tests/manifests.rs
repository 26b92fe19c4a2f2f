//! Manifests beside Talos's own, and configurations that are not active.

use talos_proto::machine;
use talos_proto::machine::apply_configuration_request::Mode;

use super::super::*;
use super::driver::{Driver, version};

const URL: &str = "https://manifests.example/cni.yaml";

/// A control plane that downloads one file, and has another manifest as text.
fn with_extras() -> Driver {
    let mut spec = ClusterSpec::new(1, 0, &version("1.13.9"), &version("1.36.1"));
    let object = |name: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n---\n# nothing\n")
    };
    spec.files.insert(URL.to_owned(), object("downloaded"));
    let extra = |name: &str, text| ExtraManifest { name: name.to_owned(), text, only: None };
    spec.extra_manifests = vec![extra(URL, None), extra("mine", Some(object("inline")))];
    Driver::with(&spec, 1)
}

fn has(driver: &mut Driver, id: &str) -> bool {
    driver.get(0, "Manifests.kubernetes.talos.dev", "controlplane", id).is_ok()
}

fn reboot(driver: &mut Driver) {
    let before = driver.boot_id(0);
    let _ = driver.call(0, Request::Reboot(machine::RebootRequest { mode: 0 }));
    driver.until("it is ready", 600, |driver| {
        driver.world.is_reachable(NodeIndex(0)) && driver.boot_id(0) != before && driver.is_ready(0)
    });
}

#[test]
fn a_download_that_fails_leaves_no_manifest_on_a_ready_machine() {
    let mut driver = with_extras();
    let id = format!("99-{URL}");
    assert!(has(&mut driver, &id) && has(&mut driver, "99-mine"));
    let node = Some(NodeIndex(0));
    driver.world.inject(driver.now, node, &Fault::FailingManifest { now: false });
    assert!(has(&mut driver, &id), "a downloaded manifest stays until the next boot");
    reboot(&mut driver);
    assert!(!has(&mut driver, &id), "ready, and without it");
    assert!(has(&mut driver, "99-mine"), "inline text needs no download");
    let wanted = driver.get(
        0,
        "ExtraManifestsConfigs.kubernetes.talos.dev",
        "controlplane",
        "extra-manifests",
    );
    let yaml = wanted.unwrap().spec.unwrap().yaml_spec;
    assert!(yaml.contains(URL) && yaml.contains("mine"), "{yaml}");
    let truth = driver.world.wanted_objects(NodeIndex(0));
    assert!(truth.iter().any(|object| object["metadata"]["name"] == "downloaded"));
    driver.world.clear(driver.now, node, FaultKind::FailingManifest);
    driver.until("it is downloaded", 60, |driver| has(driver, &format!("99-{URL}")));
}

#[test]
fn disabled_components_are_not_rendered() {
    let mut driver = with_extras();
    let text = driver.world.config_of(NodeIndex(0)).to_owned();
    assert!(has(&mut driver, "10-kube-proxy") && has(&mut driver, "11-core-dns"));
    let off = text.replace(
        "    proxy:\n",
        "    coreDNS:\n        disabled: true\n    proxy:\n        disabled: true\n",
    );
    let request = machine::ApplyConfigurationRequest {
        data: off.into_bytes(),
        mode: Mode::NoReboot.into(),
        ..Default::default()
    };
    let _ = driver.call(0, Request::ApplyConfiguration(request));
    assert!(!has(&mut driver, "10-kube-proxy") && !has(&mut driver, "11-core-dns"));
    let images = driver.world.config_images_of(NodeIndex(0));
    assert!(!images.map(|(component, _)| component).any(|it| it == Component::Proxy));
}

#[test]
fn a_staged_configuration_is_shown_beside_the_active_one() {
    let mut driver = with_extras();
    let on_disk = |driver: &mut Driver| {
        let found = driver.get(0, "MachineConfigs.config.talos.dev", "config", "persistent");
        found.ok().map(|it| it.spec.unwrap().yaml_spec)
    };
    let text = driver.world.config_of(NodeIndex(0)).to_owned();
    assert_eq!(on_disk(&mut driver), None, "nothing was written since the boot");
    let other = text.replace("debug: false", "debug: true");
    let apply = |driver: &mut Driver, text: &str, mode: Mode| {
        let request = machine::ApplyConfigurationRequest {
            data: text.as_bytes().to_vec(),
            mode: mode.into(),
            ..Default::default()
        };
        let _ = driver.call(0, Request::ApplyConfiguration(request));
    };
    apply(&mut driver, &other, Mode::Staged);
    assert_eq!(on_disk(&mut driver), Some(other.clone()));
    assert_eq!(driver.world.config_of(NodeIndex(0)), text);
    reboot(&mut driver);
    assert_eq!(driver.world.config_of(NodeIndex(0)), other);
    assert_eq!(on_disk(&mut driver), None);
    apply(&mut driver, &text, Mode::NoReboot);
    assert_eq!(on_disk(&mut driver), Some(text.clone()));
    apply(&mut driver, &other, Mode::Try);
    assert_eq!(on_disk(&mut driver), Some(text), "the trial is not on disk");
}

/// As real nodes of both lines show them.
#[test]
fn pods_of_manifests_name_their_machines_from_talos_1_14_on() {
    for (talos, kubernetes, expected) in [("1.13.9", "1.35.4", false), ("1.14.1", "1.36.4", true)] {
        let mut driver = Driver::new(1, 0, talos, kubernetes);
        for id in ["10-kube-proxy", "11-core-dns"] {
            let found = driver.get(0, "Manifests.kubernetes.talos.dev", "controlplane", id);
            let yaml = found.unwrap().spec.unwrap().yaml_spec;
            assert_eq!(yaml.contains("nodeAffinity"), expected, "{talos} {id}");
            assert!(!yaml.contains("numberReady"), "{talos} {id}: a manifest has no status");
        }
    }
}
