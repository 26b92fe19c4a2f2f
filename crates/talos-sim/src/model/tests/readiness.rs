//! Machines that are not ready but work, and machines that boot by kexec only.

use talos_proto::machine;
use talos_proto::machine::reboot_request::Mode;

use super::super::*;
use super::driver::Driver;

const WORKER: usize = 3;

fn driver() -> Driver {
    Driver::new(3, 1, "1.13.9", "1.36.1")
}

fn reboot(driver: &mut Driver, mode: Mode) {
    let request = machine::RebootRequest { mode: mode.into() };
    let _ = driver.call(WORKER, Request::Reboot(request));
}

fn is_back(driver: &mut Driver, before: &str) -> bool {
    driver.world.is_reachable(NodeIndex(WORKER)) && driver.boot_id(WORKER) != before
}

fn works(driver: &Driver) -> bool {
    let node = driver.world.kubernetes(NodeIndex(WORKER)).unwrap();
    node.kubelet_up && node.ready
}

fn unmet(driver: &Driver) -> Vec<(&'static str, String)> {
    driver.world.truth(NodeIndex(WORKER)).unwrap().unmet()
}

#[test]
fn a_condition_stays_unmet_while_the_machine_works() {
    for (condition, reason) in [
        (Condition::Network, "waiting on: connectivity"),
        (Condition::Time, "time is not synced"),
        (Condition::Services, "ext-hello-world not healthy"),
    ] {
        let mut driver = driver();
        let node = Some(NodeIndex(WORKER));
        driver.world.inject(driver.now, node, &Fault::UnmetCondition { condition });
        let expected = [(condition.name(), reason.to_owned())];
        assert_eq!(unmet(&driver), expected);
        let before = driver.boot_id(WORKER);
        reboot(&mut driver, Mode::Default);
        driver.until("a boot", 300, |driver| is_back(driver, &before));
        driver.until("it works", 300, |driver| works(driver));
        assert_eq!(unmet(&driver), expected, "the same after its boot as before");
        assert!(!driver.is_ready(WORKER));
        driver.world.clear(driver.now, node, FaultKind::UnmetCondition);
        assert!(driver.is_ready(WORKER));
    }
}

#[test]
fn a_condition_is_unmet_from_the_next_boot_on() {
    let mut driver = driver();
    let node = Some(NodeIndex(WORKER));
    let fault = Fault::UnmetAfterBoot { condition: Condition::Network };
    driver.world.inject(driver.now, node, &fault);
    assert!(driver.is_ready(WORKER));
    let before = driver.boot_id(WORKER);
    reboot(&mut driver, Mode::Default);
    driver.until("a boot", 300, |driver| is_back(driver, &before));
    driver.until("it works", 300, |driver| works(driver));
    assert_eq!(unmet(&driver).len(), 1);
    driver.world.clear(driver.now, node, FaultKind::UnmetAfterBoot);
    assert!(driver.is_ready(WORKER));
}

#[test]
fn a_kexec_only_machine_stays_down_after_a_power_cycle() {
    // talos#14146: everything works until it boots through its firmware.
    let mut driver = driver();
    let node = NodeIndex(WORKER);
    driver.world.inject(driver.now, Some(node), &Fault::KexecOnly);
    let before = driver.boot_id(WORKER);
    reboot(&mut driver, Mode::Default);
    driver.until("a boot", 300, |driver| is_back(driver, &before));
    driver.until("it is ready", 300, |driver| driver.is_ready(WORKER));
    assert!(driver.world.truth(node).unwrap().booted_by_kexec());
    let before = driver.boot_id(WORKER);
    for mode in [Mode::Powercycle, Mode::Force] {
        reboot(&mut driver, mode);
        driver.secs(3_600);
        assert!(!driver.world.is_reachable(node), "{mode:?}");
        driver.world.clear(driver.now, Some(node), FaultKind::KexecOnly);
        driver.until("a boot", 300, |driver| is_back(driver, &before));
        driver.until("it is ready", 300, |driver| driver.is_ready(WORKER));
        assert!(!driver.world.truth(node).unwrap().booted_by_kexec());
        driver.world.inject(driver.now, Some(node), &Fault::KexecOnly);
    }
}
