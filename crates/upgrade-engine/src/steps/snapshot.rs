//! Takes an etcd snapshot off the cluster (rule 3).

use upgrade_core::mutant::{self, Mutant};
use upgrade_core::reason::Failure;

use super::{Done, Step};
use crate::io::Io;
use crate::snapshots::take_from_any;

/// Runs the step. A second snapshot is harmless; the newest are kept.
pub(crate) async fn run<I: Io>(step: &Step<I>) -> Result<Done, Failure> {
    if mutant::is(Mutant::SnapshotSkipped) {
        return Ok(Done::Skipped("as the mutant wants it".to_owned()));
    }
    let (cluster, keep) = (&step.plan.cluster, step.plan.policy.snapshot.keep);
    let members = step.control_planes();
    let permitted = || step.permitted();
    take_from_any(&*step.io, cluster, members, keep, step, permitted).await.map(Done::Proved)
}
