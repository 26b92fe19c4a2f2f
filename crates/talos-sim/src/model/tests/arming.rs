//! What installers do to the slots, how a node shows it, and how long pulled images last.

use talos_proto::machine;
use talos_proto::machine::image_service_pull_response::Response as Pulled;
use talos_proto::machine::lifecycle_service_install_progress::Response as Progress;

use super::super::*;
use super::driver::Driver;
use super::lifecycle::{REBOOT, exit_code, factory, install, pull, pulled_and_installed};

const DEFAULT: &str =
    "/sys/firmware/efi/efivars/LoaderEntryDefault-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

fn read(path: &str) -> Request {
    Request::Read(machine::ReadRequest { path: path.to_owned() })
}

/// The value of the EFI variable.
fn default_entry(driver: &mut Driver) -> String {
    let Reply::Items(items) = driver.call(0, read(DEFAULT)) else { panic!("no variable") };
    let [Response::Data(data)] = items.as_slice() else { panic!("{items:?}") };
    assert_eq!(data.bytes[..4], [7, 0, 0, 0], "attributes");
    let units = data.bytes[4..].chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let units: Vec<u16> = units.collect();
    assert_eq!(units.last(), Some(&0));
    String::from_utf16(&units[..units.len() - 1]).unwrap()
}

fn booted_entry(driver: &mut Driver) -> String {
    let entry = driver.get(0, "BootedEntries.talos.dev", "runtime", "bootedentry").unwrap();
    entry.spec.unwrap().yaml_spec.trim().trim_start_matches("bootedEntry: ").to_owned()
}

fn pinned(driver: &mut Driver, image: &str) -> String {
    let stream = driver.stream(0, pull(image));
    driver.secs(60);
    let items: Vec<machine::ImageServicePullResponse> = driver.items(stream);
    match items.last().and_then(|item| item.response.clone()) {
        Some(Pulled::Name(name)) => name,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_second_installer_deletes_the_running_slot() {
    // Rule 5: sdboot.go and grub/upgrade.go key on the default.
    for grub in [false, true] {
        let mut spec = ClusterSpec::new(1, 0, &Version::new(1, 13, 9), &Version::new(1, 36, 1));
        spec.grub = grub;
        let mut driver = Driver::with(&spec, 0);
        let keeps =
            |driver: &Driver| driver.world.truth(NodeIndex(0)).unwrap().keeps_running_slot();
        assert_eq!(pulled_and_installed(&mut driver, 0, &factory("v1.14.1")), 0);
        assert!(keeps(&driver));
        assert_eq!(pulled_and_installed(&mut driver, 0, &factory("v1.14.1")), 0);
        assert!(!keeps(&driver), "the working slot is gone");
        // A rollback goes to a copy of the new version that never booted.
        let _ = driver.call(0, Request::Rollback(machine::RollbackRequest::default()));
        driver.until("down", 30, |driver| !driver.world.is_reachable(NodeIndex(0)));
        driver.until("up", 120, |driver| driver.world.is_reachable(NodeIndex(0)));
        assert_eq!(driver.tag(0), "v1.14.1");
    }
}

#[test]
fn a_version_that_does_not_boot_needs_the_good_slot() {
    for twice in [false, true] {
        let mut driver = Driver::new(1, 0, "1.13.9", "1.36.1");
        for _ in 0..=usize::from(twice) {
            assert_eq!(pulled_and_installed(&mut driver, 0, &factory("v1.14.1")), 0);
        }
        let now = driver.world.now();
        driver.world.inject(now, Some(NodeIndex(0)), &Fault::BootBack);
        let _: machine::RebootResponse = driver.unary(0, REBOOT);
        driver.secs(600);
        let back = driver.world.is_reachable(NodeIndex(0));
        assert_eq!(back, !twice, "twice: {twice}");
    }
}

#[test]
fn systemd_boot_shows_the_next_entry_and_grub_does_not() {
    let mut driver = Driver::new(1, 0, "1.13.9", "1.36.1");
    assert_eq!(booted_entry(&mut driver), "Talos-v1.13.9.efi");
    assert_eq!(default_entry(&mut driver), "Talos-v1.13.9.efi");
    assert_eq!(pulled_and_installed(&mut driver, 0, &factory("v1.14.1")), 0);
    assert_eq!(booted_entry(&mut driver), "Talos-v1.13.9.efi");
    assert_eq!(default_entry(&mut driver), "Talos-v1.14.1.efi");
    let mut spec = ClusterSpec::new(1, 0, &Version::new(1, 13, 9), &Version::new(1, 36, 1));
    spec.grub = true;
    let mut driver = Driver::with(&spec, 0);
    assert_eq!(driver.error(0, read(DEFAULT)).code, Code::NotFound);
    let entry = driver.get(0, "BootedEntries.talos.dev", "runtime", "bootedentry");
    assert_eq!(entry.unwrap_err().code, Code::NotFound);
}

#[test]
fn an_installer_has_a_process_while_it_runs_and_sends_pieces() {
    let mut driver = Driver::new(1, 0, "1.13.9", "1.36.1");
    let image = factory("v1.14.1");
    let name = pinned(&mut driver, &image);
    let pid = |driver: &mut Driver| {
        driver.get(0, "ServicePIDs.runtime.talos.dev", "runtime", "installer").map(|_| ())
    };
    assert_eq!(pid(&mut driver).unwrap_err().code, Code::NotFound);
    let stream = driver.stream(0, install(&name));
    driver.secs(2);
    assert_eq!(pid(&mut driver), Ok(()));
    assert_eq!(driver.error(0, install(&name)).code, Code::FailedPrecondition);
    driver.secs(60);
    assert_eq!(pid(&mut driver).unwrap_err().code, Code::NotFound);
    assert_eq!(exit_code(&driver, stream), Some(0));
    let items: Vec<machine::LifecycleServiceUpgradeResponse> = driver.items(stream);
    let pieces: Vec<String> = items
        .into_iter()
        .filter_map(|item| match item.progress?.response? {
            Progress::Message(piece) => Some(piece),
            Progress::ExitCode(_) => None,
        })
        .collect();
    assert!(pieces.iter().all(|piece| piece.len() <= 512));
    assert!(pieces.iter().any(|piece| !piece.ends_with('\n')), "cut anywhere: {pieces:?}");
    let text = pieces.concat();
    assert!(text.lines().any(|line| line == "updating META"), "{text}");
}

#[test]
fn an_installer_may_fail_after_it_has_switched_the_default() {
    let mut driver = Driver::new(1, 0, "1.13.9", "1.36.1");
    for (fault, entry) in [
        (Fault::InstallerExit { code: 7 }, "Talos-v1.13.9.efi"),
        (Fault::InstallerExitLate { code: 7 }, "Talos-v1.14.1.efi"),
    ] {
        let now = driver.world.now();
        driver.world.inject(now, None, &fault);
        assert_eq!(pulled_and_installed(&mut driver, 0, &factory("v1.14.1")), 7);
        assert_eq!(default_entry(&mut driver), entry);
        let now = driver.world.now();
        driver.world.clear(now, None, fault.kind());
    }
}

#[test]
fn unused_images_are_collected_after_an_hour() {
    let mut driver = Driver::new(1, 0, "1.13.9", "1.36.1");
    let image = factory("v1.14.1");
    let name = pinned(&mut driver, &image);
    assert!(name.contains("@sha256:") && !name.contains(":v1"), "{name}");
    driver.secs(55 * 60);
    assert_eq!(pinned(&mut driver, &image), name, "it is still there");
    driver.secs(25 * 60);
    for name in [&name, &image] {
        let status = driver.error(0, install(name));
        assert_eq!(status.code, Code::Internal);
        assert!(status.message.contains("not found in containerd store"), "{}", status.message);
    }
    let kubelet = |image: &StoredReference| image.contains("kubelet");
    assert!(stored(&mut driver).iter().any(kubelet), "images in use stay");
    assert_eq!(pinned(&mut driver, &image), name, "the same again");
    let stream = driver.stream(0, install(&name));
    driver.secs(30);
    assert_eq!(exit_code(&driver, stream), Some(0));
}

type StoredReference = String;

fn stored(driver: &mut Driver) -> Vec<StoredReference> {
    let namespace = talos_proto::common::ContainerdNamespace::NsSystem.into();
    let list = Request::ImageList(machine::ImageListRequest { namespace });
    let Reply::Items(items) = driver.call(0, list) else { panic!("no images") };
    items.into_iter().map(|item| machine::ImageListResponse::try_from(item).unwrap().name).collect()
}

#[test]
fn a_tag_that_has_moved_is_not_pulled_again() {
    let mut driver = Driver::new(1, 0, "1.13.9", "1.36.1");
    let image = factory("v1.14.1");
    let name = pinned(&mut driver, &image);
    let other = Schematic { yaml: String::new(), extensions: vec!["siderolabs/gvisor".to_owned()] };
    driver.world.add_schematic(EMPTY_SCHEMATIC.to_owned(), other);
    assert_eq!(pinned(&mut driver, &image), name, "the node has that tag");
    driver.secs(100 * 60);
    assert_ne!(pinned(&mut driver, &image), name, "the tag has moved");
}
