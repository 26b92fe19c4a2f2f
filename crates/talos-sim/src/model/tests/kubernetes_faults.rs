//! Faults of Kubernetes, as far as they involve the nodes.

use std::time::Duration;

use talos_proto::machine;

use super::super::*;
use super::driver::Driver;

fn reboot(driver: &mut Driver, node: usize) {
    let before = driver.boot_id(node);
    let _ = driver.call(node, Request::Reboot(machine::RebootRequest { mode: 0 }));
    driver.until("it is back", 600, |driver| {
        driver.world.is_reachable(NodeIndex(node)) && driver.boot_id(node) != before
    });
}

fn kubelet_up(driver: &Driver, node: usize) -> bool {
    driver.world.kubernetes(NodeIndex(node)).unwrap().kubelet_up
}

#[test]
fn a_kubelet_that_never_returns_keeps_its_node_from_being_ready() {
    let mut driver = Driver::new(3, 1, "1.13.9", "1.36.1");
    let node = Some(NodeIndex(3));
    driver.world.inject(driver.now, node, &Fault::KubeletNeverReturns);
    assert!(driver.is_ready(3), "nothing happens before it stops");
    assert!(kubelet_up(&driver, 3));
    reboot(&mut driver, 3);
    driver.secs(600);
    assert!(!kubelet_up(&driver, 3));
    assert!(!driver.is_ready(3), "the machine runs, and is not ready");
    driver.world.clear(driver.now, node, FaultKind::KubeletNeverReturns);
    driver.until("it is ready", 120, |driver| driver.is_ready(3) && kubelet_up(driver, 3));
}

#[test]
fn a_control_plane_without_a_kubelet_has_no_static_pods() {
    let mut driver = Driver::new(3, 0, "1.13.9", "1.36.1");
    let node = NodeIndex(2);
    driver.world.inject(driver.now, Some(node), &Fault::KubeletNeverReturns);
    reboot(&mut driver, 2);
    driver.secs(600);
    assert!(!driver.world.api_server_runs(node));
    assert!(driver.world.kubernetes_api_is_up(), "the others keep running");
    driver.world.clear(driver.now, Some(node), FaultKind::KubeletNeverReturns);
    driver.until("its API server runs", 120, |driver| driver.world.api_server_runs(node));
    driver.until("it is ready", 120, |driver| driver.is_ready(2));
}

#[test]
fn a_restarted_kubelet_that_never_returns() {
    let mut driver = Driver::new(1, 1, "1.13.9", "1.36.1");
    let node = Some(NodeIndex(1));
    driver.world.inject(driver.now, node, &Fault::KubeletNeverReturns);
    let request = machine::ServiceRestartRequest { id: "kubelet".to_owned() };
    let _ = driver.call(1, Request::ServiceRestart(request));
    driver.secs(60);
    assert!(!kubelet_up(&driver, 1));
    driver.world.clear(driver.now, node, FaultKind::KubeletNeverReturns);
    driver.until("it is back", 60, |driver| kubelet_up(driver, 1));
    driver.until("it is ready", 60, |driver| driver.is_ready(1));
}

#[test]
fn every_nth_request_is_refused() {
    let mut driver = Driver::new(2, 0, "1.13.9", "1.36.1");
    let (here, there) = (NodeIndex(0), NodeIndex(1));
    let codes = |driver: &mut Driver, node| -> Vec<Option<u16>> {
        (0..6).map(|_| driver.world.api_trouble(node).refusal).collect()
    };
    driver.world.inject(driver.now, Some(here), &Fault::ApiThrottles { every: 2 });
    driver.world.inject(driver.now, Some(here), &Fault::ApiErrors { every: 3 });
    let refused = [None, Some(429), Some(500), Some(429), None, Some(429)];
    assert_eq!(codes(&mut driver, here), refused);
    assert_eq!(codes(&mut driver, there), [None; 6]);
    let late = Duration::from_secs(3);
    driver.world.inject(driver.now, Some(there), &Fault::ApiLatency { by: late });
    let trouble = driver.world.api_trouble(there);
    assert_eq!(trouble, ApiTrouble { refusal: None, delay: late });
    for kind in [FaultKind::ApiThrottles, FaultKind::ApiErrors, FaultKind::ApiLatency] {
        driver.world.clear(driver.now, None, kind);
    }
    assert_eq!(codes(&mut driver, here), [None; 6]);
    assert_eq!(driver.world.api_trouble(there), ApiTrouble::default());
}

#[test]
fn an_image_fails_by_its_prefix() {
    let mut driver = Driver::new(1, 1, "1.13.9", "1.36.1");
    let unpullable = |driver: &Driver| driver.world.kubernetes(NodeIndex(1)).unwrap().unpullable;
    assert!(unpullable(&driver).is_empty());
    let prefix = "example.com/web".to_owned();
    driver.world.inject(
        driver.now,
        Some(NodeIndex(1)),
        &Fault::FailingImage { prefix: prefix.clone() },
    );
    assert_eq!(unpullable(&driver), [prefix]);
    driver.world.inject(driver.now, None, &Fault::FailingPull);
    assert_eq!(unpullable(&driver).len(), 2);
    let node = driver.world.kubernetes(NodeIndex(1)).unwrap();
    assert!(!node.budgets_stuck && !node.volumes_stuck);
    driver.world.inject(driver.now, None, &Fault::StuckBudgets);
    driver.world.inject(driver.now, None, &Fault::StuckVolumes);
    let node = driver.world.kubernetes(NodeIndex(1)).unwrap();
    assert!(node.budgets_stuck && node.volumes_stuck);
}
