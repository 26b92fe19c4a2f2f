//! Rule 10, the other direction: what answers is known. One hanging machine is unknown itself but
//! does not hide others, so no run halts over a node, or over its verification, that could be asked
//! the whole time.

use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::journal::{Outcome, Record};
use upgrade_core::reason::{FailureKind, HaltReason, WaitReason};
use upgrade_core::step::Action;
use upgrade_engine::drive::End;

use super::facts::{self, Member, Node};
use super::{Rule, Scene};
use crate::trace::{ExternalAction, TraceEvent, TraceKind};

/// The fault of a hanging machine.
const SILENT: &str = "silent";

/// How long a node has to serve before a process must notice it.
const SERVES: SignedDuration = SignedDuration::from_mins(2);

#[derive(Default)]
pub(super) struct Hidden {
    /// The number of other problems: faults besides hanging machines, and lost messages.
    troubles: u32,
    /// When the last of them ended.
    calm_since: Option<Timestamp>,
}

impl Hidden {
    fn others(&mut self, at: Timestamp, action: &ExternalAction) {
        match action {
            ExternalAction::Breaks { fault, .. } if fault != SILENT => self.troubles += 1,
            ExternalAction::Wires { bad: true } => self.troubles += 1,
            ExternalAction::Mends { fault, .. } if fault != SILENT => self.ends(at),
            ExternalAction::Wires { bad: false } => self.ends(at),
            _ => {}
        }
    }

    fn ends(&mut self, at: Timestamp) {
        self.troubles = self.troubles.saturating_sub(1);
        self.calm_since = Some(at);
    }

    /// Whether hanging machines were the only problem since then.
    fn could_ask(&self, since: Timestamp, scene: &Scene<'_>) -> bool {
        let calm = self.troubles == 0 && self.calm_since.is_none_or(|calm| calm < since);
        let control_planes = scene.notes.facts.control_planes();
        let mut answering = control_planes.filter(|node| !facts::is_silent(scene.view, node));
        let works =
            |node: &Node| node.up.was(&true, Some(since)) && node.controls.was(&true, Some(since));
        let first = answering.next();
        calm && first.is_some_and(works) && answering.all(works)
    }

    fn halts(&self, reason: &HaltReason, scene: &Scene<'_>, found: &mut Vec<String>) {
        let HaltReason::WaitedTooLong { since, waiting_for } = reason else { return };
        let WaitReason::NodeUnknown { node: name, .. } = waiting_for else { return };
        let node = scene.notes.facts.node(name).filter(|node| !node.gone);
        let answers = node.is_some_and(|node| node.up.was(&true, Some(*since)));
        if answers && self.could_ask(*since, scene) {
            found.push(format!("halted because {name} is unknown, but it answered the whole time"));
        }
    }

    fn fails(&self, node: &Node, scene: &Scene<'_>, found: &mut Vec<String>) {
        let since = scene.at.saturating_sub(SERVES).unwrap_or(scene.at);
        let member = !node.control_plane || node.member.was(&Member::Well, Some(since));
        if member && node.serves.was(&true, Some(since)) && self.could_ask(since, scene) {
            let name = &node.name;
            found.push(format!("{name} timed out in verification, but it served the whole time"));
        }
    }
}

impl Rule for Hidden {
    fn number(&self) -> u8 {
        10
    }

    fn see(&mut self, seen: &TraceEvent, scene: &Scene<'_>, found: &mut Vec<String>) {
        match &seen.what {
            TraceKind::External { action } => self.others(seen.at, action),
            TraceKind::Ends { end: Ok(End::Halted { reason, .. }), .. } => {
                self.halts(reason, scene, found);
            }
            TraceKind::Wrote { entry, .. } => {
                if let Record::Finished { step, outcome: Outcome::Failed { failure }, .. } =
                    &entry.record
                    && (step.action, failure.kind) == (Action::Verify, FailureKind::Deadline)
                    && let Some(name) = &step.node
                    && let Some(node) = scene.notes.facts.node(name)
                {
                    self.fails(node, scene, found);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use talos_sim::model::Fault;
    use upgrade_core::reason::Failure;

    use super::super::testing::Bench;
    use super::*;

    /// A world with one hanging control plane, and perhaps another problem.
    fn hangs(also: Option<(&str, Fault)>, wires: bool) -> Bench {
        let mut bench = Bench::new(3, 1);
        bench.ready(1);
        bench.inject("cp-2", &Fault::Silent);
        if let Some((node, fault)) = also {
            bench.inject(node, &fault);
        }
        if wires {
            bench.see(TraceKind::External { action: ExternalAction::Wires { bad: true } });
        }
        bench.wait(90);
        bench.observe(1);
        bench
    }

    /// A fault of another node, whether messages get lost, and whether that is an excuse.
    type Case = (Option<(&'static str, Fault)>, bool, bool);

    /// All other problems.
    fn cases() -> Vec<Case> {
        vec![
            (None, false, false),
            (None, true, true),
            (Some(("worker-1", Fault::Partition)), false, true),
            (Some(("cp-1", Fault::ApiErrors { every: 1 })), false, true),
        ]
    }

    #[test]
    fn a_node_that_answers_is_not_unknown() {
        for (also, wires, excused) in cases() {
            let text = format!("{also:?} {wires}");
            let mut bench = hangs(also, wires);
            let since = bench.at;
            bench.wait(200);
            bench.observe(1);
            let (node, why) = ("worker-1".into(), "no answer".to_owned());
            let waiting_for = WaitReason::NodeUnknown { node, why };
            let reason = HaltReason::WaitedTooLong { since, waiting_for };
            bench.ended(1, End::Halted { reason, armed: vec![], cordoned: vec![] });
            assert_eq!(bench.broken().contains(&10), !excused, "{text}");
        }
    }

    #[test]
    fn a_hanging_node_is_unknown() {
        let mut bench = hangs(None, false);
        let since = bench.at;
        bench.wait(200);
        let (node, why) = ("cp-2".into(), "no answer".to_owned());
        let waiting_for = WaitReason::NodeUnknown { node, why };
        let reason = HaltReason::WaitedTooLong { since, waiting_for };
        bench.ended(1, End::Halted { reason, armed: vec![], cordoned: vec![] });
        bench.assert_broken(&[]);
    }

    #[test]
    fn a_node_that_serves_is_verified() {
        for (also, wires, excused) in cases() {
            let text = format!("{also:?} {wires}");
            let mut bench = hangs(also, wires);
            bench.begins(1, "1/worker-1/verify");
            bench.wait(300);
            bench.observe(1);
            let failure = Failure::new(FailureKind::Deadline, "no answer");
            let step = "1/worker-1/verify".parse().unwrap();
            let outcome = Outcome::Failed { failure };
            bench.wrote(1, Record::Finished { step, attempt: 1, outcome });
            assert_eq!(bench.broken().contains(&10), !excused, "{text}");
        }
    }
}
