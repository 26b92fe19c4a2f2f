//! The first half of every plan: observe the whole cluster, again while something is missing. The
//! other half, plan and check, is pure: `upgrade_planner::prepare`.

use std::collections::BTreeSet;

use upgrade_core::observation::Observation;
use upgrade_core::snapshot::{Fact, NodeName};
use upgrade_core::workload::Workloads;
use upgrade_planner::prepare::observe_again;

use crate::io::{Clock as _, Io, IoError, Kubernetes};
use crate::manifests::observe_manifests;
use crate::observe::snapshot;

/// Observes all that a plan needs, again while something is missing that another observation may
/// show. `foreign` are the nodes that the user says have no machine, `pool_label` is the node label
/// that names the pool of a worker.
pub async fn observe_whole<I: Io>(
    io: &I,
    foreign: &BTreeSet<NodeName>,
    pool_label: &str,
) -> Result<Observation, IoError> {
    let mut attempts = 1;
    loop {
        let observed = observe_all(io, pool_label).await;
        let Some(pause) = observe_again(observed.as_ref().ok(), foreign, attempts) else {
            return observed;
        };
        attempts += 1;
        io.clock().sleep(pause).await;
    }
}

/// Observes all that a plan needs, once.
pub async fn observe_all<I: Io>(io: &I, pool_label: &str) -> Result<Observation, IoError> {
    let _permit = io.observe_permit().await;
    // Boxed: these futures are large.
    let (snapshot, workloads, manifests) = tokio::join!(
        Box::pin(snapshot(io, pool_label)),
        Box::pin(observe_workloads(io.kubernetes())),
        Box::pin(observe_manifests(io)),
    );
    Ok(Observation { snapshot: snapshot?, workloads, manifests })
}

/// Pods, budgets and capacity, for simulating drains and for checking health.
pub async fn observe_workloads<K: Kubernetes>(kubernetes: &K) -> Fact<Workloads> {
    let seen = tokio::try_join!(kubernetes.pods(None), kubernetes.budgets(), kubernetes.capacity());
    match seen {
        Ok((pods, budgets, capacity)) => Fact::Known(Workloads { pods, budgets, capacity }),
        Err(error) => Fact::Unknown(error.to_string()),
    }
}
