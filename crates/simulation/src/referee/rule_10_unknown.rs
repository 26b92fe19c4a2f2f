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
