//! Checks a finished plan independently.
//!
//! The planner is careful; this file does not believe it. It shares no logic
//! with the planner beyond the data types, and names every finding by the rule
//! of the design that it touches. A fatal finding stops the run before it starts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};

use serde::Serialize;
use upgrade_core::guard;
use upgrade_core::jiff::SignedDuration;
use upgrade_core::matrix::Matrix;
use upgrade_core::mutant::Mutant;
use upgrade_core::plan::{
    Change, Group, Hop, Lane, PLAN_FORMAT, Plan, RebootMode, TalosTarget, Target, Wave,
};
use upgrade_core::policy::{Prune, RebootChoice};
use upgrade_core::snapshot::{NodeName, Role, Snapshot};
use upgrade_core::step::Action;
use upgrade_core::version::Version;

mod nodes;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The plan may be run; a user should check this first.
    Warning,
    /// The plan must not be run.
    Fatal,
}

/// A rule that the plan touches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule's number in the design.
    pub rule: u8,
    /// How bad it is.
    pub severity: Severity,
    /// What was found.
    pub text: String,
}

impl Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {}: {}", self.rule, self.text)
    }
}

/// Everything about the plan that breaks a rule, given what was observed.
pub fn check(plan: &Plan, snapshot: &Snapshot, matrix: &Matrix) -> Vec<Finding> {
    let mut checker = Checker { plan, snapshot, matrix, findings: Vec::new() };
    checker.identity();
    checker.versions();
    checker.each_node();
    checker.deadlines();
    checker.prunes();
    let mut seen = BTreeSet::new();
    for hop in &plan.hops {
        checker.snapshot_first(hop);
        checker.leader_last(hop);
        checker.etcd_lowered(hop);
        checker.reboots(hop);
        for wave in &hop.waves {
            checker.width(hop, wave);
            for lane in &wave.lanes {
                checker.lane(hop, wave, lane, &mut seen);
            }
        }
    }
    checker.findings
}

struct Checker<'a> {
    plan: &'a Plan,
    snapshot: &'a Snapshot,
    matrix: &'a Matrix,
    findings: Vec<Finding>,
}

impl<'a> Checker<'a> {
    fn fatal(&mut self, rule: u8, text: String) {
        self.findings.push(Finding { rule, severity: Severity::Fatal, text });
    }

    fn role(&self, node: &NodeName) -> Option<Role> {
        self.snapshot.nodes.get(node).map(|node| node.role)
    }

    /// Rules 8 and 9: the right cluster, a form we understand, unique steps.
    fn identity(&mut self) {
        if self.plan.format != PLAN_FORMAT {
            let format = self.plan.format;
            self.fatal(9, format!("the plan has form {format}, this program reads {PLAN_FORMAT}"));
        }
        if self.plan.cluster != self.snapshot.cluster {
            let (plan, seen) = (&self.plan.cluster, &self.snapshot.cluster);
            self.fatal(9, format!("the plan is for {plan}, what was observed is {seen}"));
        }
        let mut steps = BTreeSet::new();
        for step in self.plan.steps() {
            if let Some(twice) = steps.replace(step) {
                self.fatal(8, format!("{twice} is planned twice"));
            }
        }
    }

    /// Rule 13: every hop is a supported step from where the one before ended. Where nodes
    /// have targets of their own, hops of Talos lie side by side: `each_node` follows them.
    fn versions(&mut self) {
        let mut running = self.plan.from.clone();
        let alike = self.plan.nodes.is_empty();
        for hop in &self.plan.hops {
            let number = hop.number;
            let (slot, follows) = match &hop.change {
                Change::Talos { .. } => (&mut running.talos, alike),
                Change::Kubernetes { .. } => (&mut running.kubernetes, true),
            };
            if slot.as_ref() != Some(hop.change.from()) && follows {
                self.findings.push(Finding {
                    rule: 13,
                    severity: Severity::Fatal,
                    text: format!("hop {number} does not start where the one before ended"),
                });
            }
            *slot = Some(hop.change.to().clone());
            if !alike {
                running.talos.clone_from(&hop.versions.talos);
            }
            if hop.versions != running {
                self.fatal(13, format!("hop {number} says it ends elsewhere than it does"));
            }
            self.step_of_versions(number, &hop.change);
            if let (Some(talos), Some(kubernetes)) = (&running.talos, &running.kubernetes)
                && !self.matrix.supports(talos, kubernetes)
            {
                let pair = format!("Talos {talos} with Kubernetes {kubernetes}");
                self.fatal(13, format!("hop {number} ends on {pair}, which is not supported"));
            }
        }
        if !alike {
            running.talos.clone_from(&self.plan.to.talos);
        }
        if running != self.plan.to {
            self.fatal(13, "the hops do not end on the plan's target".to_owned());
        }
    }

    fn step_of_versions(&mut self, number: u32, change: &Change) {
        let (from, to) = (change.from(), change.to());
        let product = change.product();
        if to < from && !self.plan.rollback {
            self.fatal(13, format!("hop {number} takes {product} down from {from} to {to}"));
        }
        match change {
            Change::Talos { .. } if !self.matrix.accepts(from, to) => {
                self.fatal(13, format!("Talos {to} cannot be installed over {from}"));
            }
            Change::Kubernetes { .. } if !within_a_minor(from, to) => {
                self.fatal(13, format!("hop {number} skips a Kubernetes minor: {from} to {to}"));
            }
            _ => {}
        }
    }

    /// Rule 11: nothing is waited for without end.
    fn deadlines(&mut self) {
        for action in Action::ALL {
            if action.timeout(&self.plan.policy) <= SignedDuration::ZERO {
                self.fatal(11, format!("{action} has no deadline"));
            }
        }
    }

    /// Rule 10: what takes others along is deleted with consent only, and a way
    /// back deletes nothing.
    fn prunes(&mut self) {
        let Plan { prune, policy, rollback, .. } = self.plan;
        for object in prune {
            let allowed = match policy.manifests.prune {
                Prune::None => false,
                Prune::Safe => !guard!(Mutant::PruneAll, object.takes_others_along()),
                Prune::All => true,
            };
            if !allowed || *rollback {
                self.fatal(10, format!("{object} would be deleted without consent"));
            }
        }
    }

    /// Rule 3: a snapshot before the first control plane.
    fn snapshot_first(&mut self, hop: &Hop) {
        let has = |wave: &Wave, action| wave.lanes.iter().any(|lane| lane.has(action));
        let disrupted = hop.waves.iter().position(|wave| {
            wave.lanes.iter().any(|lane| {
                let node = lane.node.as_ref().and_then(|node| self.role(node));
                node == Some(Role::ControlPlane) && lane.actions().any(Action::is_disruptive)
            })
        });
        let taken = hop.waves.iter().position(|wave| has(wave, Action::SnapshotEtcd));
        if let Some(disrupted) = disrupted
            && taken.is_none_or(|taken| taken >= disrupted)
        {
            let number = hop.number;
            self.fatal(3, format!("hop {number} disrupts a control plane without a snapshot"));
        }
    }

    /// Rule 1: the leader goes last, or gives leadership away first.
    fn leader_last(&mut self, hop: &Hop) {
        let Some(leader) = self.snapshot.etcd.known().and_then(|etcd| etcd.leader()) else {
            return;
        };
        let mut rebooting: Vec<&Lane> = Vec::new();
        for lane in hop.lanes() {
            let is_control_plane =
                lane.node.as_ref().and_then(|node| self.role(node)) == Some(Role::ControlPlane);
            if is_control_plane && lane.actions().any(Action::boots) {
                rebooting.push(lane);
            }
        }
        if let [_, .., _] = rebooting.as_slice()
            && let Some(place) =
                rebooting.iter().position(|lane| lane.node.as_ref() == Some(leader))
            && place + 1 < rebooting.len()
            && !rebooting[place].has(Action::Forfeit)
        {
            let number = hop.number;
            self.fatal(1, format!("hop {number} reboots the etcd leader {leader} before others"));
        }
    }

    /// Rule 13: no control plane goes back to a minor of etcd that does not start on
    /// the data of another member, unless etcd was downgraded before.
    fn etcd_lowered(&mut self, hop: &Hop) {
        let Change::Talos { from, to } = &hop.change else { return };
        let (Some(etcd), Some(facts)) = (self.matrix.etcd(to), self.snapshot.etcd.known()) else {
            return;
        };
        let statuses = facts.members.iter().filter_map(|member| member.status.known());
        let newer = statuses.filter_map(|status| status.storage).max().filter(|it| *it > etcd);
        let brings_newer = self.matrix.etcd(from).is_none_or(|before| before > etcd);
        let (Some(newer), true) = (newer, brings_newer && to < from) else { return };
        let lowers =
            |wave: &Wave| wave.lanes.iter().any(|lane| lane.target == Target::Etcd { minor: etcd });
        let boots = |wave: &Wave| {
            let is_control_plane = |lane: &Lane| {
                lane.node.as_ref().and_then(|node| self.role(node)) == Some(Role::ControlPlane)
            };
            let boots = |lane: &Lane| lane.actions().any(Action::boots);
            wave.lanes.iter().any(|lane| is_control_plane(lane) && boots(lane))
        };
        let first = hop.waves.iter().find(|wave| lowers(wave) || boots(wave));
        if guard!(Mutant::DowngradeSkipped, first.is_some_and(|wave| !lowers(wave))) {
            let number = hop.number;
            let data = format!("etcd's data is of {newer}");
            self.fatal(13, format!("hop {number} goes back to etcd {etcd} while {data}"));
        }
    }

    /// Rules 1 and 6: how many nodes a wave takes away.
    fn width(&mut self, hop: &Hop, wave: &Wave) {
        let at = format!("wave {} of hop {}", wave.number, hop.number);
        let mut control_planes = 0;
        let mut workers: BTreeMap<Option<&str>, usize> = BTreeMap::new();
        for lane in &wave.lanes {
            let Some(node) = &lane.node else { continue };
            if !lane.actions().any(Action::is_disruptive) {
                continue;
            }
            match self.snapshot.nodes.get(node) {
                Some(seen) if seen.role == Role::Worker => {
                    let (pool, _) = hop.limit_for(seen.pool.as_deref());
                    *workers.entry(pool).or_default() += 1;
                }
                _ => control_planes += 1,
            }
        }
        if control_planes > 1 {
            self.fatal(1, format!("{at} disrupts {control_planes} control planes"));
        }
        if control_planes > 0 && (wave.lanes.len() > 1 || wave.group != Group::ControlPlane) {
            self.fatal(1, format!("{at} disrupts a control plane beside other nodes"));
        }
        for (pool, count) in workers {
            let limit = pool.and_then(|pool| hop.pool_limits.get(pool)).unwrap_or(&hop.limit);
            if count > *limit {
                let of = pool.map(|pool| format!(" of pool {pool}")).unwrap_or_default();
                self.fatal(6, format!("{at} takes {count} workers{of} away, {limit} may be"));
            }
        }
    }

    fn lane(&mut self, hop: &Hop, wave: &Wave, lane: &'a Lane, seen: &mut BTreeSet<&'a NodeName>) {
        let Some(node) = &lane.node else { return };
        let at = format!("hop {}, wave {}: {node}", hop.number, wave.number);
        let Some(observed) = self.snapshot.nodes.get(node) else {
            self.fatal(10, format!("{at} was not observed"));
            return;
        };
        let Target::Talos(target) = &lane.target else { return };
        self.order_of_steps(&at, lane);
        let Ok(talos) = observed.talos.as_result() else {
            self.fatal(10, format!("{at}: its Talos version is unknown"));
            return;
        };
        if seen.insert(node) && talos.version != target.from {
            let (expected, found) = (&target.from, &talos.version);
            self.fatal(10, format!("{at} runs {found}, the plan expects {expected}"));
        }
        let names: Vec<&str> = talos.extensions.iter().map(|it| it.name.as_str()).collect();
        self.nothing_dropped(&at, hop, target, &names);
    }

    /// Rule 12: nodes reboot as the policy says. Of each pool one has come back through its
    /// firmware before the others follow by kexec, where that is wanted.
    fn reboots(&mut self, hop: &Hop) {
        let mode = self.plan.policy.reboot.mode;
        let first = mode == RebootChoice::PowercycleFirst && !self.plan.rollback;
        let mut tried: BTreeSet<(Role, Option<&str>)> = BTreeSet::new();
        for wave in &hop.waves {
            let mut here = BTreeSet::new();
            for lane in &wave.lanes {
                let (Some(node), Target::Talos(target)) = (&lane.node, &lane.target) else {
                    continue;
                };
                let Some(seen) = self.snapshot.nodes.get(node) else { continue };
                let pool = (seen.role, seen.pool.as_deref());
                let cycles = target.reboot == RebootMode::Powercycle;
                let knows = !lane.has(Action::Rollback);
                let wrong = match mode {
                    _ if first => !cycles && !tried.contains(&pool),
                    RebootChoice::Powercycle => knows && !cycles,
                    RebootChoice::Default | RebootChoice::PowercycleFirst => cycles,
                };
                if wrong {
                    let number = hop.number;
                    self.fatal(
                        12,
                        format!("hop {number} reboots {node} as the policy does not say"),
                    );
                }
                if cycles {
                    here.insert(pool);
                }
            }
            tried.extend(here);
        }
    }

    /// Rules 5, 6 and 7: the order of one node's steps.
    fn order_of_steps(&mut self, at: &str, lane: &Lane) {
        let place = |action| lane.actions().position(|own| own == action);
        let reboot = lane.actions().position(Action::boots);
        let reboot_count = lane.actions().filter(|action| action.boots()).count();
        if reboot_count != 1 {
            self.fatal(5, format!("{at} reboots {reboot_count} times"));
        }
        if place(Action::Verify) <= reboot {
            self.fatal(5, format!("{at} is not verified after its reboot"));
        }
        if place(Action::Install).is_some_and(|install| Some(install) >= reboot) {
            self.fatal(5, format!("{at} is installed after its reboot"));
        }
        match (place(Action::Cordon), place(Action::Uncordon)) {
            (Some(cordon), Some(uncordon))
                if Some(cordon) < reboot && Some(uncordon) > place(Action::Verify) => {}
            _ => self.fatal(7, format!("{at} is not cordoned before and uncordoned after")),
        }
        let alone = self.snapshot.nodes.len() == 1;
        let drained = place(Action::Drain)
            .is_some_and(|drain| place(Action::Cordon) < Some(drain) && Some(drain) < reboot);
        if !drained && !alone {
            self.fatal(6, format!("{at} reboots without its pods being evicted"));
        }
    }

    /// Rule 4: what the node has, it keeps, or the plan says otherwise.
    fn nothing_dropped(&mut self, at: &str, hop: &Hop, target: &TalosTarget, has: &[&str]) {
        let to = hop.change.to();
        if target.installer.version().as_ref() != Some(to) {
            self.fatal(4, format!("{at}: {} does not install {to}", target.installer));
        }
        let carries = |schematic: &str| target.installer.repository.contains(schematic);
        if let Some(schematic) = &target.schematic
            && target.installer.repository.rsplit('/').next().is_some_and(is_schematic)
            && !carries(schematic)
        {
            self.fatal(4, format!("{at}: {} is not schematic {schematic}", target.installer));
        }
        let Some(kept) = &target.extensions else { return };
        let lost: Vec<&str> =
            has.iter().copied().filter(|name| !kept.iter().any(|kept| kept == name)).collect();
        if !lost.is_empty() {
            let text = format!("{at} loses {}", lost.join(", "));
            self.findings.push(Finding { rule: 4, severity: Severity::Warning, text });
        }
        let names_schematic =
            target.installer.repository.rsplit('/').next().is_some_and(is_schematic);
        if !kept.is_empty() && !names_schematic {
            let promised = kept.join(", ");
            self.fatal(4, format!("{at}: {} cannot bring {promised}", target.installer));
        }
    }
}

fn is_schematic(part: &str) -> bool {
    part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn within_a_minor(from: &Version, to: &Version) -> bool {
    let (low, high) = if from <= to { (from, to) } else { (to, from) };
    low.minor().steps_to(high.minor()).is_some_and(|steps| !guard!(Mutant::MinorSkipped, steps > 1))
}
