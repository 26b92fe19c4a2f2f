//! Whether etcd may lose a member for a while (rule 1).
//!
//! Since Talos 1.13 no node checks any of this for us. The gate is a pure
//! question about one observation; what is unknown counts as unsafe (rule 10).

use std::collections::BTreeSet;

use upgrade_core::guard;
use upgrade_core::mutant::Mutant;
use upgrade_core::snapshot::{EtcdFacts, MemberId, NodeName, Role, Snapshot};

/// How far applied indexes may lie apart. Members are asked one after the
/// other while writes continue, so they are never quite equal; a busy cluster
/// writes a few hundred entries a second, a lagging member lacks many thousands.
pub const MAX_APPLIED_LAG: u64 = 1_000;

/// Everything that speaks against disrupting the member on `node`. With `node`
/// absent: against disrupting any member at all.
///
/// An explicit `rollback` may disrupt the one member that is broken, since it counts for
/// nothing as it is; all others have to be healthy.
pub fn problems(snapshot: &Snapshot, node: Option<&NodeName>, rollback: bool) -> Vec<String> {
    let facts = match snapshot.etcd.as_result() {
        _ if !guard!(Mutant::QuorumGate) => return Vec::new(),
        Ok(facts) => facts,
        Err(_) if !guard!(Mutant::UnknownIsFine) => return Vec::new(),
        Err(why) => return vec![format!("etcd cannot be seen: {why}")],
    };
    if facts.members.is_empty() {
        return vec!["etcd shows no members".to_owned()];
    }
    let mut problems = membership(snapshot, facts);
    problems.extend(facts.alarms.iter().map(|alarm| format!("the alarm {alarm} is raised")));
    let everyone: BTreeSet<MemberId> = facts.members.iter().map(|member| member.id).collect();
    let mut leaders = BTreeSet::new();
    let mut applied = Vec::new();
    for member in &facts.members {
        if member.learner {
            problems.push(format!("{} is a learner", member.node));
        }
        // A learner answers no more than that.
        if member.learner || rollback && node == Some(&member.node) {
            continue;
        }
        let status = match member.status.as_result() {
            Ok(status) => status,
            Err(_) if !guard!(Mutant::UnknownIsFine) => continue,
            Err(why) => {
                problems.push(format!("{} does not answer: {why}", member.node));
                continue;
            }
        };
        for error in &status.errors {
            problems.push(format!("{} reports: {error}", member.node));
        }
        match status.leader {
            Some(leader) => leaders.extend([(leader, status.term)]),
            None => problems.push(format!("{} knows no leader", member.node)),
        }
        if status.sees != everyone {
            problems.push(format!("{} sees another member list", member.node));
        }
        applied.push((status.applied_index, &member.node));
    }
    if leaders.len() > 1 {
        problems.push("members disagree on the leader or its term".to_owned());
    }
    if let (Some((behind, slowest)), Some((ahead, _))) =
        (applied.iter().min(), applied.iter().max())
        && ahead - behind > MAX_APPLIED_LAG
    {
        problems.push(format!("{slowest} is {} entries behind", ahead - behind));
    }
    problems
}

/// Every control plane has a member, and every member its control plane.
fn membership(snapshot: &Snapshot, facts: &EtcdFacts) -> Vec<String> {
    let members: BTreeSet<&NodeName> = facts.members.iter().map(|member| &member.node).collect();
    let nodes: BTreeSet<&NodeName> =
        snapshot.nodes_with(Role::ControlPlane).map(|(name, _)| name).collect();
    let missing = nodes.difference(&members).map(|node| format!("{node} is not a member"));
    let foreign =
        members.difference(&nodes).map(|node| format!("member {node} is not a control plane"));
    missing.chain(foreign).collect()
}

/// Whether `voters` members keep their quorum without one of them.
pub const fn survives_one_loss(voters: usize) -> bool {
    voters > voters / 2 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quorum_arithmetic() {
        // Rule 1.
        for (voters, survives) in
            [(0, false), (1, false), (2, false), (3, true), (4, true), (5, true), (7, true)]
        {
            assert_eq!(survives_one_loss(voters), survives, "{voters}");
        }
    }
}
