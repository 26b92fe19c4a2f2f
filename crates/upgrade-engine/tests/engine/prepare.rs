//! What a plan is made on: observed again while something is missing, and not without end
//! (rules 10 and 11).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use upgrade_core::observation::Observation;
use upgrade_core::policy::POOL_LABEL;
use upgrade_core::snapshot::NodeName;
use upgrade_engine::io::IoError;
use upgrade_engine::observe_whole;

use crate::common::{Sim, World, seconds};

const NONE: BTreeSet<NodeName> = BTreeSet::new();

/// What is observed, and how many whole seconds it takes.
async fn observed(
    world: &Arc<World>,
    foreign: &BTreeSet<NodeName>,
) -> (Result<Observation, IoError>, i64) {
    let began = world.now();
    let seen = observe_whole(&**world, foreign, POOL_LABEL).await;
    (seen, world.now().duration_since(began).as_secs())
}

#[tokio::test(start_paused = true)]
async fn a_whole_cluster_is_observed_once() {
    let world = World::new(3, 2, "1.13.1");
    let (seen, took) = observed(&world, &NONE).await;
    let seen = seen.unwrap();
    assert!(!seen.has_gaps(&NONE));
    assert_eq!(took, 0);
    assert_eq!(seen.workloads.known().map(|it| it.pods.len()), Some(2));
    assert_eq!(seen.snapshot.nodes.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_broke_for_a_moment_is_no_gap() {
    let world = World::new(3, 2, "1.13.1");
    world.change(|cluster| cluster.sim(&"worker-1".into()).answers = false);
    let later = Arc::clone(&world);
    tokio::spawn(async move {
        seconds(2).await;
        later.change(|cluster| cluster.sim(&"worker-1".into()).answers = true);
    });
    let (seen, took) = observed(&world, &NONE).await;
    assert!(!seen.unwrap().has_gaps(&NONE));
    assert!((2..=3).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn what_stays_away_is_unknown_after_five_observations() {
    // Rules 10 and 11. A worker that answers and is not Ready can be planned around; a
    // control plane that does not serve may be starting.
    type Change = fn(&mut Sim);
    let cases: [(&str, Change, i64); 4] = [
        ("worker-1", |sim| sim.answers = false, 4),
        ("worker-1", |sim| sim.node_ready = false, 0),
        ("cp-2", |sim| sim.node_ready = false, 4),
        ("cp-2", |sim| sim.api = false, 4),
    ];
    for (node, change, pauses) in cases {
        let world = World::new(3, 2, "1.13.1");
        world.change(|cluster| change(cluster.sim(&node.into())));
        let (seen, took) = observed(&world, &NONE).await;
        assert_eq!(seen.unwrap().has_gaps(&NONE), pauses > 0, "{node}");
        assert_eq!(took, pauses, "{node}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_long_wait_where_calls_were_repeated_already() {
    // Rule 11: the Kubernetes API, or the list of machines.
    let world = World::new(3, 0, "1.13.1");
    // Set directly: `change` is for what a run may do, and no run may do this.
    world.cluster().nodes.values_mut().for_each(|sim| sim.api = false);
    let (seen, took) = observed(&world, &NONE).await;
    assert!(seen.unwrap().lacks_api());
    assert_eq!(took, 1);
    let world = World::new(3, 0, "1.13.1");
    world.change(|cluster| cluster.dark = true);
    let (seen, took) = observed(&world, &NONE).await;
    assert!(seen.is_err());
    assert_eq!(took, 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_the_user_calls_foreign_is_no_gap() {
    let world = World::new(1, 1, "1.13.1");
    world.cluster().hidden = BTreeMap::from([("worker-1".into(), false)]);
    assert_eq!(observed(&world, &NONE).await.1, 4);
    let foreign = BTreeSet::from(["worker-1".into()]);
    let (seen, took) = observed(&world, &foreign).await;
    assert!(!seen.unwrap().has_gaps(&foreign));
    assert_eq!(took, 0);
}

#[tokio::test(start_paused = true)]
async fn the_pool_of_a_node_is_what_the_label_of_the_policy_says() {
    // Rule 6: with another label the limit of a pool would count for no node.
    let world = World::new(1, 2, "1.13.1");
    world.change(|cluster| cluster.sim(&"worker-1".into()).pool = Some("gpu".to_owned()));
    let pool = async |label: &str| {
        let seen = observe_whole(&*world, &NONE, label).await.unwrap();
        seen.snapshot.nodes[&"worker-1".into()].pool.clone()
    };
    assert_eq!(pool(POOL_LABEL).await.as_deref(), Some("gpu"));
    assert_eq!(pool("example.com/pool").await, None);
}
