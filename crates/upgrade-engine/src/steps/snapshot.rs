//! Takes an etcd snapshot off the cluster (rule 3).

use upgrade_core::guard;
use upgrade_core::mutant::Mutant;
use upgrade_core::reason::Failure;

use super::{Completion, Step};
use crate::io::Io;
use crate::snapshots::take_from_any;

/// A second snapshot is harmless; the newest are kept.
pub(crate) async fn run<I: Io>(step: &Step<I>) -> Result<Completion, Failure> {
    if !guard!(Mutant::SnapshotSkipped) {
        return Ok(Completion::Skipped("as the mutant wants it".to_owned()));
    }
    let (cluster, keep) = (&step.plan.cluster, step.plan.policy.snapshot.keep);
    let members = step.control_planes();
    let permitted = || step.permitted();
    take_from_any(&*step.io, cluster, members, keep, step, permitted).await.map(Completion::Proved)
}
