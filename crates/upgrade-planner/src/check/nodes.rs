//! Follows every node through the plan: what it runs before and after each hop, who is
//! left behind, and whether the user's intents for single nodes are kept.

use std::collections::{BTreeMap, BTreeSet};

use upgrade_core::plan::{Change, Hop, Target};
use upgrade_core::snapshot::{NodeName, Role};
use upgrade_core::version::Version;

use super::Checker;

/// The Talos of each node.
type Runs<'a> = BTreeMap<&'a NodeName, &'a Version>;

impl<'a> Checker<'a> {
    /// Rules 12 and 13, node by node.
    pub(super) fn each_node(&mut self) {
        self.held_nodes_stay();
        let seen = self.snapshot.nodes.iter();
        let mut runs: Runs<'a> =
            seen.filter_map(|(name, node)| Some((name, &node.talos.known()?.version))).collect();
        let mut kubernetes = self.plan.from.kubernetes.as_ref();
        for hop in &self.plan.hops {
            let (before, supported) = (runs.clone(), kubernetes);
            match &hop.change {
                Change::Talos { to, .. } => self.walk(hop, to, &mut runs),
                Change::Kubernetes { to, .. } => kubernetes = Some(to),
            }
            self.lowest_and_highest(hop, &before, &runs, supported, kubernetes);
            self.members_apart(hop, &before, &runs);
        }
        for (name, own) in self.plan.nodes.iter().filter(|(_, own)| !own.hold) {
            let (Some(wanted), Some(runs)) = (&own.talos, runs.get(name)) else { continue };
            if wanted != *runs {
                self.fatal(12, format!("{name} is to run Talos {wanted}, and ends on {runs}"));
            }
        }
        let to = self.plan.to.talos.as_ref();
        if let Some(to) = to.filter(|to| !runs.is_empty() && !runs.values().any(|it| it == to)) {
            self.fatal(13, format!("no node runs Talos {to} in the end"));
        }
    }

    /// Rule 12: nothing is done to a node that the user holds.
    fn held_nodes_stay(&mut self) {
        let lanes = self.plan.hops.iter().flat_map(Hop::lanes);
        let nodes: BTreeSet<&NodeName> = lanes.filter_map(|lane| lane.node.as_ref()).collect();
        for node in nodes.into_iter().filter(|node| self.plan.holds(node)) {
            self.fatal(12, format!("{node} is held, and the plan has steps for it"));
        }
    }

    /// Rule 13: every hop of a node starts from the version that the node runs by then, and
    /// the new version accepts an upgrade from it.
    fn walk(&mut self, hop: &'a Hop, to: &'a Version, runs: &mut Runs<'a>) {
        let number = hop.number;
        for lane in hop.lanes() {
            let (Some(node), Target::Talos(target)) = (&lane.node, &lane.target) else { continue };
            let from = &target.from;
            if let Some(runs) = runs.get(node).filter(|runs| **runs != from) {
                self.fatal(
                    13,
                    format!("hop {number} takes {node} from {from}, and it runs {runs}"),
                );
            }
            let accepted = self.matrix.accepts(from, to) && to >= from;
            if !accepted && !self.plan.rollback {
                self.fatal(13, format!("hop {number} takes {node} from {from} to {to}"));
            }
            runs.insert(node, to);
        }
    }

    /// Rule 13: neither the lowest nor the highest Talos that is left after a hop loses its
    /// support. What had none before is not the hop's doing.
    fn lowest_and_highest(
        &mut self,
        hop: &Hop,
        before: &Runs<'a>,
        after: &Runs<'a>,
        was: Option<&Version>,
        is: Option<&Version>,
    ) {
        let Some(is) = is else { return };
        let ends = [after.values().min(), after.values().max()];
        for talos in ends.into_iter().flatten().collect::<BTreeSet<_>>() {
            let ran = before.values().any(|it| it == talos);
            let had = was.is_some_and(|was| self.matrix.supports(talos, was));
            if !self.matrix.supports(talos, is) && (had || !ran) {
                let number = hop.number;
                self.fatal(13, format!("hop {number} leaves Talos {talos} with Kubernetes {is}"));
            }
        }
    }

    /// Rule 13: members of etcd are one minor apart, and no more.
    fn members_apart(&mut self, hop: &Hop, before: &Runs<'a>, after: &Runs<'a>) {
        let apart = |runs: &Runs<'a>| {
            let members =
                runs.iter().filter(|(name, _)| self.role(name) == Some(Role::ControlPlane));
            let minors: BTreeSet<_> =
                members.filter_map(|(_, version)| self.matrix.etcd(version)).collect();
            minors.first()?.steps_to(*minors.last()?).filter(|steps| *steps > 1)
        };
        if apart(after) > apart(before) {
            let number = hop.number;
            self.fatal(13, format!("hop {number} leaves members of etcd several minors apart"));
        }
    }
}
