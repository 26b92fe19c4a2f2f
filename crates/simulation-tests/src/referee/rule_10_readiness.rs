//! Rule 10, readiness: a node counts as back when it is as ready as before its reboot. A newly
//! unmet condition prevents that, whatever else the node reports.

use std::collections::{BTreeMap, BTreeSet};

use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::journal::{Outcome, Record};
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::{Action, StepId};

use super::{Rule, Scene, facts};
use crate::trace::{ProcessId, Question, TraceEvent, TraceKind};

/// A condition that was unmet up to this long before a reboot may be in its evidence.
const NOTED: SignedDuration = SignedDuration::from_secs(30);

/// An unmet condition of a machine, such as `network: connectivity`.
type Item = String;

/// A verification in progress.
struct Judging {
    runner: ProcessId,
    /// Whether an answer of the node may have shown nothing new.
    excused: bool,
    /// The newly unmet conditions in the last answer.
    new: Vec<Item>,
}

#[derive(Default)]
pub(super) struct Readiness {
    /// The unmet conditions of each node, and when each was last reported.
    reported: BTreeMap<NodeName, BTreeMap<Item, Timestamp>>,
    /// What may have been unmet before the current reboot, by hop and node.
    before: BTreeMap<(u32, NodeName), BTreeSet<Item>>,
    judging: BTreeMap<(u32, NodeName), Judging>,
}

impl Rule for Readiness {
    fn number(&self) -> u8 {
        10
    }

    fn see(&mut self, seen: &TraceEvent, scene: &Scene<'_>, found: &mut Vec<String>) {
        match &seen.what {
            // Another plan has its own evidence.
            TraceKind::Starts { fresh: true, .. } => {
                self.before.clear();
                self.judging.clear();
            }
            TraceKind::Asked { runner, question: Question::Facts(node), answered, known: true } => {
                self.answers(*runner, node, seen.at, *answered, scene);
            }
            TraceKind::Wrote { runner, entry } => match &entry.record {
                Record::Started {
                    step: StepId { hop, node: Some(node), action, .. },
                    evidence,
                    ..
                } => {
                    let key = (*hop, node.clone());
                    // The first evidence counts.
                    let first = evidence.is_some() || !self.before.contains_key(&key);
                    if action.boots() && first {
                        let before = self.noted(node, seen.at, scene);
                        self.before.insert(key, before);
                    } else if *action == Action::Verify {
                        let judging = Judging { runner: *runner, excused: false, new: Vec::new() };
                        self.judging.insert(key, judging);
                    }
                }
                Record::Finished {
                    step: StepId { hop, node: Some(node), action: Action::Verify, .. },
                    outcome,
                    ..
                } => {
                    let judged = self.judging.remove(&(*hop, node.clone()));
                    let done = matches!(outcome, Outcome::Done { .. });
                    if let Some(judged) = judged.filter(|it| done && !it.excused)
                        && !judged.new.is_empty()
                    {
                        let new = judged.new.join(", ");
                        found.push(format!(
                            "{node} counts as back, but has newly unmet conditions: {new}"
                        ));
                    }
                }
                _ => {}
            },
            _ => {}
        }
    }
}

impl Readiness {
    /// Handles an answer of a node. A delayed answer may have shown anything.
    fn answers(
        &mut self,
        runner: ProcessId,
        node: &NodeName,
        at: Timestamp,
        answered: Timestamp,
        scene: &Scene<'_>,
    ) {
        let (unmet, runs) = (facts::unmet(scene.view, node), facts::is_running(scene.view, node));
        if !unmet.is_empty() {
            let reported = self.reported.entry(node.clone()).or_default();
            reported.extend(unmet.iter().map(|item| (item.clone(), at)));
        }
        for ((hop, name), judging) in &mut self.judging {
            if name != node || judging.runner != runner {
                continue;
            }
            let Some(before) = self.before.get(&(*hop, name.clone())) else { continue };
            let new: Vec<Item> = unmet.iter().filter(|it| !before.contains(*it)).cloned().collect();
            judging.excused |= (runs && new.is_empty()) || answered < at;
            judging.new = new;
        }
    }

    /// The unmet conditions that may be in the evidence of a reboot that begins now.
    fn noted(&self, node: &NodeName, at: Timestamp, scene: &Scene<'_>) -> BTreeSet<Item> {
        let lately = self.reported.get(node).into_iter().flatten();
        let lately = lately.filter(|(_, when)| at.duration_since(**when) <= NOTED);
        lately.map(|(item, _)| item.clone()).chain(facts::unmet(scene.view, node)).collect()
    }
}

#[cfg(test)]
mod tests {
    use talos_sim::model::{Condition, Fault};

    use super::super::testing::{Bench, NONE};

    /// Upgrades a worker with a fault from the start, or from its boot on, and verifies it, from
    /// when it is up or from when it begins to boot.
    fn verified_with(fault: &Fault, early: bool) -> Vec<u8> {
        let mut bench = Bench::new(3, 1);
        bench.ready(1);
        bench.inject("worker-1", fault);
        bench.take(1, "worker-1");
        bench.drain(1, "worker-1");
        if early {
            bench.boot_until_on(1, "worker-1");
        } else {
            bench.boot_until_up(1, "worker-1");
        }
        bench.wait(1);
        bench.begins(1, "1/worker-1/verify");
        for _ in 0..if early { 90 } else { 1 } {
            bench.wait(1);
            bench.observe(1);
        }
        bench.ends(1, "1/worker-1/verify");
        bench.broken()
    }

    #[test]
    fn a_newly_unmet_condition_keeps_a_node_from_being_back() {
        for condition in Condition::ALL {
            for early in [false, true] {
                let new = verified_with(&Fault::UnmetAfterBoot { condition }, early);
                assert_eq!(new, [10], "{condition:?}, early: {early}");
                let old = verified_with(&Fault::UnmetCondition { condition }, early);
                assert_eq!(old, NONE, "{condition:?}, early: {early}");
            }
        }
    }
}
