//! `decide` driven through complete rolls in memory, with crashes between any
//! two journal entries, and through everything that may stop it.

mod failures;
mod gates;
mod rolls;

use upgrade_core::amount::Amount;
use upgrade_core::plan::Plan;
use upgrade_core::policy::Policy;
use upgrade_core::snapshot::Snapshot;

use crate::common::world::World;
use crate::common::{intent, plan_for, report_text, version};

fn policy(workers: usize) -> Policy {
    let mut policy = Policy::default();
    policy.workers.max_unavailable = Amount::Count(workers);
    policy
}

fn planned(
    snapshot: &Snapshot,
    talos: Option<&str>,
    kubernetes: Option<&str>,
    policy: &Policy,
) -> Plan {
    match plan_for(snapshot, &intent(talos, kubernetes), policy) {
        Ok(planned) => planned.plan,
        Err(report) => panic!("{}", report_text(&report)),
    }
}

fn world(
    snapshot: Snapshot,
    talos: Option<&str>,
    kubernetes: Option<&str>,
    policy: &Policy,
) -> World {
    let plan = planned(&snapshot, talos, kubernetes, policy);
    World::new(snapshot, plan)
}

fn assert_upgraded(world: &World, talos: &str, kubernetes: &str) {
    for (name, node) in &world.truth.nodes {
        assert_eq!(node.talos.known().unwrap().version, version(talos), "{name}");
        assert_eq!(node.kubernetes.known().unwrap().kubelet, version(kubernetes), "{name}");
    }
    assert!(world.cordoned().is_empty(), "rule 7: {:?}", world.cordoned());
    for ((hop, node), reboots) in &world.reboots {
        assert_eq!(*reboots, 1, "rule 8: {node} in hop {hop}\n{}", world.trace());
    }
}
