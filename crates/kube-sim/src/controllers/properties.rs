//! Property tests: invariants that hold in all random clusters.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::tests::{add, budget, deployment, facts, me, start};
use super::{Time, conditions, select};
use crate::kubelet::{Cluster, Timings};
use crate::names::{
    CONTROLLER_REVISIONS, DEPLOYMENTS, NODES, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS,
};
use crate::object;
use crate::store::{DeleteOptions, Store};

/// An action of a user.
#[derive(Clone, Debug)]
enum Act {
    Roll(usize),
    Drain(usize),
    Uncordon(usize),
    Wait(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        2 => (0..3_usize).prop_map(Act::Roll),
        3 => (0..4_usize).prop_map(Act::Drain),
        2 => (0..4_usize).prop_map(Act::Uncordon),
        3 => (1..20_u64).prop_map(Act::Wait),
    ];
    proptest::collection::vec(act, 1..12)
}

/// Random workloads: replicas and budget of each.
fn apps() -> impl Strategy<Value = Vec<(i64, &'static str, Value)>> {
    let rule = prop_oneof![
        (0..4_i64).prop_map(|least| ("minAvailable", json!(least))),
        (0..3_i64).prop_map(|most| ("maxUnavailable", json!(most))),
        (0..100_i64).prop_map(|percent| ("minAvailable", json!(format!("{percent}%")))),
        (0..100_i64).prop_map(|percent| ("maxUnavailable", json!(format!("{percent}%")))),
    ];
    proptest::collection::vec((1..7_i64, rule), 1..4).prop_map(|apps| {
        apps.into_iter().map(|(replicas, (field, value))| (replicas, field, value)).collect()
    })
}

fn name(app: usize) -> String {
    format!("app{app}")
}

fn world(seed: u64, apps: &[(i64, &'static str, Value)]) -> Cluster {
    let mut cluster = Cluster::new(seed, start(), Timings::default());
    cluster.sync(start(), &facts(4));
    for (app, (replicas, field, value)) in apps.iter().enumerate() {
        add(&mut cluster, deployment(&name(app), *replicas, "app:0"));
        add(&mut cluster, budget(&name(app), field, value));
    }
    wait(&mut cluster, 30);
    cluster
}

fn wait(cluster: &mut Cluster, seconds: u64) {
    let now: Time = cluster.server.store().now();
    cluster.advance(now.plus(std::time::Duration::from_secs(seconds)));
}

fn healthy(store: &Store, budget: &Value) -> i64 {
    let selector = object::at(budget, &["spec", "selector"]);
    let count = store
        .list(&PODS, Some("default"))
        .filter(|pod| {
            select::matches(selector, pod)
                && conditions::is_true(pod, "Ready")
                && !object::is_deleting(pod)
        })
        .count();
    i64::try_from(count).unwrap()
}

/// Evicts a pod; the pods left must satisfy their budget.
fn evict(cluster: &mut Cluster, pod: &Value) -> bool {
    let now = cluster.server.store().now();
    cluster.advance(now);
    let store = cluster.server.store_mut();
    let budgets: Vec<Value> = store
        .list(&POD_DISRUPTION_BUDGETS, Some("default"))
        .filter(|budget| select::matches(object::at(budget, &["spec", "selector"]), pod))
        .map(|budget| budget.as_ref().clone())
        .collect();
    let harmless = !conditions::is_true(pod, "Ready");
    let options = DeleteOptions::default();
    if let Err(status) = store.evict(&me(), "default", object::name(pod), &options) {
        assert_eq!(status.code, 429, "{status:?}");
        return false;
    }
    if harmless {
        return true;
    }
    for budget in &budgets {
        let desired = object::number(budget, &["status", "desiredHealthy"]).unwrap();
        let left = healthy(store, budget);
        assert!(left >= desired, "{left} of {desired} are left: {budget}");
    }
    true
}

fn pods_on(store: &Store, node: &str) -> Vec<Value> {
    store
        .list(&PODS, Some("default"))
        .filter(|pod| object::text(pod, &["spec", "nodeName"]) == node)
        .map(|pod| pod.as_ref().clone())
        .collect()
}

fn cordon(cluster: &mut Cluster, node: &str, is: bool) {
    let store = cluster.server.store_mut();
    let change = |node: &mut Value| object::set(node, &["spec", "unschedulable"], is);
    store.modify(&me(), &NODES, "", node, change).unwrap();
}

fn drain(cluster: &mut Cluster, node: &str) {
    cordon(cluster, node, true);
    for pod in pods_on(cluster.server.store(), node) {
        if !object::is_deleting(&pod) {
            evict(cluster, &pod);
        }
    }
}

fn act(cluster: &mut Cluster, apps: usize, act: &Act, turn: usize) {
    match act {
        Act::Roll(app) => {
            let store = cluster.server.store_mut();
            let image = json!(format!("app:{turn}"));
            store
                .modify(&me(), &DEPLOYMENTS, "default", &name(app % apps), |object| {
                    object["spec"]["template"]["spec"]["containers"][0]["image"] = image;
                })
                .unwrap();
        }
        Act::Drain(worker) => drain(cluster, &format!("w{worker}")),
        Act::Uncordon(worker) => cordon(cluster, &format!("w{worker}"), false),
        Act::Wait(seconds) => wait(cluster, *seconds),
    }
    let now = cluster.server.store().now();
    cluster.advance(now);
}

fn everything(store: &Store) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for kind in store.types().iter() {
        for object in store.list(&kind.name, None) {
            let key =
                format!("{} {}/{}", kind.name, object::namespace(object), object::name(object));
            all.insert(key, object.as_ref().clone());
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    #[test]
    fn every_rollout_completes_and_no_budget_is_violated(
        seed in any::<u64>(), apps in apps(), acts in acts(),
    ) {
        let mut cluster = world(seed, &apps);
        for (turn, one) in acts.iter().enumerate() {
            act(&mut cluster, apps.len(), one, turn + 1);
        }
        for worker in 0..4 {
            cordon(&mut cluster, &format!("w{worker}"), false);
        }
        wait(&mut cluster, 120);
        for (app, (replicas, ..)) in apps.iter().enumerate() {
            let found = cluster.server.store().get(&DEPLOYMENTS, "default", &name(app)).unwrap();
            for field in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"] {
                let count = object::number(found, &["status", field]).unwrap_or(0);
                prop_assert_eq!(count, *replicas, "{} of {}", field, found);
            }
            let generation = object::number(found, &["metadata", "generation"]);
            prop_assert_eq!(object::number(found, &["status", "observedGeneration"]), generation);
        }
    }

    #[test]
    fn a_drained_node_is_empty_and_its_pods_run_on_other_nodes(
        seed in any::<u64>(), replicas in 2..8_i64, worker in 0..4_usize,
    ) {
        let apps = [(replicas, "maxUnavailable", json!(1))];
        let mut cluster = world(seed, &apps);
        let node = format!("w{worker}");
        for _ in 0..60 {
            drain(&mut cluster, &node);
            wait(&mut cluster, 5);
        }
        prop_assert!(pods_on(cluster.server.store(), &node).is_empty());
        let found = cluster.server.store().get(&DEPLOYMENTS, "default", "app0").unwrap();
        prop_assert_eq!(object::number(found, &["status", "readyReplicas"]), Some(replicas));
    }

    #[test]
    fn deleted_owners_leave_no_dependents(seed in any::<u64>(), apps in apps(), acts in acts()) {
        let mut cluster = world(seed, &apps);
        for (turn, one) in acts.iter().enumerate() {
            act(&mut cluster, apps.len(), one, turn + 1);
        }
        for app in 0..apps.len() {
            let options = DeleteOptions::default();
            let store = cluster.server.store_mut();
            store.delete(&me(), &DEPLOYMENTS, "default", &name(app), &options).unwrap();
        }
        wait(&mut cluster, 60);
        for resource in [PODS, REPLICA_SETS, CONTROLLER_REVISIONS] {
            prop_assert_eq!(cluster.server.store().list(&resource, Some("default")).count(), 0);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_cluster(seed in any::<u64>(), apps in apps(), acts in acts()) {
        let mut worlds = [world(seed, &apps), world(seed, &apps)];
        for (turn, one) in acts.iter().enumerate() {
            for cluster in &mut worlds {
                act(cluster, apps.len(), one, turn + 1);
            }
        }
        let [one, two] = &worlds;
        prop_assert_eq!(one.server.store().revision(), two.server.store().revision());
        prop_assert_eq!(everything(one.server.store()), everything(two.server.store()));
    }
}
