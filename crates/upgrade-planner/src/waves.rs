//! The order of nodes: control planes one by one with the etcd leader last (rule 1),
//! workers within their limits (rule 6).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use upgrade_core::amount::Amount;
use upgrade_core::guard;
use upgrade_core::mutant::Mutant;
use upgrade_core::policy::Workers;
use upgrade_core::snapshot::{Node, NodeName, Role, Snapshot};

use crate::report::Refusal;

/// How many workers of each pool may be away at once, as numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For all workers without a limit of their own.
    pub shared: usize,
    /// For pools with one.
    pub pools: BTreeMap<String, usize>,
}

impl Limits {
    /// Turns percentages into numbers: of the pool where it has its own limit,
    /// of all other workers together elsewhere.
    pub fn new(snapshot: &Snapshot, policy: &Workers) -> Self {
        let mut sizes: BTreeMap<Option<&str>, usize> = BTreeMap::new();
        for (_, node) in snapshot.nodes_with(Role::Worker) {
            let pool = node.pool.as_deref().filter(|pool| policy.pools.contains_key(*pool));
            *sizes.entry(pool).or_default() += 1;
        }
        let size = |pool| sizes.get(&pool).copied().unwrap_or_default();
        Self {
            shared: policy.max_unavailable.of(size(None)),
            pools: policy
                .pools
                .iter()
                .map(|(pool, amount)| (pool.clone(), amount.of(size(Some(pool.as_str())))))
                .collect(),
        }
    }

    /// The pool whose own limit counts for a worker of `pool`.
    pub fn pool<'a>(&'a self, pool: Option<&str>) -> Option<&'a str> {
        pool.and_then(|pool| self.pools.get_key_value(pool)).map(|(pool, _)| pool.as_str())
    }

    fn limit(&self, pool: Option<&str>) -> usize {
        pool.and_then(|pool| self.pools.get(pool)).copied().unwrap_or(self.shared)
    }
}

/// Control planes in the order in which they go: by name, the etcd leader last.
pub fn control_planes<'a>(snapshot: &'a Snapshot) -> Vec<&'a NodeName> {
    let mut names: Vec<&'a NodeName> =
        snapshot.nodes_with(Role::ControlPlane).map(|(name, _)| name).collect();
    let leader = snapshot.etcd.known().and_then(|etcd| etcd.leader());
    names.sort_by(|a, b| {
        let last = |name: &NodeName| guard!(Mutant::LeaderStays, Some(name) == leader);
        last(a).cmp(&last(b)).then_with(|| natural(&a.0, &b.0))
    });
    names
}

/// Waves for those of the `workers` that have to move. Pools roll side by side,
/// each within its own limit; a worker that is down counts against the limit of
/// the others and goes last, when it can only win.
pub fn workers(
    snapshot: &Snapshot,
    limits: &Limits,
    moving: &[&NodeName],
) -> Result<Vec<Vec<NodeName>>, Vec<Refusal>> {
    let mut down: BTreeMap<Option<&str>, Vec<NodeName>> = BTreeMap::new();
    for (name, node) in snapshot.nodes_with(Role::Worker) {
        if !node.is_up() {
            down.entry(limits.pool(node.pool.as_deref())).or_default().push(name.clone());
        }
    }
    let mut queues: BTreeMap<Option<&str>, (Vec<&NodeName>, Vec<&NodeName>)> = BTreeMap::new();
    for name in moving {
        let Some(node) = snapshot.nodes.get(*name) else {
            continue;
        };
        let (up, not_up) = queues.entry(limits.pool(node.pool.as_deref())).or_default();
        if node.is_up() { up } else { not_up }.push(name);
    }
    let mut waves: Vec<Vec<NodeName>> = Vec::new();
    let mut refusals = Vec::new();
    for (pool, (mut up, mut not_up)) in queues {
        up.sort_by(|a, b| natural(&a.0, &b.0));
        not_up.sort_by(|a, b| natural(&a.0, &b.0));
        let limit = limits.limit(pool);
        let down = down.remove(&pool).unwrap_or_default();
        let room = limit.saturating_sub(down.len());
        if room == 0 && !up.is_empty() {
            refusals.push(Refusal::NoRoom { pool: pool.map(ToOwned::to_owned), limit, down });
            continue;
        }
        let chunks = up.chunks(room.max(1)).chain(not_up.chunks(limit.max(1)));
        for (number, chunk) in chunks.enumerate() {
            if waves.len() <= number {
                waves.push(Vec::new());
            }
            waves[number].extend(chunk.iter().map(|name| (*name).clone()));
        }
    }
    if refusals.is_empty() { Ok(waves) } else { Err(refusals) }
}

/// The workers that reboot ahead of the others of their pool: of those that have to move,
/// the first that is up. Workers without a pool are one.
pub fn firsts<'a>(snapshot: &Snapshot, moving: &[&'a NodeName]) -> Vec<&'a NodeName> {
    let mut firsts: BTreeMap<Option<&str>, &NodeName> = BTreeMap::new();
    for name in moving {
        let Some(node) = snapshot.nodes.get(*name).filter(|node| node.is_up()) else { continue };
        let first = firsts.entry(node.pool.as_deref()).or_insert(name);
        if natural(&name.0, &first.0) == Ordering::Less {
            *first = name;
        }
    }
    firsts.into_values().collect()
}

/// Waves for kubelets of workers: nothing leaves its node, so only the number
/// that restarts at once is limited. Workers that are down go last.
pub fn kubelets(snapshot: &Snapshot, width: Amount, moving: &[&NodeName]) -> Vec<Vec<NodeName>> {
    let mut order = moving.to_vec();
    let down = |name: &NodeName| !snapshot.nodes.get(name).is_some_and(Node::is_up);
    order.sort_by(|a, b| down(a).cmp(&down(b)).then_with(|| natural(&a.0, &b.0)));
    let width = width.of(snapshot.nodes_with(Role::Worker).count()).max(1);
    order.chunks(width).map(|chunk| chunk.iter().map(|name| (*name).clone()).collect()).collect()
}

/// Orders `worker-9` before `worker-10`: runs of digits count as numbers.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        let (text_a, number_a, rest_a) = part(a);
        let (text_b, number_b, rest_b) = part(b);
        let order = text_a.cmp(text_b).then(number_a.cmp(&number_b));
        if order != Ordering::Equal || (rest_a.is_empty() && rest_b.is_empty()) {
            return order;
        }
        (a, b) = (rest_a, rest_b);
    }
}

/// The text before the first number, the number, and what follows.
fn part(name: &str) -> (&str, Option<u64>, &str) {
    let digits = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let (text, tail) = name.split_at(digits);
    let end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
    let (number, rest) = tail.split_at(end);
    (text, number.parse().ok(), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_as_people_count() {
        let mut names = ["worker-10", "worker-9", "a", "worker-1-b", "worker-1"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["a", "worker-1", "worker-1-b", "worker-9", "worker-10"]);
    }
}
