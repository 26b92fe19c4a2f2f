//! Rule 10: unknown is unsafe. A disruptive step begins only if the observation before it was
//! answered: the machines, the node, Kubernetes, and etcd for a control plane. Every node that
//! Kubernetes had then was asked at its machine: a node that discovery does not show is unknown,
//! not absent. Nodes listed as foreign are left alone. A node is verified only by a process that
//! knows its machine.

use upgrade_core::journal::Record;
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::{Action, StepId};

use super::driver::Driver;
use super::{Rule, Scene, facts};
use crate::trace::{Act, TraceEvent, TraceKind};

pub(super) struct Unknown;

impl Unknown {
    /// The machine of a verified node was asked in the last observation, if there was one.
    fn verifies(node: &NodeName, driver: &Driver, found: &mut Vec<String>) {
        if driver.answered_of_kubernetes() && !driver.asked_of(node) {
            found.push(format!("{node} is verified, but its machine is unknown"));
        }
    }

    /// No act touches a node that the user lists as foreign.
    fn acts(act: &Act, driver: &Driver, found: &mut Vec<String>) {
        let foreign = &driver.wanted.policy.foreign_nodes;
        if act.node().is_some_and(|node| foreign.contains(node)) {
            found.push(format!("{act:?}, but the node is listed as foreign"));
        }
    }
}

impl Rule for Unknown {
    fn number(&self) -> u8 {
        10
    }

    fn see(&mut self, seen: &TraceEvent, scene: &Scene<'_>, found: &mut Vec<String>) {
        match &seen.what {
            TraceKind::Wrote { runner, entry } => {
                if let Record::Started {
                    step: StepId { node: Some(node), action: Action::Verify, .. },
                    ..
                } = &entry.record
                    && let Some(driver) = scene.notes.drivers.get(runner)
                {
                    Self::verifies(node, driver, found);
                }
            }
            TraceKind::Act { runner, act, .. } => {
                if let Some(driver) = scene.notes.drivers.get(runner) {
                    Self::acts(act, driver, found);
                }
            }
            _ => {}
        }
        let Some(blow) = scene.notes.blow(seen) else { return };
        // A step that was never recorded is a breach of rule 8.
        let Some(basis) = blow.basis else { return };
        // A rollback needs only the Talos API (rule 12).
        let rollback = blow.driver.plan.rollback;
        let known = [
            ("the machines", basis.machines),
            ("the node", basis.facts.observation == basis.observation),
            ("Kubernetes", rollback || basis.nodes.observation == basis.observation),
            (
                "etcd",
                rollback || !blow.node.control_plane || basis.etcd.observation == basis.observation,
            ),
        ];
        if !rollback {
            let unasked = facts::nodes_before(scene.view, basis.nodes.good);
            let foreign = &blow.driver.wanted.policy.foreign_nodes;
            let known = |name: &NodeName| basis.asked.contains(name) || foreign.contains(name);
            let unasked = unasked.into_iter().filter(|name| !known(name));
            let invisible: Vec<String> = unasked.map(|name| name.0).collect();
            if !invisible.is_empty()
                && basis.machines
                && basis.nodes.observation == basis.observation
            {
                let names = invisible.join(", ");
                found.push(format!("{:?}, but no machine was asked for {names}", blow.act));
            }
        }
        for (what, _) in known.iter().filter(|(_, known)| !known) {
            found.push(format!("{:?}, but {what} did not answer the last question", blow.act));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, NONE, wanted};
    use crate::trace::{Act, Question};

    /// Disrupts a control plane after an observation with one unanswered question.
    fn without(missing: &Question, rollback: bool) -> Vec<u8> {
        let mut wanted = wanted();
        wanted.rollback = rollback;
        let mut bench = Bench::with(3, 0, wanted);
        bench.ready(1);
        let name = bench.control_planes().remove(0);
        bench.wait(5);
        for question in [
            Question::Machines,
            Question::Facts("cp-2".into()),
            Question::Facts("cp-3".into()),
            Question::Facts(name.as_str().into()),
            Question::Etcd,
            Question::Nodes,
        ] {
            let same = std::mem::discriminant(&question) == std::mem::discriminant(missing);
            bench.ask(1, question, !same);
        }
        bench.begins(1, &format!("1/{name}/cordon"));
        bench.act(1, Act::Cordon { node: name.as_str().into(), on: true });
        bench.broken()
    }

    #[test]
    fn an_unanswered_question_blocks_disruption() {
        for question in
            [Question::Machines, Question::Facts("cp-1".into()), Question::Etcd, Question::Nodes]
        {
            assert_eq!(without(&question, false), [10], "{question:?}");
        }
        assert_eq!(without(&Question::Images("cp-1".into()), false), NONE);
    }

    /// Disrupts a worker after an observation in which the other one was not asked.
    fn invisible(asked: &[&str], rollback: bool) -> Vec<u8> {
        let mut wanted = wanted();
        wanted.rollback = rollback;
        let mut bench = Bench::with(1, 2, wanted);
        bench.ready(1);
        bench.wait(5);
        bench.ask(1, Question::Machines, true);
        for name in asked {
            bench.ask(1, Question::Facts((*name).into()), *name != "worker-2");
        }
        bench.ask(1, Question::Nodes, true);
        bench.begins(1, "1/worker-1/cordon");
        bench.act(1, Act::Cordon { node: "worker-1".into(), on: true });
        bench.broken()
    }

    #[test]
    fn a_node_without_a_machine_is_not_skipped() {
        assert_eq!(invisible(&["cp-1", "worker-1"], false), [10]);
        // A node that was asked but did not answer is rule 6's: it counts as unavailable.
        assert_eq!(invisible(&["cp-1", "worker-1", "worker-2"], false), NONE);
        assert_eq!(invisible(&["cp-1", "worker-1"], true), NONE);
    }

    /// Disrupts a worker while Kubernetes has a node without a machine.
    fn foreign(listed: bool, takes: &str) -> Vec<u8> {
        let mut wanted = wanted();
        if listed {
            wanted.policy.foreign_nodes.insert("edge-1".into());
        }
        let mut bench = Bench::with(1, 1, wanted);
        bench.register("edge-1", "1.34.2");
        bench.ready(1);
        let act = Act::Cordon { node: takes.into(), on: true };
        bench.step(1, &format!("1/{takes}/cordon"), Some(act));
        bench.broken()
    }

    #[test]
    fn a_node_without_talos_is_listed_and_left_alone() {
        assert_eq!(foreign(true, "worker-1"), NONE);
        assert_eq!(foreign(false, "worker-1"), [10]);
        assert_eq!(foreign(true, "edge-1"), [10]);
    }

    #[test]
    fn a_node_is_verified_by_a_process_that_knows_its_machine() {
        for (asked, kubernetes, rules) in [
            (true, true, &NONE[..]),
            (false, true, &[10]),
            // It is unknown whether there is a machine: the previous knowledge counts.
            (false, false, &NONE[..]),
        ] {
            let mut bench = Bench::new(1, 1);
            bench.ready(1);
            bench.wait(5);
            bench.ask(1, Question::Machines, true);
            if asked {
                bench.ask(1, Question::Facts("worker-1".into()), false);
            }
            bench.ask(1, Question::Nodes, kubernetes);
            bench.begins(1, "1/worker-1/verify");
            assert_eq!(bench.broken(), rules, "{asked} {kubernetes}");
        }
    }

    #[test]
    fn a_rollback_needs_only_its_node() {
        assert_eq!(without(&Question::Nodes, true), NONE);
        assert_eq!(without(&Question::Facts("cp-1".into()), true), [10]);
    }
}
