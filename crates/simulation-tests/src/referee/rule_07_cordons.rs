//! Rule 7: a cordon of ours does not outlive its node's upgrade; a cordon that we found stays.

use std::collections::BTreeMap;

use upgrade_core::jiff::{SignedDuration, Timestamp};
use upgrade_core::journal::Record;
use upgrade_core::plan::PlanHash;
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::Action;
use upgrade_engine::drive::End;

use super::driver::Driver;
use super::facts;
use super::notes::Whose;
use super::{Rule, Scene};
use crate::trace::{Act, Fate, ProcessId, TraceEvent, TraceKind};

/// A process need not know yet that a node serves again if it does so for less than this.
const NEWS: SignedDuration = SignedDuration::from_secs(20);

/// How long a failed uncordon counts as an attempt.
const TRIED: SignedDuration = SignedDuration::from_mins(10);

#[derive(Default)]
pub(super) struct Cordons {
    /// When an uncordon was last requested.
    tried: BTreeMap<NodeName, Timestamp>,
    /// The plan that a node was cordoned for, until we boot it.
    unbooted: BTreeMap<NodeName, Option<PlanHash>>,
}

impl Cordons {
    /// Cordons of ours that should not be left at this end.
    fn left(&self, end: &End, driver: &Driver, scene: &Scene<'_>, found: &mut Vec<String>) {
        for node in scene.notes.our_cordons(scene.view) {
            match end {
                End::Done => found.push(format!("done, but our cordon of {node} is left")),
                End::Halted { .. } | End::Paused { .. } => {
                    if self.could_lift(node, driver, scene) {
                        let end =
                            if matches!(end, End::Paused { .. }) { "paused" } else { "halted" };
                        found.push(format!(
                            "{end}, but our cordon of {node} is left although the node serves"
                        ));
                    }
                }
                End::Stopped => {}
            }
        }
    }

    /// Whether the process knew that the node serves, and did not even try to uncordon it.
    fn could_lift(&self, node: &NodeName, driver: &Driver, scene: &Scene<'_>) -> bool {
        let Some(seen) = scene.notes.facts.node(node).filter(|node| !node.gone) else {
            return false;
        };
        let recently = |at: &Timestamp| scene.at.duration_since(*at) < TRIED;
        let tried = self.tried.get(node).is_some_and(recently);
        let known = |asked: Option<Timestamp>| {
            asked.is_some_and(|asked| {
                seen.serves.since < asked && scene.at.duration_since(seen.serves.since) > NEWS
            })
        };
        // If Kubernetes does not answer, the state is unknown and no cordon can be lifted.
        let answered = driver.answered_of(node)
            && driver.answered_of_kubernetes()
            && known(driver.facts(node).good.min(driver.nodes.good));
        // A node that was not booted serves if its Node is ready, even if its machine is hidden.
        let own = self.unbooted.get(node).is_some_and(|plan| *plan == driver.hash);
        let unseen = own
            && !driver.answered_of(node)
            && driver.heard_kubernetes()
            && known(driver.nodes.good);
        seen.serves.value && (answered || unseen) && !tried
    }
}

impl Rule for Cordons {
    fn number(&self) -> u8 {
        7
    }

    fn see(&mut self, seen: &TraceEvent, scene: &Scene<'_>, found: &mut Vec<String>) {
        match &seen.what {
            TraceKind::Act { act: Act::Cordon { node, on: false }, fate, .. } => {
                self.tried.insert(node.clone(), seen.at);
                let theirs = matches!(scene.notes.whose(node), Some(Whose::Theirs { .. }));
                if theirs && *fate == Fate::Arrives && facts::is_cordoned(scene.view, node) {
                    found.push(format!("the cordon of {node} is lifted, but it was not ours"));
                }
            }
            TraceKind::Act { runner, act: Act::Cordon { node, on: true }, .. } => {
                self.tried.remove(node);
                let plan = scene.notes.drivers.get(runner).and_then(|driver| driver.hash.clone());
                self.unbooted.insert(node.clone(), plan);
            }
            TraceKind::Wrote { entry, .. } => {
                // The node may have received a step that has begun, whatever its outcome.
                if let Record::Started { step, .. } = &entry.record
                    && matches!(step.action, Action::Reboot | Action::Upgrade | Action::Rollback)
                    && let Some(node) = &step.node
                {
                    self.unbooted.remove(node);
                }
            }
            TraceKind::Ends { runner, end: Ok(end) } => {
                if let Some(driver) = scene.notes.drivers.get(runner) {
                    self.left(end, driver, scene, found);
                }
            }
            _ => {}
        }
    }

    fn finish(&mut self, scene: &Scene<'_>, last: Option<&End>, found: &mut Vec<String>) {
        // A run that the user stopped, or that no process resumed, had no chance.
        let newest = scene.notes.drivers.iter().next_back();
        let Some((_, driver)): Option<(&ProcessId, &Driver)> = newest else { return };
        if let Some(end @ End::Done) = last {
            self.left(end, driver, scene, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use upgrade_core::reason::HaltReason;
    use upgrade_engine::drive::End;

    use super::super::testing::Bench;
    use crate::trace::{Act, ExternalAction, Question, TraceKind};

    fn halted() -> End {
        let reason = HaltReason::NoSnapshot { hop: 1 };
        End::Halted { reason, armed: vec![], cordoned: vec![] }
    }

    #[test]
    fn our_cordon_does_not_outlive_the_run() {
        for end in [End::Done, halted(), End::Stopped] {
            let rules: &[u8] = if end == End::Stopped { &[] } else { &[7] };
            let mut bench = Bench::new(1, 2);
            bench.ready(1);
            bench.take(1, "worker-1");
            bench.wait(60);
            bench.observe(1);
            bench.ended(1, end.clone());
            let broken = bench.broken().into_iter().filter(|rule| *rule == 7);
            assert_eq!(broken.collect::<Vec<_>>(), rules, "{end:?}");
        }
    }

    #[test]
    fn without_kubernetes_no_cordon_is_lifted() {
        let mut bench = Bench::new(1, 2);
        bench.ready(1);
        bench.take(1, "worker-1");
        bench.wait(60);
        bench.ask(1, Question::Machines, true);
        bench.ask(1, Question::Facts("worker-1".into()), true);
        bench.ask(1, Question::Nodes, false);
        bench.ended(1, halted());
        bench.assert_broken(&[]);
        // A partial answer does not count.
        let mut bench = Bench::new(1, 2);
        bench.ready(1);
        bench.take(1, "worker-1");
        bench.wait(60);
        bench.ask(1, Question::Machines, true);
        bench.ask(1, Question::Facts("worker-1".into()), true);
        bench.ask(1, Question::Other("capacity"), false);
        bench.ask(1, Question::Nodes, true);
        bench.ended(1, halted());
        bench.assert_broken(&[]);
    }

    #[test]
    fn a_node_hidden_from_talos_serves_if_its_node_is_ready() {
        #[derive(Clone, Copy, Debug, PartialEq)]
        enum Hidden {
            Node,
            All,
            Kubernetes,
            Booted,
        }
        for hidden in [Hidden::Node, Hidden::All, Hidden::Kubernetes, Hidden::Booted] {
            let mut bench = Bench::new(1, 2);
            bench.ready(1);
            bench.take(1, "worker-1");
            bench.wait(60);
            if hidden == Hidden::Booted {
                // Begun, but not received.
                bench.begins(1, "1/worker-1/upgrade");
            }
            bench.ask(1, Question::Machines, hidden != Hidden::All);
            if hidden != Hidden::All {
                bench.ask(1, Question::Facts("worker-1".into()), false);
            }
            bench.ask(1, Question::Nodes, hidden != Hidden::Kubernetes);
            bench.ended(1, halted());
            let lifts = matches!(hidden, Hidden::Node | Hidden::All);
            assert_eq!(bench.broken().contains(&7), lifts, "{hidden:?}");
        }
    }

    #[test]
    fn a_lifted_cordon_is_gone() {
        let mut bench = Bench::new(1, 2);
        bench.ready(1);
        bench.take(1, "worker-1");
        bench.verify_and_uncordon(1, "worker-1");
        bench.ended(1, halted());
        bench.assert_broken(&[]);
    }

    #[test]
    fn a_foreign_cordon_that_replaced_ours_unseen_counts_as_ours() {
        for seen in [false, true] {
            let mut bench = Bench::new(1, 2);
            bench.ready(1);
            bench.take(1, "worker-1");
            for on in [false, true] {
                bench.wait(10);
                bench.see(TraceKind::External {
                    action: ExternalAction::Cordon { node: "worker-1".into(), on },
                });
                bench.cordon("worker-1", on);
                if seen {
                    bench.wait(10);
                    bench.observe(1);
                }
            }
            let act = Act::Cordon { node: "worker-1".into(), on: false };
            bench.step(1, "1/worker-1/uncordon", Some(act));
            assert_eq!(bench.broken().contains(&7), seen, "{:?}", bench.referee.breaches());
        }
    }

    #[test]
    fn a_foreign_cordon_after_an_uncordon_is_not_ours_whatever_was_answered() {
        for answered in [false, true] {
            let mut bench = Bench::new(1, 2);
            let uncordon = Act::Cordon { node: "worker-1".into(), on: false };
            bench.ready(1);
            bench.take(1, "worker-1");
            bench.begins(1, "1/worker-1/uncordon");
            bench.act(1, uncordon.clone());
            bench.wait(10);
            if answered {
                bench.ends(1, "1/worker-1/uncordon");
            }
            bench.wait(10);
            let action = ExternalAction::Cordon { node: "worker-1".into(), on: true };
            bench.see(TraceKind::External { action });
            bench.cordon("worker-1", true);
            bench.step(1, "1/worker-1/uncordon", Some(uncordon));
            bench.assert_broken(&[7]);
        }
    }

    #[test]
    fn a_cordon_that_we_found_stays() {
        let mut bench = Bench::new(1, 2);
        let action = ExternalAction::Cordon { node: "worker-1".into(), on: true };
        bench.see(TraceKind::External { action });
        bench.cordon("worker-1", true);
        bench.wait(10);
        bench.ready(1);
        bench.take(1, "worker-1");
        bench.ended(1, halted());
        bench.assert_broken(&[]);
        let act = Act::Cordon { node: "worker-1".into(), on: false };
        bench.step(1, "1/worker-1/uncordon", Some(act));
        bench.assert_broken(&[7]);
    }
}
