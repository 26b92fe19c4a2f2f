//! The first half of every plan: observe all of the cluster, again while something is
//! missing. The other half, plan and check, is pure: `upgrade_planner::prepare`.

use std::collections::BTreeSet;

use upgrade_core::observation::Observation;
use upgrade_core::snapshot::{Fact, NodeName};
use upgrade_core::workload::Workloads;
use upgrade_planner::prepare::observe_again;

use crate::io::{Clock as _, Io, Kubernetes, Trouble};
use crate::manifests::observe_manifests;
use crate::observe::snapshot;

/// Observes all that a plan needs, again while something is missing that another look may
/// show. `foreign` are the nodes that the user says have no machine, `pool_label` is the node
/// label that names the pool of a worker.
pub async fn observe_whole<I: Io>(
    io: &I,
    foreign: &BTreeSet<NodeName>,
    pool_label: &str,
) -> Result<Observation, Trouble> {
    let mut looks = 1;
    loop {
        let seen = observe_all(io, pool_label).await;
        let Some(pause) = observe_again(seen.as_ref().ok(), foreign, looks) else {
            return seen;
        };
        looks += 1;
        io.clock().sleep(pause).await;
    }
}

/// Observes all that a plan needs, once.
pub async fn observe_all<I: Io>(io: &I, pool_label: &str) -> Result<Observation, Trouble> {
    let _turn = io.turn().await;
    // Boxed: each asks many at once, and is large.
    let (snapshot, workloads, manifests) = tokio::join!(
        Box::pin(snapshot(io, pool_label)),
        Box::pin(observe_workloads(io.kubernetes())),
        Box::pin(observe_manifests(io)),
    );
    Ok(Observation { snapshot: snapshot?, workloads, manifests })
}

/// Everything that runs, for simulating drains and for checking health.
pub async fn observe_workloads<K: Kubernetes>(kubernetes: &K) -> Fact<Workloads> {
    let seen = tokio::try_join!(kubernetes.pods(None), kubernetes.budgets(), kubernetes.capacity());
    match seen {
        Ok((pods, budgets, capacity)) => Fact::Known(Workloads { pods, budgets, capacity }),
        Err(trouble) => Fact::Unknown(trouble.to_string()),
    }
}
