//! Which node is to run which Talos. Nodes with the same target move together; those that
//! the user holds, or that have no target, stay as they are.

use std::collections::{BTreeMap, BTreeSet};

use upgrade_core::image::ImageRef;
use upgrade_core::intent::{Installer, Intent};
use upgrade_core::matrix::Matrix;
use upgrade_core::plan::{Change, NodeTarget, Versions};
use upgrade_core::snapshot::{Fact, Node, NodeName, Role, Snapshot};
use upgrade_core::version::{Minor, Version};

use crate::hops::Leg;
use crate::report::{Note, Refusal, Report, Warning};

/// How many minors a kubelet may be behind its API servers.
const KUBELET_SKEW: u64 = 3;

/// Nodes that are to run the same Talos.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetGroup {
    /// What they are to run.
    pub target: Version,
    /// The lowest version among them; on a rollback the highest.
    pub from: Version,
}

/// Where a path begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// What runs on the nodes that move: a cluster is as old as its oldest part. On a
    /// rollback it is as new as its newest, or the nodes that were upgraded first would
    /// be forgotten.
    pub running: Versions,
    /// The lowest Kubernetes that runs. Where it is another minor than the highest, a hop
    /// never came to its end, and may be taken back.
    pub behind: Option<Version>,
    /// The nodes that have a Talos target, lowest target first.
    pub groups: Vec<TargetGroup>,
    /// The Talos versions of the nodes that stay, while others move.
    pub left: BTreeSet<Version>,
}

impl Start {
    /// Where a cluster begins whose nodes all run the same.
    pub fn uniform(running: Versions, behind: Option<Version>, intent: &Intent) -> Self {
        let group = |(target, from): (&Version, &Version)| TargetGroup {
            target: target.clone(),
            from: from.clone(),
        };
        let groups = intent.talos.as_ref().zip(running.talos.as_ref()).map(group);
        Self { groups: groups.into_iter().collect(), running, behind, left: BTreeSet::new() }
    }

    /// Where an observed cluster begins.
    pub fn of(snapshot: &Snapshot, intent: &Intent) -> Self {
        let mut groups: BTreeMap<&Version, Vec<&Version>> = BTreeMap::new();
        let mut left = BTreeSet::new();
        let mut all = Vec::new();
        for (name, node) in &snapshot.nodes {
            let Some(facts) = node.talos.known() else { continue };
            all.push(&facts.version);
            match intent.talos_of(name).filter(|_| below(name, node, intent).is_none()) {
                Some(target) => groups.entry(target).or_default().push(&facts.version),
                None => drop(left.insert(facts.version.clone())),
            }
        }
        let end = |versions: &mut dyn Iterator<Item = &Version>| {
            if intent.rollback { versions.max() } else { versions.min() }.cloned()
        };
        let group = |(target, versions): (&Version, Vec<&Version>)| {
            Some(TargetGroup { target: target.clone(), from: end(&mut versions.into_iter())? })
        };
        let mut groups: Vec<TargetGroup> = groups.into_iter().filter_map(group).collect();
        groups.sort_by(|a, b| a.target.cmp(&b.target));
        let talos = if groups.is_empty() {
            left.clear();
            end(&mut all.into_iter())
        } else {
            end(&mut groups.iter().map(|group| &group.from))
        };
        let kubernetes = kubernetes(snapshot, intent);
        let behind = kubernetes.iter().min().cloned();
        let kubernetes = end(&mut kubernetes.iter());
        Self { running: Versions { talos, kubernetes }, behind, groups, left }
    }
}

/// Every Kubernetes version that runs where something may be done.
fn kubernetes(snapshot: &Snapshot, intent: &Intent) -> Vec<Version> {
    // Without this question nothing is to be said of Kubernetes at all; an
    // answer that did not come leaves what the machines say.
    if snapshot.kubernetes == Fact::Unasked {
        return Vec::new();
    }
    let nodes = || snapshot.nodes.iter().filter(|(name, _)| !intent.holds(name));
    let kubelets = nodes().filter_map(|(_, node)| Some(node.kubernetes.known()?.kubelet.clone()));
    let images = nodes().filter_map(|(_, node)| node.images.known());
    let images = images.flat_map(|images| images.values()).filter_map(ImageRef::version);
    kubelets.chain(images).chain(snapshot.kubernetes.known().cloned()).collect()
}

/// The version that a node was given for itself and is past already.
fn below<'a>(name: &NodeName, node: &Node, intent: &'a Intent) -> Option<&'a Version> {
    let own = intent.own_talos(name).filter(|_| !intent.rollback && !intent.holds(name))?;
    (*own < node.talos.known()?.version).then_some(own)
}

/// Whether a leg moves this node.
pub(crate) fn takes_part(intent: &Intent, leg: &Leg, name: &NodeName) -> bool {
    intent.talos_of(name).is_some_and(|target| leg.targets.contains(target))
}

/// Refuses intents for single nodes that cannot be meant: nodes that are not there,
/// versions below what runs (rule 13), images of another version.
pub(crate) fn contradictions(snapshot: &Snapshot, intent: &Intent, report: &mut Report) {
    for (name, own) in &intent.nodes {
        let Some(node) = snapshot.nodes.get(name) else {
            let nodes = snapshot.nodes.keys().cloned().collect();
            report.refuse(Refusal::NoSuchNode { node: name.clone(), nodes });
            continue;
        };
        if let (Some(version), Some(facts)) = (below(name, node, intent), node.talos.known()) {
            let (to, from) = (version.clone(), facts.version.clone());
            report.refuse(Refusal::NodeDowngrade { node: name.clone(), from, to });
        }
        let wanted = intent.talos_of(name);
        if let (Some(Installer::Image(image)), Some(wanted)) = (&own.installer, wanted)
            && image.version().is_some_and(|named| named != *wanted)
        {
            let (image, version) = (image.clone(), wanted.clone());
            report.refuse(Refusal::OtherTag { node: name.clone(), image, version });
        }
    }
}

/// What nodes that stay behind mean for the rest: told, or refused where it would break
/// Kubernetes or etcd (rule 13).
pub(crate) fn consequences(
    snapshot: &Snapshot,
    intent: &Intent,
    legs: &[Leg],
    matrix: &Matrix,
    report: &mut Report,
) {
    if intent.nodes.is_empty() {
        return;
    }
    tell(snapshot, intent, report);
    if let Some(to) = legs.iter().rev().find_map(|leg| match &leg.change {
        Change::Kubernetes { to, .. } => Some(to),
        Change::Talos { .. } => None,
    }) {
        held_from_kubernetes(snapshot, intent, to, report);
    }
    mixed_control_planes(snapshot, intent, legs, matrix, report);
}

fn tell(snapshot: &Snapshot, intent: &Intent, report: &mut Report) {
    let names = || snapshot.nodes.keys();
    let held: Vec<_> = names().filter(|name| intent.holds(name)).cloned().collect();
    if !held.is_empty() {
        report.note(Note::Held { nodes: held });
    }
    let mut own: BTreeMap<&Version, Vec<NodeName>> = BTreeMap::new();
    for name in names().filter(|name| !intent.holds(name)) {
        if let Some(version) = intent.own_talos(name) {
            own.entry(version).or_default().push(name.clone());
        }
    }
    for (version, nodes) in own {
        report.note(Note::OwnVersion { version: version.clone(), nodes });
    }
}

/// API servers move before everything else, all of them; kubelets may stay behind for
/// three minors, and never be ahead.
fn held_from_kubernetes(snapshot: &Snapshot, intent: &Intent, to: &Version, report: &mut Report) {
    for (name, node) in snapshot.nodes.iter().filter(|(name, _)| intent.holds(name)) {
        let images = node.images.known().into_iter().flat_map(|images| images.values());
        let kubelet = node.kubernetes.known().map(|facts| &facts.kubelet);
        if node.role == Role::ControlPlane {
            let runs: Vec<Version> =
                images.filter_map(ImageRef::version).chain(kubelet.cloned()).collect();
            let other =
                runs.iter().find(|runs| if intent.rollback { *runs > to } else { *runs < to });
            if let Some(running) = other.cloned() {
                let (node, to) = (name.clone(), to.clone());
                report.refuse(Refusal::HeldControlPlane { node, running, to });
            }
        } else if let Some(kubelet) = kubelet {
            let steps = kubelet.minor().steps_to(to.minor());
            if kubelet > to && intent.rollback || steps.is_some_and(|steps| steps > KUBELET_SKEW) {
                let (node, kubelet, to) = (name.clone(), kubelet.clone(), to.clone());
                report.refuse(Refusal::HeldKubelet { node, kubelet, to });
            }
        }
    }
}

/// Control planes that end on different Talos versions. Their members of etcd may be one
/// minor apart, and no more.
fn mixed_control_planes(
    snapshot: &Snapshot,
    intent: &Intent,
    legs: &[Leg],
    matrix: &Matrix,
    report: &mut Report,
) {
    let control_planes = snapshot.nodes_with(Role::ControlPlane);
    let mut runs: BTreeMap<&NodeName, &Version> = control_planes
        .filter_map(|(name, node)| Some((name, &node.talos.known()?.version)))
        .collect();
    let mut moved = false;
    for leg in legs {
        let Change::Talos { to, .. } = &leg.change else { continue };
        for (name, version) in &mut runs {
            if takes_part(intent, leg, name) && (intent.rollback || **version < *to) {
                *version = to;
                moved = true;
            }
        }
        let etcd = |version: &Version| matrix.etcd(version);
        let lowest = runs.iter().filter_map(|(name, it)| Some((etcd(it)?, name))).min();
        let highest = runs.values().filter_map(|it| etcd(it)).max();
        if let (Some((low, node)), Some(high)) = (lowest, highest)
            && low.steps_to(high).is_some_and(|steps| steps > 1)
        {
            let (node, talos) = ((*node).clone(), runs[*node].clone());
            let to = to.clone();
            report.refuse(Refusal::EtcdApart { node, talos, etcd: low, to, brings: high });
            return;
        }
    }
    let mut versions: BTreeMap<Version, Vec<NodeName>> = BTreeMap::new();
    for (name, version) in runs {
        versions.entry(version.clone()).or_default().push(name.clone());
    }
    if moved && versions.len() > 1 {
        let minors: BTreeSet<Minor> = versions.keys().filter_map(|it| matrix.etcd(it)).collect();
        let etcd = minors.first().filter(|_| minors.len() > 1).copied();
        report.warn(Warning::MixedControlPlanes { versions, etcd });
    }
}

/// What happens to the nodes with an intent of their own, for readers of the plan.
pub(crate) fn of_nodes(
    snapshot: &Snapshot,
    intent: &Intent,
    legs: &[Leg],
) -> BTreeMap<NodeName, NodeTarget> {
    let moves = legs.iter().any(|leg| matches!(leg.change, Change::Talos { .. }));
    let names = snapshot.nodes.iter().filter(|(name, _)| intent.nodes.contains_key(*name));
    names
        .filter_map(|(name, node)| {
            let hold = intent.holds(name);
            let runs = node.talos.known().map(|facts| &facts.version);
            let talos = intent.talos_of(name).max(runs.filter(|_| !intent.rollback));
            let talos = if hold { runs } else { talos };
            let target = NodeTarget { talos: talos.filter(|_| moves).cloned(), hold };
            (target != NodeTarget::default()).then(|| (name.clone(), target))
        })
        .collect()
}
