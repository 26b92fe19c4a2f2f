//! Rule 10: what is not known is unsafe. What disrupts a node begins only if the
//! look before it was answered: the machines, the node, Kubernetes, and etcd for
//! a control plane.

use super::{Rule, Scene};
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

    #[test]
    fn a_way_back_needs_only_the_node() {
        assert_eq!(without(&Question::Nodes, true), NONE);
        assert_eq!(without(&Question::Facts("cp-1".into()), true), [10]);
    }
}
