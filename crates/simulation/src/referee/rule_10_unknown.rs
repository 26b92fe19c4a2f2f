//! Rule 10: what is not known is unsafe. What disrupts a node begins only if the
//! look before it was answered: the machines, the node, Kubernetes, and etcd for
//! a control plane. Every node that Kubernetes had then was asked at its machine: one that
//! discovery does not show is unknown, not absent.

use super::{Rule, Scene, facts};
use crate::seen::Seen;

pub(super) struct Unknown;

impl Rule for Unknown {
    fn number(&self) -> u8 {
        10
    }

    fn see(&mut self, seen: &Seen, scene: &Scene<'_>, found: &mut Vec<String>) {
        let Some(blow) = scene.notes.blow(seen) else { return };
        // Never written down: that is rule 8's.
        let Some(basis) = blow.basis else { return };
        // A way back needs the Talos API and nothing else (rule 12).
        let rollback = blow.driver.plan.rollback;
        let known = [
            ("the machines", basis.machines),
            ("the node", basis.facts.look == basis.look),
            ("Kubernetes", rollback || basis.nodes.look == basis.look),
            ("etcd", rollback || !blow.node.control_plane || basis.etcd.look == basis.look),
        ];
        if !rollback {
            let unasked = facts::nodes_before(scene.view, basis.nodes.good);
            let unasked = unasked.into_iter().filter(|name| !basis.asked.contains(name));
            let invisible: Vec<String> = unasked.map(|name| name.0).collect();
            if !invisible.is_empty() && basis.machines && basis.nodes.look == basis.look {
                let names = invisible.join(", ");
                found.push(format!("{:?}, and no machine was asked for {names}", blow.act));
            }
        }
        for (what, _) in known.iter().filter(|(_, known)| !known) {
            found.push(format!("{:?}, and {what} did not answer when it was asked", blow.act));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, NONE, wanted};
    use crate::seen::{Act, Question};

    /// Takes a control plane after a look with one question unanswered.
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
    fn what_did_not_answer_is_not_fine() {
        for question in
            [Question::Machines, Question::Facts("cp-1".into()), Question::Etcd, Question::Nodes]
        {
            assert_eq!(without(&question, false), [10], "{question:?}");
        }
        assert_eq!(without(&Question::Images("cp-1".into()), false), NONE);
    }

    /// Takes a worker after a look in which the other one was not asked.
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
    fn a_node_of_kubernetes_without_a_machine_is_not_passed_over() {
        assert_eq!(invisible(&["cp-1", "worker-1"], false), [10]);
        // Asked in vain is rule 6's: it counts as away.
        assert_eq!(invisible(&["cp-1", "worker-1", "worker-2"], false), NONE);
        assert_eq!(invisible(&["cp-1", "worker-1"], true), NONE);
    }

    #[test]
    fn a_way_back_needs_only_the_node() {
        assert_eq!(without(&Question::Nodes, true), NONE);
        assert_eq!(without(&Question::Facts("cp-1".into()), true), [10]);
    }
}
