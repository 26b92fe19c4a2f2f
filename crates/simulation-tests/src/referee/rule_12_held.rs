//! Rule 12, single nodes: a held node is left alone, and a node with its own Talos version gets no
//! other.

use super::{Rule, Scene};
use crate::trace::{Act, Fate, TraceEvent, TraceKind};

pub(super) struct Held;

impl Rule for Held {
    fn number(&self) -> u8 {
        12
    }

    fn see(&mut self, seen: &TraceEvent, scene: &Scene<'_>, found: &mut Vec<String>) {
        let TraceKind::Act { runner, act, fate: Fate::Arrives } = &seen.what else { return };
        let Some(driver) = scene.notes.drivers.get(runner) else { return };
        let own = act.node().and_then(|node| driver.wanted.intent.nodes.get(node));
        let Some(own) = own else { return };
        if own.hold && touches(act) {
            found.push(format!("{act:?}, but the user holds that node"));
        }
        if let (Act::Install { image, .. } | Act::Upgrade { image, .. }, Some(wanted)) =
            (act, &own.talos)
            && image.version().is_some_and(|version| version > *wanted)
        {
            found.push(format!("{act:?}, but the user wants Talos {wanted} there"));
        }
    }
}

/// Whether an act changes the node. A snapshot only reads; the minor of etcd belongs to the
/// cluster; an adopted cordon is lifted on any node (rule 7).
const fn touches(act: &Act) -> bool {
    !matches!(act, Act::Snapshot | Act::Downgrade { .. } | Act::Cordon { on: false, .. })
}

#[cfg(test)]
mod tests {
    use upgrade_core::intent::NodeIntent;

    use super::super::testing::{Bench, NONE, installer, wanted};
    use super::*;

    fn broken(own: NodeIntent, act: Act, step: &str) -> Vec<u8> {
        let mut wanted = wanted();
        wanted.intent.nodes.insert("worker-1".into(), own);
        let mut bench = Bench::with(1, 2, wanted);
        bench.ready(1);
        bench.step(1, step, Some(act));
        bench.broken()
    }

    #[test]
    fn a_held_node_is_left_alone() {
        let held = || NodeIntent { hold: true, ..NodeIntent::default() };
        let cordon = |node: &str, on| Act::Cordon { node: node.into(), on };
        assert_eq!(broken(held(), cordon("worker-1", true), "1/worker-1/cordon"), [12]);
        assert_eq!(broken(held(), cordon("worker-2", true), "1/worker-2/cordon"), NONE);
        let pull = Act::Pull { node: "worker-1".into(), image: installer() };
        assert_eq!(broken(held(), pull, "1/worker-1/pull"), [12]);
    }

    #[test]
    fn no_node_gets_another_version_than_its_own() {
        let own = |version: &str| NodeIntent {
            talos: Some(version.parse().unwrap()),
            ..NodeIntent::default()
        };
        let install = || Act::Install { node: "worker-1".into(), image: installer() };
        assert_eq!(broken(own("1.13.12"), install(), "1/worker-1/install"), NONE);
        assert_eq!(broken(own("1.13.11"), install(), "1/worker-1/install"), [12]);
    }
}
