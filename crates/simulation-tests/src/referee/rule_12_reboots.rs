//! Rule 12, reboot modes: nodes reboot through their firmware where the user wants it. With
//! `powercycle-first`, one node of each pool has come back through its firmware and is verified
//! before another one reboots by kexec.

use std::collections::BTreeSet;

use upgrade_core::journal::{Outcome, Record};
use upgrade_core::plan::{PlanHash, RebootMode};
use upgrade_core::policy::RebootChoice;
use upgrade_core::snapshot::NodeName;
use upgrade_core::step::{Action, StepId};

use super::driver::Driver;
use super::facts;
use super::{Rule, Scene};
use crate::trace::{Act, Fate, TraceEvent, TraceKind};

/// A hop of a plan.
type SharedWorld = (PlanHash, u32);

/// The nodes that share a power cycle: control planes, or the workers of a pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pool {
    ControlPlanes,
    Workers(Option<String>),
}

#[derive(Default)]
pub(super) struct Reboots {
    /// Nodes that we rebooted by kexec.
    kexec: BTreeSet<(SharedWorld, NodeName)>,
    /// Pools in which a node came back through its firmware, or already had the target.
    tried: BTreeSet<(SharedWorld, Pool)>,
}

impl Rule for Reboots {
    fn number(&self) -> u8 {
        12
    }

    fn see(&mut self, seen: &TraceEvent, scene: &Scene<'_>, found: &mut Vec<String>) {
        match &seen.what {
            TraceKind::Act { runner, act, fate: Fate::Arrives } => {
                let (Act::Upgrade { node, mode, .. } | Act::Reboot { node, mode }) = act else {
                    return;
                };
                let Some(driver) = scene.notes.drivers.get(runner) else { return };
                self.judge(driver, act, node, *mode, scene, found);
            }
            TraceKind::Wrote { entry, .. } => {
                if let Record::Finished {
                    step: StepId { hop, node: Some(node), action: Action::Verify, .. },
                    outcome: Outcome::Done { .. } | Outcome::Skipped { .. },
                    ..
                } = &entry.record
                {
                    let place = (entry.plan.clone(), *hop);
                    let pool = pool(node, scene);
                    if !self.kexec.contains(&(place.clone(), node.clone())) {
                        self.tried.insert((place, pool));
                    }
                }
            }
            _ => {}
        }
    }
}

impl Reboots {
    fn judge(
        &mut self,
        driver: &Driver,
        act: &Act,
        node: &NodeName,
        mode: RebootMode,
        scene: &Scene<'_>,
        found: &mut Vec<String>,
    ) {
        let (Some(hash), Some(basis)) = (&driver.hash, driver.basis(act)) else { return };
        let place = (hash.clone(), basis.hop);
        let by_kexec = mode == RebootMode::Default;
        if by_kexec {
            self.kexec.insert((place.clone(), node.clone()));
        }
        match driver.wanted.policy.reboot.mode {
            RebootChoice::Default => {
                if !by_kexec {
                    found.push(format!("{act:?}, but the user wants no power cycle"));
                }
            }
            RebootChoice::Powercycle => {
                if by_kexec {
                    found.push(format!("{act:?}, but the user wants a power cycle"));
                }
            }
            RebootChoice::PowercycleFirst => {
                let tried = self.tried.contains(&(place, pool(node, scene)));
                if by_kexec && !tried && !driver.plan.rollback {
                    found.push(format!("{act:?} before the power cycle of a node in its pool"));
                }
            }
        }
    }
}

fn pool(node: &NodeName, scene: &Scene<'_>) -> Pool {
    if scene.notes.facts.node(node).is_some_and(|node| node.control_plane) {
        return Pool::ControlPlanes;
    }
    Pool::Workers(facts::pool(scene.view, node))
}

#[cfg(test)]
mod tests {
    use upgrade_core::plan::RebootMode;
    use upgrade_core::policy::RebootChoice;

    use super::super::testing::{Bench, NONE, wanted};
    use crate::trace::Act;

    /// Upgrades both workers with these modes, one after the other.
    fn upgrade(choice: RebootChoice, modes: [RebootMode; 2], verified: bool) -> Vec<u8> {
        let mut wanted = wanted();
        wanted.policy.reboot.mode = choice;
        let mut bench = Bench::with(3, 2, wanted);
        bench.ready(1);
        for (node, mode) in ["worker-1", "worker-2"].into_iter().zip(modes) {
            bench.take(1, node);
            bench.drain(1, node);
            bench.boot_by(1, node, mode);
            if verified {
                bench.verify_and_uncordon(1, node);
            } else {
                let uncordon = Act::Cordon { node: node.into(), on: false };
                bench.step(1, &format!("1/{node}/uncordon"), Some(uncordon));
            }
        }
        bench.broken()
    }

    #[test]
    fn a_power_cycle_needs_the_users_request() {
        use RebootMode::{Default, Powercycle};
        assert_eq!(upgrade(RebootChoice::Default, [Default, Default], true), NONE);
        assert_eq!(upgrade(RebootChoice::Default, [Powercycle, Default], true), [12]);
        assert_eq!(upgrade(RebootChoice::Powercycle, [Powercycle, Powercycle], true), NONE);
        assert_eq!(upgrade(RebootChoice::Powercycle, [Powercycle, Default], true), [12]);
    }

    #[test]
    fn the_other_nodes_wait_for_the_first() {
        use RebootMode::{Default, Powercycle};
        let first = RebootChoice::PowercycleFirst;
        assert_eq!(upgrade(first, [Powercycle, Default], true), NONE);
        assert_eq!(upgrade(first, [Powercycle, Default], false), [12]);
        assert_eq!(upgrade(first, [Default, Default], true), [12]);
    }
}
