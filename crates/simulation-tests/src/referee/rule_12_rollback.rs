//! Rule 12, rollback: it waits for its own machine and for the rest of etcd, but for the health of
//! nothing else.

use upgrade_core::event::EventKind;
use upgrade_core::jiff::SignedDuration;
use upgrade_core::reason::{HaltReason, WaitReason};
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::Action;
use upgrade_engine::drive::End;

use super::driver::Driver;
use super::facts::{Member, Node};
use super::rule_13_versions::etcd_of;
use super::{Rule, Scene};
use crate::trace::{TraceEvent, TraceKind};

/// A process need not know yet that something is healthy if it is so for less than this.
const NEWS: SignedDuration = SignedDuration::from_secs(30);

pub(super) struct Rollbacks;

impl Rule for Rollbacks {
    fn number(&self) -> u8 {
        12
    }

    fn see(&mut self, seen: &TraceEvent, scene: &Scene<'_>, found: &mut Vec<String>) {
        let (runner, why) = match &seen.what {
            TraceKind::Reported { runner, event } => match &event.kind {
                EventKind::Waiting { why, .. } => (runner, Ok(why)),
                _ => return,
            },
            TraceKind::Ends { runner, end: Ok(End::Halted { reason, .. }) } => match reason {
                HaltReason::WaitedTooLong { waiting_for, .. } => (runner, Ok(waiting_for)),
                reason => (runner, Err(reason)),
            },
            _ => return,
        };
        let driver = scene.notes.drivers.get(runner).filter(|driver| driver.plan.rollback);
        let Some(driver) = driver else { return };
        match why {
            Ok(why) if is_held_up(why, driver, scene) => {
                found.push(format!("a rollback waits: {why}"));
            }
            // The policy decides about pods that do not leave.
            Err(why @ HaltReason::StepFailed { step, .. }) if step.action == Action::Cordon => {
                found.push(format!("a rollback was blocked: {why}"));
            }
            _ => {}
        }
    }
}

fn is_held_up(why: &WaitReason, driver: &Driver, scene: &Scene<'_>) -> bool {
    match why {
        WaitReason::NoRoom { .. } => true,
        WaitReason::ControlPlaneDown { down, .. } => {
            let node = scene.notes.facts.node(down);
            let well = node.is_some_and(|node| node.member.value == Member::Well);
            well && !scene.notes.is_disturbed(down)
        }
        // The machine answers, so Kubernetes is the unknown part.
        WaitReason::NodeUnknown { node, .. } => driver.answered_of(node),
        WaitReason::EtcdUnsafe { node, .. } => spares(node, driver, scene),
        _ => false,
    }
}

/// Whether all other members are healthy and known to be: then the broken member is the node's own,
/// which does not count anyway.
fn spares(name: &NodeName, driver: &Driver, scene: &Scene<'_>) -> bool {
    let facts = &scene.notes.facts;
    let long = |node: &Node| scene.at.duration_since(node.member.since) > NEWS;
    let well = |node: &Node| node.member.value == Member::Well && long(node);
    let own = facts.node(name).map(|node| node.member.value);
    let counts = facts.control_planes().count();
    let calm = !facts.alarm.value && scene.at.duration_since(facts.alarm.since) > NEWS;
    // A version is not about health (rule 13).
    let starts =
        driver.plan.to.talos.as_ref().is_none_or(|to| etcd_of(to) >= facts.etcd_minor.value);
    driver.answered_of_etcd()
        && starts
        && calm
        && matches!(own, Some(Member::Unwell | Member::Behind))
        && (counts > 2 || driver.wanted.policy.accept_outage)
        && facts.control_planes().filter(|node| node.name != *name).all(well)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, wanted};
    use super::*;

    fn waits(rollback: bool, why: WaitReason) -> Bench {
        let mut wanted = wanted();
        wanted.rollback = rollback;
        let mut bench = Bench::with(1, 2, wanted);
        bench.ready(1);
        let until = bench.at + SignedDuration::from_mins(15);
        bench.reported(1, EventKind::Waiting { why, until });
        bench
    }

    #[test]
    fn a_rollback_does_not_wait_for_other_nodes() {
        let away = vec!["worker-2".into()];
        let room = WaitReason::NoRoom { pool: None, limit: 1, away, count: 1 };
        waits(true, room.clone()).assert_broken(&[12]);
        waits(false, room).assert_broken(&[]);
        let unseen = |node: &str| WaitReason::NodeUnknown { node: node.into(), why: "no".into() };
        waits(true, unseen("worker-1")).assert_broken(&[12]);
        waits(true, unseen("worker-9")).assert_broken(&[]);
    }
}
