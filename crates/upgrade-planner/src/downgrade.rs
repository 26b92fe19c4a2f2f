//! Whether a rollback needs etcd's own downgrade first (rule 13).
//!
//! Once every member runs a minor, etcd raises the cluster to it, and migrates its
//! data; a member of an older minor then exits. Before that the older minor
//! still starts, so a hop that is not through can be taken back without more.

use upgrade_core::guard;
use upgrade_core::matrix::Matrix;
use upgrade_core::mutant::Mutant;
use upgrade_core::snapshot::{EtcdFacts, Fact, MemberStatus, NodeName, Role, Snapshot};
use upgrade_core::version::{Minor, Version};

/// The first Talos with the calls of etcd's downgrade.
pub const CALLS_SINCE: Version = Version::new(1, 11, 0);

/// The lower minor of etcd that this control plane would start after its rollback;
/// `None` if it stays on the same one.
pub(crate) fn lower_minor(
    snapshot: &Snapshot,
    node: &NodeName,
    to: &Version,
    matrix: &Matrix,
) -> Option<Minor> {
    let seen = snapshot.nodes.get(node).filter(|node| node.role == Role::ControlPlane)?;
    let from = matrix.etcd(&seen.talos.known()?.version);
    let target = matrix.etcd(to)?;
    let runs = status(snapshot, node).and_then(|status| status.version);
    // A user's own etcd image stays what it is: the machine config names it.
    let own_image = runs.is_some() && from.is_some() && runs != from;
    let runs = runs.or(from);
    (!own_image && runs.is_none_or(|runs| target < runs)).then_some(target)
}

fn status<'a>(snapshot: &'a Snapshot, node: &NodeName) -> Option<&'a MemberStatus> {
    let members = &snapshot.etcd.known()?.members;
    members.iter().find(|member| member.node == *node)?.status.known()
}

/// Whether etcd's downgrade to `to` has to be run before a member of that minor
/// starts; `Err` says why it cannot be run.
pub(crate) fn is_needed(snapshot: &Snapshot, to: Minor) -> Result<bool, String> {
    if !guard!(Mutant::DowngradeSkipped) {
        return Ok(false);
    }
    let facts = match &snapshot.etcd {
        Fact::Known(facts) => facts,
        Fact::Unknown(why) => return Err(format!("etcd's version cannot be seen: {why}")),
        Fact::Unasked => return Err("etcd was not asked for its version".to_owned()),
    };
    let statuses = || facts.members.iter().filter_map(|member| member.status.known());
    // A member that runs the older minor keeps the cluster on it.
    let held = statuses().any(|status| status.version.is_some_and(|version| version <= to));
    if held && newer_data(facts, to).is_empty() {
        return Ok(false);
    }
    let storage = statuses().filter_map(|status| status.storage).max();
    let lowest = statuses().filter_map(|status| status.version).min();
    let Some(cluster) = storage.max(lowest) else {
        return Err("no member of etcd tells its version".to_owned());
    };
    if to.steps_to(cluster) != Some(1) {
        return Err(format!("etcd goes back one minor at a time, and its data is of {cluster}"));
    }
    let versions: Vec<&Version> = snapshot
        .nodes_with(Role::ControlPlane)
        .filter_map(|(_, node)| Some(&node.talos.known()?.version))
        .collect();
    if versions.iter().any(|version| has_calls(version)) {
        return Ok(true);
    }
    let newest = versions.iter().max();
    let runs = newest.map_or_else(String::new, |version| format!("Talos {version} runs; "));
    Err(format!("{runs}etcd's downgrade can be asked for since Talos {CALLS_SINCE}"))
}

/// Whether this Talos has the calls of etcd's downgrade.
pub fn has_calls(version: &Version) -> bool {
    version.release() >= CALLS_SINCE
}

/// The members whose data is of a newer minor than `to`, with that minor.
pub fn newer_data(facts: &EtcdFacts, to: Minor) -> Vec<(&NodeName, Minor)> {
    let members = facts.members.iter();
    members
        .filter_map(|member| {
            let storage = member.status.known()?.storage.filter(|storage| *storage > to)?;
            Some((&member.node, storage))
        })
        .collect()
}
