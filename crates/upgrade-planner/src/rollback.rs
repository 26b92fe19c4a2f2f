//! The rollback of one node: a plan like any other, with one lane.
//!
//! No health gate delays it (rule 12); `decide` still keeps etcd's quorum
//! (rule 1). What speaks against it is reported here, when it is planned.

use std::collections::BTreeMap;

use upgrade_core::guard;
use upgrade_core::image::ImageRef;
use upgrade_core::jiff::SignedDuration;
use upgrade_core::matrix::{Matrix, Row};
use upgrade_core::mutant::Mutant;
use upgrade_core::plan::{
    Change, Group, Hop, Lane, PLAN_FORMAT, Plan, RebootMode, TalosTarget, Target, UpgradeApi,
    UpgradeMethod, Versions, Wave,
};
use upgrade_core::policy::{Policy, RebootChoice};
use upgrade_core::snapshot::{NodeName, Role, Snapshot, TalosFacts};
use upgrade_core::step::Action;
use upgrade_core::version::{Minor, Version};

use crate::downgrade;
use crate::etcd;
use crate::follow::OLDEST_HOST;
use crate::installer::{self, schematic_of};
use crate::lanes::{boots, lower, names, number_waves, prepare, pull, wave};
use crate::planner::Planned;
use crate::report::{Constraint, Product, Refusal, Report, Warning};
use crate::waves::Limits;

/// How a node goes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// To its other slot, which holds what ran before the last upgrade.
    Slot {
        /// The version that the slot holds, as the journal remembers it.
        version: Version,
        /// The schematic that it was made from, if that is remembered.
        schematic: Option<String>,
    },
    /// By installing this image.
    Image(ImageRef),
}

/// The rollback of one node.
#[derive(Clone, Debug)]
pub struct RollbackRequest<'a> {
    /// What was observed.
    pub snapshot: &'a Snapshot,
    /// Which node.
    pub node: &'a NodeName,
    /// How.
    pub way: Way,
    /// How it is to be done.
    pub policy: &'a Policy,
    /// What Talos supports.
    pub matrix: &'a Matrix,
}

/// Plans the rollback of one node, or says every reason why there is none.
pub fn rollback(request: &RollbackRequest<'_>) -> Result<Planned, Report> {
    let RollbackRequest { snapshot, node: name, way, policy, .. } = request;
    let mut report = Report::default();
    for problem in policy.problems() {
        report.refuse(Refusal::BadPolicy { problem: problem.to_string() });
    }
    let seen = snapshot.nodes.get(*name);
    let talos = seen.map_or(Err("it is not in the cluster"), |node| node.talos.as_result());
    // Kubernetes need not answer: the node may be the reason why it does not.
    let (Some(node), Ok(talos)) = (seen, talos) else {
        let why = talos.err().unwrap_or_default().to_owned();
        report.refuse(Refusal::NodeUnknown { node: (*name).clone(), why });
        return Err(report);
    };
    let Some((to, mut target)) = target(way, name, talos, &mut report) else {
        return Err(report);
    };
    fits(request, node.role, talos, &to, &mut report);
    let lowered = lower_etcd(request, &to, &mut target, &mut report);
    let members = snapshot.nodes_with(Role::ControlPlane).count();
    if target.method == UpgradeMethod::Legacy && node.role == Role::ControlPlane && members == 2 {
        target.force = matches!(way, Way::Image(_));
    }
    // Only an image is booted by a call that knows modes.
    if policy.reboot.mode == RebootChoice::Powercycle && matches!(way, Way::Image(_)) {
        target.reboot = RebootMode::Powercycle;
    }
    if !report.refusals.is_empty() {
        return Err(report);
    }
    let from = Versions {
        talos: Some(talos.version.clone()),
        kubernetes: snapshot.kubernetes.known().cloned(),
    };
    let after = Versions { talos: Some(to.clone()), ..from.clone() };
    let limits = Limits::new(snapshot, &policy.workers);
    let hop = Hop {
        number: 1,
        change: Change::Talos { from: talos.version.clone(), to },
        versions: after.clone(),
        // A node that is not healthy must not block its own rollback.
        limit: limits.shared.max(1),
        pool_limits: limits.pools.iter().map(|(pool, it)| (pool.clone(), (*it).max(1))).collect(),
        waves: waves(request, node.role, limits.pool(node.pool.as_deref()), target, lowered),
    };
    let plan = Plan {
        format: PLAN_FORMAT,
        cluster: snapshot.cluster.clone(),
        parent: None,
        rollback: true,
        from,
        to: after,
        policy: (*policy).clone(),
        prune: Vec::new(),
        nodes: BTreeMap::new(),
        hops: vec![hop],
    };
    Ok(Planned { plan, report })
}

/// What runs afterwards, and what brings it about.
fn target(
    way: &Way,
    node: &NodeName,
    talos: &TalosFacts,
    report: &mut Report,
) -> Option<(Version, TalosTarget)> {
    if guard!(Mutant::ContainerTaken, talos.container) {
        report.refuse(Refusal::ContainerMode { node: node.clone() });
        return None;
    }
    let own = installer::previous(node, talos);
    let (to, installer, schematic) = match way {
        Way::Slot { version, schematic } => {
            // Nothing is installed; the name is for readers of the plan.
            let image = own.as_ref().map_or_else(
                || ImageRef {
                    registry: Some("ghcr.io".to_owned()),
                    repository: "siderolabs/installer".to_owned(),
                    tag: Some(version.tag()),
                    digest: None,
                },
                |own| own.with_tag(&version.tag()),
            );
            (version.clone(), image, schematic.clone())
        }
        Way::Image(image) => {
            let Some(version) = image.version() else {
                let why = format!("{image} names no version in its tag");
                report.refuse(Refusal::NoInstaller { node: node.clone(), why });
                return None;
            };
            installer::refuse_other(node, talos, image, report);
            (version, image.clone(), schematic_of(image).map(ToOwned::to_owned))
        }
    };
    let target = TalosTarget {
        from: talos.version.clone(),
        method: UpgradeApi::of(&talos.version).into(),
        installer,
        schematic,
        extensions: None,
        previous: own,
        etcd: None,
        force: false,
        reboot: RebootMode::Default,
        platform: Some(talos.platform.clone()),
        secure_boot: Some(talos.secure_boot),
    };
    Some((to, target))
}

/// The minor that etcd has to be lowered to first, if it has to be (rule 13).
fn lower_etcd(
    request: &RollbackRequest<'_>,
    to: &Version,
    target: &mut TalosTarget,
    report: &mut Report,
) -> Option<Minor> {
    let RollbackRequest { snapshot, node, matrix, .. } = request;
    target.etcd = downgrade::lower_minor(snapshot, node, to, matrix);
    let etcd = target.etcd?;
    match downgrade::is_needed(snapshot, etcd) {
        Ok(needed) => needed.then_some(etcd),
        Err(why) => {
            report.refuse(Refusal::EtcdDowngrade { to: to.clone(), etcd, why });
            None
        }
    }
}

/// What speaks against it: a refusal where a rollback is impossible or not allowed, a warning
/// where the cluster is only unhealthy (rules 1, 12 and 13).
fn fits(
    request: &RollbackRequest<'_>,
    role: Role,
    talos: &TalosFacts,
    to: &Version,
    report: &mut Report,
) {
    let RollbackRequest { snapshot, node, policy, matrix, way } = request;
    let (from, to) = (talos.version.clone(), to.clone());
    // The other slot is only booted; an installer would wipe the node's data.
    if from.release() < OLDEST_HOST && matches!(way, Way::Image(_)) {
        report.refuse(Refusal::HostTooOld { talos: from.clone() });
    }
    if to >= from {
        report.refuse(Refusal::NoWayBack { product: Product::Talos, from, to });
        return;
    }
    if let Some(kubernetes) = snapshot.kubernetes.known()
        && !matrix.supports(&to, kubernetes)
    {
        let row = matrix.row(to.minor());
        let (oldest, newest) = row.map_or((to.minor(), to.minor()), Row::kubernetes_minors);
        let constraint = Constraint::Pair {
            talos: to.clone(),
            kubernetes: kubernetes.clone(),
            oldest,
            newest,
            needs: None,
        };
        let running = Versions { talos: Some(from), kubernetes: Some(kubernetes.clone()) };
        report.refuse(Refusal::NoPath { constraint, furthest: running.clone(), running });
    }
    if role != Role::ControlPlane {
        return;
    }
    let control_planes = snapshot.nodes_with(Role::ControlPlane).count();
    if !etcd::survives_one_loss(control_planes) {
        if policy.accept_outage {
            report.warn(Warning::Outage { control_planes });
        } else {
            report.refuse(Refusal::Outage { control_planes });
        }
    }
    for why in etcd::problems(snapshot, Some(node), true) {
        report.warn(Warning::EtcdNotWell { why });
    }
}

fn waves(
    request: &RollbackRequest<'_>,
    role: Role,
    pool: Option<&str>,
    target: TalosTarget,
    lowered: Option<Minor>,
) -> Vec<Wave> {
    let RollbackRequest { snapshot, node, way, policy, .. } = request;
    let (group, others) = match role {
        Role::ControlPlane => (Group::ControlPlane, snapshot.nodes_with(role).count() > 1),
        Role::Worker => (Group::Workers, false),
    };
    let installs = matches!(way, Way::Image(_));
    let mut steps = Vec::with_capacity(8);
    if installs && target.method == UpgradeMethod::Lifecycle {
        steps.push(Action::Install);
    }
    if others {
        steps.push(Action::Forfeit);
    }
    steps.push(Action::Cordon);
    if snapshot.nodes.len() > 1 {
        steps.push(Action::Drain);
    }
    steps.push(if installs { boots(target.method) } else { Action::Rollback });
    steps.extend([Action::Verify, Action::Uncordon]);
    if policy.soak > SignedDuration::ZERO {
        steps.push(Action::Soak);
    }
    let pulls = match way {
        Way::Image(image) => vec![pull(node, vec![image.clone()])],
        Way::Slot { .. } => Vec::new(),
    };
    // Rule 3 holds for a rollback as well.
    let mut waves = match (pulls.is_empty(), role) {
        (true, Role::Worker) => Vec::new(),
        (_, role) => prepare(pulls, &[], role == Role::ControlPlane),
    };
    waves.extend(lowered.map(|minor| wave(Group::Cluster, vec![lower(minor)])));
    let lane = Lane {
        node: Some((*node).clone()),
        pool: pool.map(ToOwned::to_owned),
        target: Target::Talos(Box::new(target)),
        steps: names(&steps),
    };
    waves.push(wave(group, vec![lane]));
    number_waves(waves)
}
