//! The way to what is wanted, and its first stretch.
//!
//! Both products are planned together, so that an impossible pair is refused at once, and then one
//! stretch is done: the hops of one product until the other has to move. After each stretch the
//! cluster is observed and the way is found again, so no plan is older than one stretch.
//!
//! This is the arithmetic of versions. Whether the cluster is fit for it is the planner's
//! question, when the run begins.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use upgrade_controller::front_end::Releases;
use upgrade_core::intent::Intent;
use upgrade_core::plan::{Change, Versions};
use upgrade_core::product::{Product, VersionRange};
use upgrade_core::snapshot::{Fact, NodeName, Snapshot};
use upgrade_core::version::Version;
use upgrade_planner::hops::{self, Leg};
use upgrade_planner::installer::wanted_schematic;
use upgrade_planner::report::Report;
use upgrade_planner::targets::{Start, TargetGroup};

use crate::advice;
use crate::intent::intent;
use crate::nodes::{Matching, NodeIdentity, identities};
use crate::unit::Unit;

/// What was observed of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedNode {
    /// Its role and addresses.
    pub identity: NodeIdentity,
    /// Its Talos.
    pub talos: Version,
    /// The schematic of what runs, if it shows one.
    pub schematic: Option<String>,
}

/// The versions that run, node by node: as they were observed, never as they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The nodes.
    pub nodes: BTreeMap<NodeName, ObservedNode>,
    /// Kubernetes: static pods, kube-proxy and kubelets alike.
    pub kubernetes: VersionRange,
}

impl Observed {
    /// Takes it from a snapshot whose versions are all known (rule 10); `None` if one is not.
    /// `ObservedVersions::of` says which.
    pub fn of(snapshot: &Snapshot, foreign: &BTreeSet<NodeName>) -> Option<Self> {
        if snapshot.unknown_nodes(foreign).next().is_some() {
            return None;
        }
        let Fact::Known(_) = snapshot.kubernetes else { return None };
        let kubernetes = snapshot.versions().kubernetes?;
        let mut identities = identities(snapshot);
        let nodes = snapshot.nodes.iter().map(|(name, node)| {
            let facts = node.talos.known()?;
            let identity = identities.remove(name)?;
            let (talos, schematic) = (facts.version.clone(), facts.schematic.clone());
            Some((name.clone(), ObservedNode { identity, talos, schematic }))
        });
        Some(Self { nodes: nodes.collect::<Option<_>>()?, kubernetes })
    }

    /// The nodes without their versions.
    pub fn identities(&self) -> BTreeMap<NodeName, NodeIdentity> {
        let nodes = self.nodes.iter();
        nodes.map(|(name, node)| (name.clone(), node.identity.clone())).collect()
    }
}

/// Where to go next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Path {
    /// Everything runs as wanted.
    Done,
    /// There is something to do.
    Stretch(Box<Stretch>),
    /// There is no way. The text says why and what to do.
    Refused(String),
}

/// Hops of one product, as one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// What moves.
    pub product: Product,
    /// The newest version that it ends on; on a rollback the oldest.
    pub to: Version,
    /// What the run is to reach.
    pub intent: Intent,
    /// Whether more is to do afterwards.
    pub more: bool,
}

/// A wanted version that is older than what runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Below {
    /// Of what.
    pub product: Product,
    /// The node; `None` for Kubernetes.
    pub node: Option<NodeName>,
    /// What is wanted.
    pub wanted: Version,
    /// What runs.
    pub runs: Version,
}

/// Every wanted version that is older than what runs: a mistake, unless the user wants to go
/// back (rule 13).
pub fn below(unit: &Unit, matching: &Matching, observed: &Observed) -> Vec<Below> {
    let nodes = matching.machine_of.iter().filter_map(|(name, at)| {
        let machine = &unit.machines[*at];
        let runs = &observed.nodes.get(name)?.talos;
        let wanted = machine.talos.as_ref().filter(|_| machine.hold.is_none())?;
        let (product, node) = (Product::Talos, Some(name.clone()));
        let it = || Below { product, node, wanted: wanted.clone(), runs: runs.clone() };
        (wanted < runs).then(it)
    });
    let runs = &observed.kubernetes.newest;
    let kubernetes = unit.kubernetes.as_ref().filter(|wanted| *wanted < runs);
    let kubernetes = kubernetes.map(|wanted| Below {
        product: Product::Kubernetes,
        node: None,
        wanted: wanted.clone(),
        runs: runs.clone(),
    });
    nodes.chain(kubernetes).collect()
}

/// Finds the way.
pub fn path(
    unit: &Unit,
    matching: &Matching,
    observed: &Observed,
    rollback: bool,
    releases: Releases<'_>,
) -> Path {
    let whole = intent(unit, matching, rollback);
    let mut report = Report::default();
    let start = start(observed, &whole);
    let Releases { matrix, catalogue } = releases;
    let Some(legs) = hops::find(&start, &whole, matrix, catalogue, &mut report) else {
        return Path::Refused(refused(&report));
    };
    let Some(first) = legs.first() else {
        return other_content(&whole, observed)
            .map_or(Path::Done, |it| Path::Stretch(Box::new(it)));
    };
    let product = first.change.product();
    let own: Vec<&Leg> = legs.iter().take_while(|leg| leg.change.product() == product).collect();
    let ends = own.iter().map(|leg| leg.change.to());
    let to = if rollback { ends.min() } else { ends.max() };
    let Some(to) = to.cloned() else { return Path::Done };
    let intent = match product {
        Product::Talos => intent(&talos_only(unit, &own), matching, rollback),
        Product::Kubernetes => intent(&kubernetes_only(unit, &to), matching, rollback),
    };
    Path::Stretch(Box::new(Stretch { product, to, intent, more: own.len() < legs.len() }))
}

/// Where an observed cluster begins. The planner takes the same from a whole snapshot.
fn start(observed: &Observed, intent: &Intent) -> Start {
    let mut groups: BTreeMap<&Version, Vec<&Version>> = BTreeMap::new();
    let mut left = BTreeSet::new();
    for (name, node) in &observed.nodes {
        match intent.talos_of(name) {
            Some(target) => groups.entry(target).or_default().push(&node.talos),
            None => drop(left.insert(node.talos.clone())),
        }
    }
    let end = |versions: &mut dyn Iterator<Item = &Version>| {
        if intent.rollback { versions.max() } else { versions.min() }.cloned()
    };
    let groups: Vec<TargetGroup> = groups
        .into_iter()
        .filter_map(|(target, from)| {
            Some(TargetGroup { target: target.clone(), from: end(&mut from.into_iter())? })
        })
        .collect();
    let talos = if groups.is_empty() {
        left.clear();
        end(&mut observed.nodes.values().map(|node| &node.talos))
    } else {
        end(&mut groups.iter().map(|group| &group.from))
    };
    let VersionRange { lowest, newest } = &observed.kubernetes;
    let kubernetes = Some(if intent.rollback { newest } else { lowest }.clone());
    let running = Versions { talos, kubernetes };
    Start { running, behind: Some(lowest.clone()), groups, left }
}

/// The unit with the versions that Talos reaches in these legs. Images keep their name, and get
/// the tag of the version: the wanted one may be several hops away.
fn talos_only(unit: &Unit, legs: &[&Leg]) -> Unit {
    let reached = |target: &Version| {
        let own = legs.iter().rev().find(|leg| leg.targets.contains(target))?;
        match &own.change {
            Change::Talos { to, .. } => Some(to.clone()),
            Change::Kubernetes { .. } => None,
        }
    };
    let mut unit = Unit { kubernetes: None, ..unit.clone() };
    unit.talos = unit.talos.as_ref().and_then(reached);
    for machine in &mut unit.machines {
        let wanted = machine.talos.take();
        machine.talos = wanted.as_ref().and_then(reached);
        if machine.talos != wanted {
            let image = machine.image.take().zip(machine.talos.as_ref());
            machine.image = image.map(|(image, version)| image.with_tag(&version.tag()));
        }
    }
    unit
}

fn kubernetes_only(unit: &Unit, to: &Version) -> Unit {
    let mut unit = Unit { talos: None, kubernetes: Some(to.clone()), ..unit.clone() };
    for machine in &mut unit.machines {
        (machine.talos, machine.image) = (None, None);
    }
    unit
}

/// Nodes that run the wanted version and lack the wanted content take a run, too.
fn other_content(whole: &Intent, observed: &Observed) -> Option<Stretch> {
    let lacking = observed.nodes.iter().find(|(name, node)| {
        let schematic = wanted_schematic(whole.installer_of(name));
        whole.talos_of(name).is_some()
            && schematic.is_some_and(|wanted| node.schematic.as_deref() != Some(wanted))
    });
    let to = whole.talos_of(lacking?.0)?.clone();
    let intent = Intent { kubernetes: None, ..whole.clone() };
    Some(Stretch { product: Product::Talos, to, intent, more: false })
}

/// How many reasons a refusal names.
const REASONS: usize = 3;

fn refused(report: &Report) -> String {
    let reasons = report.refusals.iter().take(REASONS);
    let mut texts: Vec<_> = reasons
        .map(|refusal| format!("{refusal} ({})", advice::brief(&refusal.advice())))
        .collect();
    if let more @ 1.. = report.refusals.len().saturating_sub(REASONS) {
        texts.push(format!("and {more} more reasons"));
    }
    texts.join("; ")
}
