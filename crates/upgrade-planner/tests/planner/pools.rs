//! Pools of workers have limits of their own (rule 6), by the node label that the policy
//! names.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use upgrade_core::amount::Amount;
use upgrade_core::matrix::Matrix;
use upgrade_core::plan::Plan;
use upgrade_core::policy::{Policy, Workers};
use upgrade_core::snapshot::{Role, Snapshot};
use upgrade_planner::check;

use crate::common::world::{End, World};
use crate::common::{cluster, intent, kubernetes, plan_for};

const LABEL: &str = "example.com/pool";

/// Three workers without a pool, three of the pool `gpu` and three of `db`.
fn pools() -> Snapshot {
    let mut snapshot = cluster(3, 9, "1.13.1", "1.34.2");
    for (number, pool) in (4..=9).zip(["gpu", "gpu", "gpu", "db", "db", "db"]) {
        let name = format!("worker-{number}");
        snapshot.nodes.get_mut(&name.as_str().into()).unwrap().pool = Some(pool.to_owned());
    }
    snapshot
}

fn planned(snapshot: &Snapshot) -> Plan {
    let pools = [("gpu", 1), ("db", 2)];
    let workers = Workers {
        max_unavailable: Amount::Count(3),
        pools: pools.map(|(pool, limit)| (pool.to_owned(), Amount::Count(limit))).into(),
        pool_label: LABEL.to_owned(),
    };
    let policy = Policy { workers, ..Policy::default() };
    let planned = plan_for(snapshot, &intent(Some("1.13.9"), None), &policy).unwrap();
    assert_eq!(check(&planned.plan, snapshot, &Matrix::builtin()), []);
    planned.plan
}

/// How many workers there are of each pool.
type Count = BTreeMap<Option<String>, usize>;

fn limits() -> Count {
    [(None, 3), (Some("gpu"), 1), (Some("db"), 2)]
        .map(|(pool, limit)| (pool.map(str::to_owned), limit))
        .into()
}

#[test]
fn two_pools_by_another_label_keep_their_own_limits() {
    let snapshot = pools();
    let plan = planned(&snapshot);
    assert_eq!(plan.policy.workers.pool_label, LABEL, "a resumed run counts the same nodes");
    let hop = &plan.hops[0];
    let shared = (None, hop.limit);
    let own = hop.pool_limits.iter().map(|(pool, limit)| (Some(pool.clone()), *limit));
    assert_eq!(own.chain([shared]).collect::<Count>(), limits());
    // While it runs, each pool uses all of its room and never more.
    let most = Rc::new(RefCell::new(Count::new()));
    let seen = Rc::clone(&most);
    let mut world = World::new(snapshot, plan);
    world.disturb = Some(Box::new(move |snapshot, _| {
        let workers = snapshot.nodes.values().filter(|node| node.role == Role::Worker);
        let mut away = Count::new();
        for node in workers.filter(|node| !node.is_up()) {
            *away.entry(node.pool.clone()).or_default() += 1;
        }
        let mut most = seen.borrow_mut();
        for (pool, count) in away {
            let most = most.entry(pool).or_default();
            *most = count.max(*most);
        }
    }));
    assert_eq!(world.run(), End::Done);
    assert_eq!(*most.borrow(), limits());
}

#[test]
fn a_worker_that_is_down_takes_the_room_of_its_own_pool() {
    let mut snapshot = pools();
    kubernetes(&mut snapshot, "worker-7").ready = false;
    let mut world = World::new(snapshot.clone(), planned(&snapshot));
    world.disturb = Some(Box::new(|snapshot, _| {
        let worker = |name: &str| &snapshot.nodes[&name.into()];
        let away = ["worker-7", "worker-8", "worker-9"].map(|name| !worker(name).is_up());
        assert!(away.into_iter().filter(|away| *away).count() <= 2, "pool db: {away:?}");
    }));
    assert_eq!(world.run(), End::Done);
}
