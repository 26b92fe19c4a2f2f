//! What happens during a suspension, and which changes are worth saving.

use kube_sim::names::{LEASES, NODES};
use kube_sim::object;
use upgrade_core::version::Version;

use super::*;
use crate::model::ClusterSpec;

fn cluster() -> (World, Kubernetes) {
    let spec = ClusterSpec::new(1, 2, &Version::new(1, 13, 9), &Version::new(1, 34, 2));
    let mut world = World::new(&spec, 0, Time::from_secs(1_800_000_000));
    let mut kubernetes = Kubernetes::new(&world, 0, &[]).unwrap();
    let now = world.now();
    kubernetes.follow(&mut world, now);
    (world, kubernetes)
}

/// The number of lease changes since a revision, and of all changes.
fn changes(kubernetes: &Kubernetes, since: u64) -> (usize, u64) {
    let store = kubernetes.api().store();
    let changes = store.changes_since(since).expect("the history is available");
    let leases = changes.filter(|change| change.resource == LEASES).count();
    (leases, store.revision() - since)
}

#[test]
fn after_a_suspension_leases_are_renewed_once() {
    let (mut world, mut kubernetes) = cluster();
    let before = kubernetes.api().store().revision();
    let later = world.now().plus(Duration::from_hours(1));
    world.advance(later);
    kubernetes.resume(&mut world, later);
    let (leases, all) = changes(&kubernetes, before);
    assert_eq!(leases, 3);
    assert!(all < 12, "{all} changes");
    for node in kubernetes.api().store().list(&NODES, None) {
        let conditions = object::list(node, &["status", "conditions"]);
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
        assert_eq!(ready.expect("a condition")["status"], "True", "{node}");
    }
}

#[test]
fn lease_renewals_alone_are_not_saved() {
    let (mut world, mut kubernetes) = cluster();
    let before = kubernetes.api().store().revision();
    let kept = kubernetes.api().store().revision_to_keep();
    let touched = world.touched();
    let later = world.now().plus(Duration::from_secs(35));
    kubernetes.advance(&mut world, later);
    let (leases, _) = changes(&kubernetes, before);
    assert!(leases >= 6, "{leases} renewals");
    assert_eq!(kubernetes.api().store().revision_to_keep(), kept);
    assert_eq!(world.touched(), touched);
}
