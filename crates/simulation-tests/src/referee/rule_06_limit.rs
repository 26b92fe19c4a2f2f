//! Rule 6, how many: no more workers are unavailable than the policy allows, including those that
//! were down before.

use std::collections::BTreeMap;

use upgrade_core::amount::Amount;
use upgrade_core::jiff::SignedDuration;
use upgrade_core::policy::Policy;

use super::facts::{self, Node};
use super::notes::Blow;
use super::{Rule, Scene};
use crate::trace::{Act, TraceEvent, TraceKind, View};

/// A worker that broke down more recently than this need not be known yet.
const NEWS: SignedDuration = SignedDuration::from_secs(20);

/// Workers by the limit that applies to them: a pool's own, or the shared one.
type Sizes = BTreeMap<Option<String>, usize>;

#[derive(Default)]
pub(super) struct Limit {
    /// The numbers when the plan was made: percentages refer to these.
    planned: Sizes,
}

impl Rule for Limit {
    fn number(&self) -> u8 {
        6
    }

    fn see(&mut self, seen: &TraceEvent, scene: &Scene<'_>, found: &mut Vec<String>) {
        if let TraceKind::Starts { fresh: true, .. } = &seen.what {
            self.planned = sizes(scene, &scene.wanted.policy);
        }
        let Some(blow) = scene.notes.blow(seen).filter(|blow| !blow.node.control_plane) else {
            return;
        };
        let policy = &blow.driver.wanted.policy;
        if let Act::Configure { .. } = blow.act {
            let workers = |sizes: &Sizes| sizes.values().sum::<usize>();
            let whole = workers(&self.planned).max(scene.notes.facts.workers().count());
            let others = in_flight(&blow, scene).count();
            let limit = amount(policy.kubelets.max_parallel, whole);
            too_many(&blow, others, limit, found);
            return;
        }
        let group = group(scene.view, blow.node, policy);
        let now = sizes(scene, policy);
        let size = |sizes: &Sizes| sizes.get(&group).copied().unwrap_or_default();
        let whole = size(&self.planned).max(size(&now));
        let of_group = |node: &&Node| self::group(scene.view, node, policy) == group;
        let ours = in_flight(&blow, scene).filter(of_group);
        // A worker that is down itself adds nothing to the unavailable ones. Nor does a rollback
        // wait for the health of other nodes (rule 12).
        let counts = blow.node.up.value && !blow.driver.wanted.rollback;
        let down = known_down(&blow, scene).filter(|_| counts).filter(of_group);
        let away: std::collections::BTreeSet<_> = ours.chain(down).map(|node| &node.name).collect();
        let limit = match &group {
            Some(pool) => policy.workers.pools[pool],
            None => policy.workers.max_unavailable,
        };
        too_many(&blow, away.len(), amount(limit, whole), found);
    }
}

fn too_many(blow: &Blow<'_>, others: usize, limit: usize, found: &mut Vec<String>) {
    if others >= limit {
        let act = blow.act;
        found.push(format!(
            "{act:?} while {others} other workers are unavailable, of {limit} allowed"
        ));
    }
}

/// Other workers that we disrupted and that are not back.
fn in_flight<'a>(blow: &'a Blow<'_>, scene: &'a Scene<'_>) -> impl Iterator<Item = &'a Node> {
    let ours = scene.notes.our_cordons(scene.view);
    let ours: std::collections::BTreeSet<_> = ours.cloned().collect();
    let others = scene.notes.facts.workers().filter(|node| node.name != blow.node.name);
    others.filter(move |node| {
        let disturbed = scene.notes.is_disturbed(&node.name);
        ours.contains(&node.name) || disturbed && !node.up.value
    })
}

/// Other workers that the process must know to be down.
fn known_down<'a>(blow: &'a Blow<'_>, scene: &'a Scene<'_>) -> impl Iterator<Item = &'a Node> {
    let others = scene.notes.facts.workers().filter(|node| node.name != blow.node.name);
    others.filter(|node| {
        let Some(basis) = blow.basis else { return !node.up.value };
        let asked = blow.driver.facts(&node.name).any.min(basis.nodes.any);
        node.up.was(&false, asked) && basis.at.duration_since(node.up.since) > NEWS
    })
}

fn sizes(scene: &Scene<'_>, policy: &Policy) -> Sizes {
    let mut sizes = Sizes::new();
    for node in scene.notes.facts.workers() {
        *sizes.entry(group(scene.view, node, policy)).or_default() += 1;
    }
    sizes
}

/// The pool, if it has its own limit.
fn group(view: &View<'_>, node: &Node, policy: &Policy) -> Option<String> {
    if policy.workers.pools.is_empty() {
        return None;
    }
    facts::pool(view, &node.name).filter(|pool| policy.workers.pools.contains_key(pool))
}

/// Percentages round down, but to at least one.
fn amount(amount: Amount, whole: usize) -> usize {
    match amount {
        Amount::Count(count) => count,
        Amount::Percent(percent) => (whole * usize::from(percent) / 100).max(1),
    }
}

#[cfg(test)]
mod tests {
    use talos_sim::model::Fault;
    use upgrade_core::amount::Amount;

    use super::super::testing::{Bench, wanted};
    use crate::trace::Act;

    #[test]
    fn one_worker_too_many() {
        for (limit, allowed) in
            [(Amount::Count(1), 1), (Amount::Count(2), 2), (Amount::Percent(50), 2)]
        {
            let mut wanted = wanted();
            wanted.policy.workers.max_unavailable = limit;
            let mut bench = Bench::with(1, 4, wanted);
            bench.ready(1);
            for number in 1..=allowed {
                bench.take(1, &format!("worker-{number}"));
            }
            bench.assert_broken(&[]);
            bench.take(1, "worker-4");
            bench.assert_broken(&[6]);
        }
    }

    #[test]
    fn a_worker_that_is_down_counts() {
        let mut bench = Bench::new(1, 3);
        bench.ready(1);
        bench.inject("worker-3", &Fault::NotReady);
        bench.observe(1);
        bench.wait(60);
        // It may be disrupted itself: it is unavailable anyway.
        bench.take(1, "worker-3");
        bench.verify_and_uncordon(1, "worker-3");
        bench.assert_broken(&[]);
        bench.take(1, "worker-1");
        bench.assert_broken(&[6]);
    }

    #[test]
    fn kubelets_have_their_own_limit() {
        let mut wanted = wanted();
        wanted.policy.kubelets.max_parallel = Amount::Count(2);
        wanted.intent.talos = None;
        let mut bench = Bench::with(1, 3, wanted);
        bench.ready(1);
        for number in 1..=3 {
            let node = format!("worker-{number}");
            bench.assert_broken(&[]);
            let image = "ghcr.io/siderolabs/kubelet:v1.34.3".to_owned();
            let images = vec![("kubelet".to_owned(), image)];
            let act = Act::Configure { node: node.as_str().into(), images };
            bench.step(1, &format!("1/{node}/set-kubelet"), Some(act));
            // Its kubelet stays down.
            bench.inject(&node, &Fault::NotReady);
        }
        bench.assert_broken(&[6]);
    }
}
