//! Takes an etcd snapshot off the cluster (rule 3).

use upgrade_core::mutant::{self, Mutant};
use upgrade_core::reason::{Failure, FailureKind};
use upgrade_core::snapshot::NodeName;

use super::{Done, Step};
use crate::io::{EtcdAdmin as _, Io, Machines as _};

/// Runs the step. One taken twice hurts nobody; the newest are kept.
pub(crate) async fn run<I: Io>(step: &Step<I>) -> Result<Done, Failure> {
    if mutant::is(Mutant::SnapshotSkipped) {
        return Ok(Done::Skipped("as the mutant wants it".to_owned()));
    }
    let mut members = step.control_planes();
    let etcd = step.io.machines().etcd(&members).await;
    let leader: Option<&NodeName> = etcd.known().and_then(|etcd| etcd.leader());
    // A follower has time for it; the leader is asked if no other answers.
    members.sort_by_key(|member| (Some(&member.name) == leader, member.clone()));
    let keep = step.plan.policy.snapshot.keep;
    let mut last = Failure::new(FailureKind::Unavailable, "no control plane is known to ask");
    for member in &members {
        let name = &member.name;
        step.say(format!("taking a snapshot from {name}"));
        step.permitted()?;
        match step.io.etcd().snapshot(member, keep, step).await {
            Ok(proof) => return Ok(Done::Proved(proof)),
            Err(trouble) => {
                step.say(format!("no snapshot from {name}: {trouble}"));
                let text = format!("no snapshot from {name}: {trouble}");
                last = Failure::new(trouble.failure.kind, &text);
            }
        }
    }
    Err(last)
}
